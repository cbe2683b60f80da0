//! What can go wrong, and whether a retry helps.

use leastlock_core::{Dialect, Engine, ErrorClass, classify};

use crate::response::BoxError;

/// Why an operation on idempotency keys did not come to an answer. Expected outcomes (a replay, a mismatch, a key in
/// flight) are not errors: see [`Begin`](crate::Begin).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database refused or could not be reached. Nothing of the unit was kept, unless the error came from the caller's
    /// own transaction, which is then to be rolled back.
    #[error("the idempotency store failed, so the request did not run: {class}")]
    Database {
        /// What the error means.
        class: ErrorClass,
        /// What the driver said.
        #[source]
        source: sqlx::Error,
    },
    /// The reply of the commit was lost: the effect and its answer are both there or both not. Ask again with the same key.
    #[error("whether the unit was committed is unknown; begin again with the same key to learn it")]
    CommitUnknown {
        /// What the driver said.
        #[source]
        source: sqlx::Error,
    },
    /// The transaction had ended before its `COMMIT`, unnoticed: MariaDB ends one with a deadlock, whose error was then ignored, and
    /// commits one with DDL; SQLite ends one by `INSERT OR ROLLBACK` or `RAISE(ROLLBACK)`. What ran before that is gone (with DDL:
    /// committed), and statements since then were committed one by one. Nothing was recorded. Give up the whole transaction
    /// after an error in it.
    #[error(
        "the transaction had ended before its commit, and nothing was recorded: an error that ended it was ignored, or DDL ran in it; \
         statements after that were committed one by one"
    )]
    TransactionEnded {
        /// How the database said so.
        #[source]
        source: sqlx::Error,
    },
    /// SQLite's write lock was not had within the wait limit; it guards all keys, so this says nothing about this one.
    #[error("the database's write lock was not free within the wait limit; try again later")]
    Busy {
        /// What the driver said.
        #[source]
        source: sqlx::Error,
    },
    /// An earlier transaction committed its claim of this key without an answer, so its effects may be there. It is not run
    /// again: complete every claim made with `begin_in` before committing. The record ends with its retention.
    #[error("this key was claimed and committed without an answer; its effects may be there, so it is not run again")]
    CommittedWithoutAnswer,
    /// A run of the phased mode has the key, and has not finished: it is at work, its owner has died, or it is held. Begin with
    /// [`Phased`](crate::phased::Phased), or ask again later: a finished one is replayed in either mode.
    #[error("a run of the phased mode has this key and is not finished; begin it there, or ask again later")]
    Phased,
    /// The record was claimed and deleted by others each time it was looked at.
    #[error("the record changed hands on each of {looks} looks; try again later")]
    Unsettled {
        /// How often it was looked at.
        looks: u32,
    },
    /// The claim being completed is not there any more: it was deleted, or expired and was claimed anew.
    #[error("the claim is gone, so its answer cannot be stored; roll the transaction back")]
    ClaimGone,
    /// The answer is larger than the limit.
    #[error(
        "the answer takes {bytes} bytes, the limit is {limit}; raise max_response_bytes or store a reference to it"
    )]
    ResponseTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The stored answer was sealed by a cipher that these keys do not have. The request did run and is not run again.
    #[error("the stored answer was sealed by the cipher {name:?}; give KeysBuilder::cipher one that opens it")]
    SealedByAnother {
        /// The cipher's name, as it was stored.
        name: String,
    },
    /// The cipher failed: to seal, and nothing was kept; or to open, because the stored answer was changed or belongs to
    /// another record.
    #[error("the answer could not be sealed or opened by the cipher")]
    Cipher {
        /// What the cipher said.
        #[source]
        source: BoxError,
    },
    /// The answer could not be written.
    #[error("the answer cannot be serialized")]
    Serialize {
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The stored answer could not be read as the type asked for: it was stored by another version of the program.
    #[error("the stored answer does not fit the type asked for; the request did run and is not run again")]
    Deserialize {
        /// Why.
        #[source]
        source: BoxError,
    },
    /// The key is another owner's by now: this one outlived its lease, or an operator resolved the key. Nothing was written.
    #[error(
        "another owner has taken the key over, so nothing was written; begin again with the same key to learn the outcome"
    )]
    Superseded,
    /// The request's time is over, so the step did not start: no call of it is unknown. (A step that was started before, and not heard
    /// of again, is not called again either: its key is held.)
    #[error(
        "the request has expired, so the step did not start; compensate what was done and complete with that answer"
    )]
    RequestExpired,
    /// The key is held because an outcome is unknown.
    #[error("the key is held: an outcome is unknown and has to be resolved first")]
    Held,
    /// The step log refused it.
    #[error("the step was refused: {source}")]
    Step {
        /// Why.
        #[source]
        source: crate::phased::StepError,
    },
    /// The database did not answer in time, and what it did is unknown.
    #[error("the database did not answer within {limit:?}; begin again with the same key to learn what was written")]
    NoAnswer {
        /// How long it was waited for.
        limit: std::time::Duration,
    },
    /// A resolution without a name or a reason, which the audit needs.
    #[error(
        "a resolution needs the name of who decided it (at most 255 bytes) and a reason (at most 4,000), for the audit"
    )]
    Unaccounted,
    /// The operating system gave no random numbers, without which claims cannot be told apart.
    #[error("the operating system gave no random numbers")]
    Randomness {
        /// What it said.
        #[source]
        source: getrandom::Error,
    },
}

impl Error {
    /// Whether beginning again with the same key, in a fresh transaction, can help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Database { class, .. } => class.is_retryable(),
            Self::CommitUnknown { .. }
            | Self::Busy { .. }
            | Self::Unsettled { .. }
            | Self::Phased
            | Self::Superseded
            | Self::NoAnswer { .. } => true,
            Self::CommittedWithoutAnswer
            | Self::TransactionEnded { .. }
            | Self::ClaimGone
            | Self::RequestExpired
            | Self::Held
            | Self::Unaccounted
            | Self::Step { .. }
            | Self::Randomness { .. }
            | Self::ResponseTooLarge { .. }
            | Self::SealedByAnother { .. }
            | Self::Cipher { .. }
            | Self::Serialize { .. }
            | Self::Deserialize { .. } => false,
        }
    }

    pub(crate) fn database<DB: Dialect>(source: sqlx::Error) -> Self {
        Self::Database { class: classify::<DB>(&source), source }
    }

    pub(crate) fn commit<DB: Dialect>(source: sqlx::Error) -> Self {
        let class = classify::<DB>(&source);
        match class {
            _ if class.leaves_commit_unknown() => Self::CommitUnknown { source },
            // There are no deferred constraints there: what is refused is the savepoint that lives as long as the transaction.
            ErrorClass::Other if DB::ENGINE == Engine::MySql => Self::TransactionEnded { source },
            _ => Self::Database { class, source },
        }
    }

    /// Of [`IdempotencySql::prove`](crate::IdempotencySql::prove).
    pub(crate) fn proof<DB: Dialect>(source: sqlx::Error) -> Self {
        match classify::<DB>(&source) {
            ErrorClass::Other => Self::TransactionEnded { source },
            class => Self::Database { class, source },
        }
    }

    pub(crate) fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Database { class, .. } => Some(*class),
            _ => None,
        }
    }
}
