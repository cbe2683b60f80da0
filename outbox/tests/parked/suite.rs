//! All cases of parked events.

pub(crate) use crate::crash::*;
pub(crate) use crate::operator::*;
pub(crate) use crate::parking::*;
pub(crate) use crate::random::*;
pub(crate) use crate::unreadable::*;
