//! How work fails, and whether its outcome is known.

use std::any::Any;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
use leastlock_core::Dialect;
use sqlx::error::DatabaseError;

use crate::error::{Error, Outcome};

#[cfg(test)]
mod tests;

/// A failure of the work under a lease. `?` makes one of any error that is `Send + Sync + 'static`.
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
/// | [`Error::Lost`] and [`Error::Cancelled`], also of a lease inside of this one, [`Error::OtherTurn`], [`Error::File`], [`Error::ObjectStore`], [`Error::Record`], [`Error::Store`], [`Error::Unanswered`] | unknown |
/// | any other [`sqlx::Error`] | known |
/// | a text: `&'static str`, `String` | known |
/// | another type, with one of these among its [sources](StdError::source) | as that one, and unknown if one of several is |
/// | another type, whose sources show none of them | **unknown** |
///
/// The last row is for errors that hide what has happened, and no program can tell which do: `anyhow::Error`, a boxed
/// error and a variant that is `#[error(transparent)]` show the sources of what they hold and not what it is, so a connection that broke in
/// one place and a lease that was lost in another look like a tenant that does not exist. In doubt the TTL ends the lease; who
/// knows better says so: `Err(WorkError::known(NoSuchTenant))`, `.map_err(WorkError::known)?`, and
/// [`unknown`](Self::unknown) for an outcome that is less certain than it looks.
///
/// ```
/// use leastlock_lease::WorkError;
///
/// let cut = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
/// assert!(!WorkError::from(cut).is_known());
/// assert!(WorkError::from("no such tenant").is_known());
/// assert!(WorkError::from(sqlx::Error::RowNotFound).is_known());
///
/// let of_the_shop: Box<dyn std::error::Error + Send + Sync> = "no such tenant".into();
/// assert!(!WorkError::from(of_the_shop).is_known(), "it could be anything");
/// # let of_the_shop = "no such tenant";
/// assert!(WorkError::known(of_the_shop).is_known());
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
            Ok(error) if known || !tells_the_outcome(error.as_ref()) => *error,
            Ok(error) => Error::Work { known, source: error },
            Err(source) => Error::Work { known, source },
        }
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>> + 'static> From<E> for WorkError {
    fn from(error: E) -> Self {
        // In its box it would have a type that nobody can name.
        let is_text = is_text(&error);
        let source = error.into();
        Self { known: is_text || tells_the_outcome(source.as_ref()), source }
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

fn is_text(error: &dyn Any) -> bool {
    error.is::<&'static str>() || error.is::<String>() || error.is::<Cow<'static, str>>()
}

/// Whether an error or one of its sources says what the work has done, and none says that it is unknown.
fn tells_the_outcome(error: &(dyn StdError + 'static)) -> bool {
    let (mut known, mut link) = (false, Some(error));
    while let Some(error) = link {
        match outcome(error) {
            Outcome::Unknown => return false,
            // What is under one of this crate's own is judged with it.
            Outcome::Known if error.is::<Error>() => return true,
            Outcome::Known => known = true,
            Outcome::AsItsSourceSays => {}
        }
        link = error.source();
    }
    known
}

/// What one link says, whatever its sources do.
fn outcome(error: &(dyn StdError + 'static)) -> Outcome {
    if let Some(own) = error.downcast_ref::<Error>() {
        return own.outcome();
    }
    let commit_may_have_happened = if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        match error {
            sqlx::Error::Database(error) => is_of_a_lost_session(error.as_ref()),
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
            _ => false,
        }
    } else if let Some(error) = error.downcast_ref::<Box<dyn DatabaseError>>() {
        // All that is left of an sqlx::Error in a type that shows the sources of what it holds.
        is_of_a_lost_session(error.as_ref())
    } else if error.is::<std::io::Error>() || is_of_an_object_store(error) {
        true
    } else {
        return Outcome::AsItsSourceSays;
    };
    if commit_may_have_happened { Outcome::Unknown } else { Outcome::Known }
}

/// The engines' codes have different shapes, so each may be asked about the other's.
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
    expect(unused_variables, reason = "there is no engine to ask")
)]
fn is_of_a_lost_session(error: &dyn DatabaseError) -> bool {
    #[cfg(feature = "postgres")]
    if sqlx::Postgres::class_of(error).leaves_commit_unknown() {
        return true;
    }
    #[cfg(feature = "sqlite")]
    if sqlx::Sqlite::class_of(error).leaves_commit_unknown() {
        return true;
    }
    #[cfg(feature = "mysql")]
    if sqlx::MySql::class_of(error).leaves_commit_unknown() {
        return true;
    }
    false
}

#[cfg(feature = "object-store")]
fn is_of_an_object_store(error: &(dyn StdError + 'static)) -> bool {
    error.is::<object_store::Error>()
}

#[cfg(not(feature = "object-store"))]
fn is_of_an_object_store(_error: &(dyn StdError + 'static)) -> bool {
    false
}
