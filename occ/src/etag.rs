//! Versions over HTTP: entity tags and the conditions on them (RFC 9110).
//!
//! A client that reads a row is given its version as a strong entity tag, sends it back in `If-Match` with a write, and
//! hears 412 if somebody else came between. Both ends come from the version column: the tag is made from the version that
//! was loaded, and the write is checked against the version in the table by the database itself. A tag made of anything else, such as a hash of the
//! body, can be equal again after other writers came between, and says nothing of columns that the body does not show.
//!
//! ```
//! use leastlock_occ::Version;
//! use leastlock_occ::etag::{IfMatch, Rejected, etag};
//!
//! # fn main() -> Result<(), Rejected> {
//! let current = Some(Version::new(3));
//! assert_eq!(etag(Version::new(3)), "\"v3\"");
//!
//! // PUT with `If-Match: "v3"`; the header's lines as they came.
//! let condition = IfMatch::required(["\"v3\""])?;
//! condition.check(current)?;
//!
//! assert_eq!(IfMatch::required([] as [&str; 0]).unwrap_err().status(), 428);
//! assert_eq!(IfMatch::required(["\"v2\", W/\"v3\""])?.check(current).unwrap_err().status(), 412);
//! # Ok(())
//! # }
//! ```
//!
//! Between the check and the write others may still come: use the loaded value's `update`, and turn a
//! [`Conflict`] into a [`Rejected`] as well (`?` does it).
//!
//! A header may come in several lines, which mean the same as one line with commas (RFC 9110, 5.3), so lines are taken, as text
//! or bytes: `headers.get_all("if-match")` of the `http` crate is such a list.

use std::fmt;

use crate::conflict::Conflict;
use crate::version::Version;

mod parse;

use self::parse::Condition;
pub use self::parse::{EntityTag, MalformedHeader};

/// The version as a strong entity tag, quotes included: `"v3"` is version 3.
///
/// The letter keeps it from being taken for a number to be counted with, and apart from tags that others make.
#[must_use]
pub fn etag(version: Version) -> String {
    format!("\"v{version}\"")
}

/// A condition under which a write may happen: `If-Match` (RFC 9110, 13.1.1).
///
/// Comparison is strong (8.8.3.2): a weak tag never matches, not even one that a proxy made weak of our own. So does no
/// tag that is not a version's, and none in another spelling of a number (`"v03"`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfMatch(Condition);

impl IfMatch {
    /// The condition in these header lines; `None` if there are none.
    ///
    /// # Errors
    /// [`MalformedHeader`], which is a 400.
    pub fn parse<L: AsRef<[u8]>>(lines: impl IntoIterator<Item = L>) -> Result<Option<Self>, MalformedHeader> {
        Condition::parse(lines).map(|condition| condition.map(Self))
    }

    /// The same where a write without a condition is not accepted, which keeps clients from writing over what they have not read.
    ///
    /// # Errors
    /// [`Rejected::Required`] (428, RFC 6585, 3) if there are none; [`Rejected::Malformed`].
    pub fn required<L: AsRef<[u8]>>(lines: impl IntoIterator<Item = L>) -> Result<Self, Rejected> {
        Self::parse(lines)?.ok_or(Rejected::Required)
    }

    /// Whether the condition holds for a row of this version; `None` if there is no such row. `*` holds for any row.
    #[must_use]
    pub fn holds(&self, current: Option<Version>) -> bool {
        current.is_some_and(|version| self.0.names(version, EntityTag::matches_strongly))
    }

    /// The same as a result.
    ///
    /// # Errors
    /// [`Rejected::Stale`] (412).
    pub fn check(&self, current: Option<Version>) -> Result<(), Rejected> {
        if self.holds(current) { Ok(()) } else { Err(Rejected::Stale) }
    }
}

/// A condition under which a read is answered, or something is created: `If-None-Match` (RFC 9110, 13.1.2).
///
/// Comparison is weak: `W/"v3"` matches version 3, since a cache may have made it weak and its copy is still good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfNoneMatch(Condition);

impl IfNoneMatch {
    /// The condition in these header lines; `None` if there are none.
    ///
    /// # Errors
    /// [`MalformedHeader`], which is a 400.
    pub fn parse<L: AsRef<[u8]>>(lines: impl IntoIterator<Item = L>) -> Result<Option<Self>, MalformedHeader> {
        Condition::parse(lines).map(|condition| condition.map(Self))
    }

    /// Whether the condition holds for a row of this version; `None` if there is no such row. `*` holds only where there is none.
    #[must_use]
    pub fn holds(&self, current: Option<Version>) -> bool {
        !current.is_some_and(|version| self.0.names(version, EntityTag::matches_weakly))
    }

    /// For a `GET` or `HEAD`: whether to answer the row, or that the client's copy is still good.
    pub fn read(&self, current: Option<Version>) -> Read {
        if self.holds(current) { Read::Changed } else { Read::NotModified }
    }

    /// For any other method, such as a `PUT` with `If-None-Match: *` that may only create.
    ///
    /// # Errors
    /// [`Rejected::Stale`] (412). Between this and an insert others may still come; the insert's unique key decides.
    pub fn check(&self, current: Option<Version>) -> Result<(), Rejected> {
        if self.holds(current) { Ok(()) } else { Err(Rejected::Stale) }
    }
}

/// What to answer a conditional read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a read whose copy is still good is answered without a body"]
pub enum Read {
    /// The row, with its entity tag.
    Changed,
    /// 304, with the entity tag and no body.
    NotModified,
}

/// Why a conditional write is refused, each with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// 400: the header is not what RFC 9110 says.
    #[error("the precondition cannot be read; send entity tags in quotes, or *")]
    Malformed(#[from] MalformedHeader),
    /// 412: the row is not, or no longer, as the client believes.
    #[error("the precondition failed: the row is not as it was read; read it again")]
    Stale,
    /// 428: the client did not say which version it has read.
    #[error("a precondition is required; send the entity tag of the version that was read in If-Match")]
    Required,
}

impl Rejected {
    /// The status code.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::Stale => 412,
            Self::Required => 428,
        }
    }
}

impl From<Conflict> for Rejected {
    /// A conflict found by the write itself is the same to the client as one found before.
    fn from(_: Conflict) -> Self {
        Self::Stale
    }
}

impl fmt::Display for EntityTag {
    /// As it stands in a header, what is not ASCII replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weak = if self.is_weak() { "W/" } else { "" };
        write!(f, "{weak}\"{}\"", String::from_utf8_lossy(self.opaque()))
    }
}
