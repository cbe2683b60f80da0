//! How work fails, and whether its outcome is known.

use std::error::Error as StdError;
use std::fmt;

use crate::error::{Error, Outcome};

#[cfg(test)]
mod tests;

/// A failure of the work under a lease. `?` makes one of any error.
///
/// What matters to the lease is whether the *outcome* is known. A refused check or a violated constraint is: nothing
/// was committed, so the lease can be released. The lost reply of a `COMMIT` is not: the write may land after the next
/// holder has begun, so the lease is left to expire. `?` tells them apart by the error and its sources:
///
/// | error | outcome |
/// |---|---|
/// | a connection that broke: [`sqlx::Error::Io`] and its kin, the database's codes for a lost session or a cancelled statement, and any [`std::io::Error`] | unknown, on whatever statement it came |
/// | of this crate: a [refusal](Error::Refused), another [holder](Error::Held), a seal or a check that [failed](Error::Database) or [timed out](Error::SealTimeout), a period that is [done](Error::PeriodDone), a name or a hold that is none, no [permit](Error::Unconfirmed) | known: nothing of the work's was committed by it |
/// | [`Error::Commit`], [`Error::Write`] | as its source says |
/// | [`Error::Work`] of a lease inside of this one | as it was there |
/// | [`Error::Lost`] and [`Error::Cancelled`], also of a lease inside of this one, [`Error::File`], [`Error::ObjectStore`], [`Error::Record`], [`Error::Store`], [`Error::Unanswered`] | unknown |
/// | anything else | known |
///
/// Who knows better says so with [`known`](Self::known) or [`unknown`](Self::unknown).
///
/// ```
/// use leastlock_lease::WorkError;
///
/// let cut = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
/// assert!(!WorkError::from(cut).is_known());
/// assert!(WorkError::from("no such tenant").is_known());
/// ```
pub struct WorkError {
    known: bool,
    source: Box<dyn StdError + Send + Sync>,
}

impl WorkError {
    /// A failure after which it is certain what the work has done.
    pub fn known(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { known: true, source: source.into() }
    }

    /// A failure after which some of the work's effect may still come.
    pub fn unknown(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { known: false, source: source.into() }
    }

    /// Whether the outcome is known.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.known
    }

    /// The error, as the caller of `run` gets it: one of this crate's own comes through as it is, unless its author knows that it
    /// leaves more unknown than it says.
    pub(crate) fn into_error(self) -> Error {
        let known = self.known;
        match self.source.downcast::<Error>() {
            Ok(error) if known || leaves_outcome_unknown(error.as_ref()) => *error,
            Ok(error) => Error::Work { known, source: error },
            Err(source) => Error::Work { known, source },
        }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for WorkError {
    fn from(error: E) -> Self {
        let source = error.into();
        Self { known: !leaves_outcome_unknown(source.as_ref()), source }
    }
}

impl fmt::Debug for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkError").field("known", &self.known).field("source", &self.source).finish()
    }
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

fn leaves_outcome_unknown(error: &(dyn StdError + 'static)) -> bool {
    let mut link = Some(error);
    while let Some(error) = link {
        match error.downcast_ref().map_or(Outcome::AsItsSourceSays, Error::outcome) {
            Outcome::Known => return false,
            Outcome::Unknown => return true,
            Outcome::AsItsSourceSays => {}
        }
        if error.is::<std::io::Error>() || error.downcast_ref().is_some_and(commit_may_have_happened) {
            return true;
        }
        link = error.source();
    }
    false
}

fn commit_may_have_happened(error: &sqlx::Error) -> bool {
    // The engines' codes have different shapes, so each may be asked about the other's.
    #[cfg(feature = "postgres")]
    if leastlock_core::classify::<sqlx::Postgres>(error).leaves_commit_unknown() {
        return true;
    }
    #[cfg(feature = "sqlite")]
    if leastlock_core::classify::<sqlx::Sqlite>(error).leaves_commit_unknown() {
        return true;
    }
    #[cfg(feature = "mysql")]
    if leastlock_core::classify::<sqlx::MySql>(error).leaves_commit_unknown() {
        return true;
    }
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed)
}
