//! What a checked write found instead of the version it expected.

use std::fmt;

use crate::version::Version;

/// Why a checked write was refused. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a conflict means that nothing was written"]
pub enum Conflict {
    /// Somebody else wrote the row.
    Stale {
        /// The version that the write was made for.
        expected: Version,
        /// The version that stands in the table now, read by a statement of its own after the refused write: the
        /// write's own snapshot may still show the old one.
        actual: Version,
    },
    /// The row is not there any more.
    Gone,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { expected, actual } => write!(f, "stale: expected {expected}, found {actual}"),
            Self::Gone => f.write_str("gone: the row no longer exists"),
        }
    }
}

/// The outcome of a checked update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "an update that ran without error may have met a conflict"]
pub enum Update<T> {
    /// Written; this is the value as it now stands in the table, with its new version.
    Applied(T),
    /// Not written.
    Conflict(Conflict),
}

impl<T> Update<T> {
    /// The new value, or what stood against it: for `?` where a conflict ends the unit of work.
    pub fn into_result(self) -> Result<T, Conflict> {
        match self {
            Self::Applied(value) => Ok(value),
            Self::Conflict(conflict) => Err(conflict),
        }
    }
}

/// The outcome of a checked delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a delete that ran without error may have met a conflict"]
pub enum Delete {
    /// Deleted.
    Applied,
    /// Not deleted.
    Conflict(Conflict),
}

impl std::error::Error for Conflict {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_says_what_was_expected_and_what_was_found() {
        let stale = Conflict::Stale { expected: Version::new(3), actual: Version::new(5) };
        assert_eq!(stale.to_string(), "stale: expected 3, found 5");
        assert_eq!(Conflict::Gone.to_string(), "gone: the row no longer exists");
    }
}
