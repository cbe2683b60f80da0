//! The version of a row.

use std::fmt;

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

use crate::error::Error;

/// The version of a row: how often it has been written, as the database counts it.
///
/// Any `i64` that stands in the column is a version, zero included; NULL is none. Versions start at 1 on insert, every
/// write adds one, and there is no way past `i64::MAX`: that is an error, never a wrap.
///
/// ```
/// use leastlock_occ::Version;
///
/// assert_eq!(Version::FIRST, Version::new(1));
/// assert_eq!(Version::new(0).next().unwrap(), Version::FIRST);
/// assert!(Version::new(i64::MAX).next().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(i64);

impl Version {
    /// The version of a row that was just inserted.
    pub const FIRST: Self = Self(1);

    /// The version that stands in a column.
    #[must_use]
    pub const fn new(version: i64) -> Self {
        Self(version)
    }

    /// The number as it stands in the column.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// The version after one more write.
    ///
    /// # Errors
    /// [`Error::VersionOverflow`] at `i64::MAX`.
    pub fn next(self) -> Result<Self, Error> {
        self.0.checked_add(1).map(Self).ok_or(Error::VersionOverflow { version: self })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl From<i64> for Version {
    fn from(version: i64) -> Self {
        Self(version)
    }
}

impl From<Version> for i64 {
    fn from(version: Version) -> Self {
        version.0
    }
}

/// As an `i64`, so that it can be bound and stand in a struct that derives `sqlx::FromRow`.
impl<DB: Database> Type<DB> for Version
where
    i64: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        i64::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        i64::compatible(ty)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Version
where
    i64: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.0.encode_by_ref(buffer)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Version
where
    i64: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        i64::decode(value).map(Self)
    }
}
