//! What a unit of work failed with, and what the retry makes of it.

use std::time::Duration;

use leastlock_core::{Dialect, classify};

use super::conflict_class::ConflictClass;
use crate::conflict::Conflict;
use crate::error::Error;
use crate::transition::{StateConflict, Transition};

/// An error of a unit of work on `DB`, which may be a conflict with another one.
///
/// Derived for an enum, it asks the field that a variant was made `#[from]`; every other variant is no conflict:
///
/// ```
/// use leastlock_occ::{Conflict, MayConflict};
///
/// #[derive(Debug, thiserror::Error, MayConflict)]
/// enum PayError {
///     #[error("there is no such account")]
///     NoAccount,
///     #[error(transparent)]
///     Conflict(#[from] Conflict),
///     #[error(transparent)]
///     Database(#[from] leastlock_occ::Error),
///     #[error(transparent)]
///     #[conflict(never)]
///     BadRequest(#[from] std::num::ParseIntError),
/// }
/// ```
///
/// | attribute | meaning |
/// |---|---|
/// | `#[from]`, on a field | thiserror's, whose type is asked; one that is no `MayConflict` does not compile |
/// | `#[conflict]`, on a field | the same, for who writes the conversion by hand |
/// | `#[conflict(never)]`, on a variant | it is none, whatever it holds |
/// | `#[conflict(crate = "prelude::occ")]`, on the enum | where the generated code finds this crate, as for [`Versioned`](crate::Versioned) |
///
/// # Which types it can be
/// - An enum of the application's own, as above, or any type with an `impl` by hand. [`Retry`](crate::Retry) also wants `From<Error>`,
///   for the error of a `BEGIN`.
/// - This crate's [`Error`], for units that decide by [`guarded`](crate::guarded()) statements and locks only.
/// - Not `Box<dyn Error>` and not `anyhow::Error`. In these a conflict could only be looked for along `source()`, where
///   thiserror's `transparent` does not show it; it would be overlooked, and never run again.
///
/// # Contract
/// [`conflict`](Self::conflict) answers one only if nothing was committed and a rerun can see what stood against it: for a
/// [`Conflict`], or an error of sqlx's or of this crate of which its own `conflict` says so. It is never one for a lost
/// connection, a time-out, or [`Error::CommitUnknown`], and for a [`StateConflict`] only if it is a stale version.
#[diagnostic::on_unimplemented(
    note = "for an enum of errors, `#[derive(MayConflict)]` asks the fields that are `#[from]`",
    note = "for a variant that is never a conflict, write `#[conflict(never)]` on it"
)]
pub trait MayConflict<DB: Dialect> {
    /// The conflict that it is, if running the whole unit of work again, in a fresh transaction, is the answer to it.
    fn conflict(&self) -> Option<ConflictClass>;
}

impl<DB: Dialect> MayConflict<DB> for Conflict {
    fn conflict(&self) -> Option<ConflictClass> {
        Some(ConflictClass::Version)
    }
}

/// Only a stale version is one. A row in another state, or without a row, is an answer: a unit whose `from` is fixed would meet
/// it again in every attempt, and be told at last that the row is too hot. A unit that *reads* the state in each attempt and
/// decides by it does profit from a rerun. It says so in its own error type, with [`ConflictClass::State`]:
///
/// ```
/// # use leastlock_core::Dialect;
/// # use leastlock_occ::{ConflictClass, MayConflict, StateConflict, Transition};
/// # struct MoveOn<S>(StateConflict<S>);
/// impl<DB: Dialect, S: Transition> MayConflict<DB> for MoveOn<S> {
///     fn conflict(&self) -> Option<ConflictClass> {
///         match self.0 {
///             StateConflict::State { .. } => Some(ConflictClass::State),
///             _ => MayConflict::<DB>::conflict(&self.0),
///         }
///     }
/// }
/// ```
impl<DB: Dialect, S: Transition> MayConflict<DB> for StateConflict<S> {
    fn conflict(&self) -> Option<ConflictClass> {
        match self {
            Self::Stale { .. } => Some(ConflictClass::Version),
            Self::State { .. } | Self::Gone => None,
        }
    }
}

impl<DB: Dialect> MayConflict<DB> for Error {
    fn conflict(&self) -> Option<ConflictClass> {
        match self {
            Self::Database { class, .. } => ConflictClass::of(*class),
            _ => None,
        }
    }
}

impl<DB: Dialect> MayConflict<DB> for sqlx::Error {
    fn conflict(&self) -> Option<ConflictClass> {
        ConflictClass::of(classify::<DB>(self))
    }
}

/// Why a unit of work has not committed. Except for [`Error::CommitUnknown`] in [`Failed`](Self::Failed), nothing of it is in
/// the database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError<E> {
    /// The unit of work failed with what is no conflict, so that a rerun would meet it again or might repeat an effect.
    #[error("the unit of work failed, and not by a conflict")]
    Failed(#[source] E),
    /// Every attempt met a conflict. The text says what can be done about the last one's class.
    #[error("every attempt met a conflict ({attempts} in {elapsed:?}): {}", class.advice())]
    Exhausted {
        /// What kind of conflict the last one met.
        class: ConflictClass,
        /// How many were made.
        attempts: u32,
        /// Since the first began.
        elapsed: Duration,
        /// The conflict that the last one met.
        #[source]
        last: E,
    },
    /// A retry was started inside a unit of work of another one. Pass the conflict up to the outer one.
    #[error("a retry inside a unit of work would repeat a part of it; pass the conflict up to the outer retry")]
    Nested,
}
