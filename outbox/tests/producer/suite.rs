//! Everything that is mounted.

pub(crate) use crate::appended::*;
pub(crate) use crate::inbox::*;
pub(crate) use crate::plain_sql::*;
pub(crate) use crate::refused_rows::*;
#[cfg(feature = "postgres")]
pub(crate) use crate::rights::*;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use crate::strict::*;
