//! What [`mount!`](leastlock_testkit::mount) mounts.

pub(crate) use super::clusters::*;
pub(crate) use super::content::*;
pub(crate) use super::lost_answers::*;
pub(crate) use super::order::*;
pub(crate) use super::owners::*;
pub(crate) use super::random::*;
pub(crate) use super::slots::*;
