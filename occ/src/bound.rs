//! How many rows a statement may change.

use std::fmt;

/// How many rows a statement may change when it changes any. Changing none is always allowed: it means refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Bound {
    /// Just so many.
    Exactly(u64),
    /// So many or more.
    AtLeast(u64),
    /// So many or fewer.
    AtMost(u64),
}

impl Bound {
    /// Whether `rows` changed rows are allowed.
    #[must_use]
    pub const fn allows(self, rows: u64) -> bool {
        match self {
            Self::Exactly(n) => rows == n,
            Self::AtLeast(n) => rows >= n,
            Self::AtMost(n) => rows <= n,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(n) => write!(f, "exactly {n}"),
            Self::AtLeast(n) => write!(f, "at least {n}"),
            Self::AtMost(n) => write!(f, "at most {n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_allows_what_its_name_says() {
        let allowed = |bound: Bound| [1, 2, 3].map(|rows| bound.allows(rows));
        assert_eq!(allowed(Bound::Exactly(2)), [false, true, false]);
        assert_eq!(allowed(Bound::AtLeast(2)), [false, true, true]);
        assert_eq!(allowed(Bound::AtMost(2)), [true, true, false]);
    }

    #[test]
    fn a_bound_reads_as_a_sentence() {
        let words = [Bound::Exactly(1), Bound::AtLeast(2), Bound::AtMost(3)].map(|bound| bound.to_string());
        assert_eq!(words, ["exactly 1", "at least 2", "at most 3"]);
    }
}
