//! Why an operation has no answer.

use std::error::Error as StdError;
use std::sync::Arc;

use leastlock_core::{Engine, ErrorClass};

use crate::error::Error;

/// Why a batch could not be applied; what [`Apply::apply`](super::Apply::apply) ends with.
///
/// An operation's *own* refusal is no error of the batch: it is that operation's answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The database refused a statement, or could not be reached. Where a table or a column is missing, the text says which
    /// migrations a [`StockCounter`](crate::StockCounter) needs.
    #[error("the database refused a statement of the batch{}", hint(source))]
    Database {
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// A guarded or versioned statement has no outcome.
    #[error("a checked statement of the batch has no outcome")]
    Checked {
        /// Why.
        #[source]
        source: Error,
    },
    /// Another transaction came between two statements of the batch; at the next attempt it is seen. When the next attempt is raced
    /// as well, the batch is split, so that an operation that is raced for ever fails alone.
    #[error("another transaction wrote the same order ids at the same time")]
    Raced,
    /// The function that applies batches left an operation without an answer, so that nothing may be committed.
    #[error("operation {index} of the batch was left without an answer")]
    Unanswered {
        /// Its place in the batch.
        index: usize,
    },
    /// The function that applies batches panicked; the transaction is rolled back.
    #[error("the function that applies batches panicked: {message}")]
    Panicked {
        /// The panic's message, where it has one.
        message: String,
    },
    /// The batch did not end within its limit of time.
    #[error("the batch did not end within its limit of time")]
    TimedOut,
    /// An error of the application's own: an operation with which the batch can never be applied.
    #[error("the batch cannot be applied")]
    Operation {
        /// What the application said.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Why an operation has no answer.
///
/// Only [`Unknown`](Self::Unknown) leaves open whether the operation was applied; every other variant says that it was not.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// The combiner is closed, or was before the operation's turn came. Not applied.
    #[error("the combiner is closed; the operation was not applied")]
    Closed,
    /// The operation failed alone, or as often as the limit allows. Rolled back: not applied.
    #[error("the operation was not applied: its transaction was rolled back (attempts: {attempts})")]
    Failed {
        /// How often a transaction with this operation was tried since it was last split; once it was alone, how often in all.
        attempts: u32,
        /// The last attempt's error.
        #[source]
        source: Arc<BatchError>,
    },
    /// The reply to the commit was lost and nothing definite could be read. It may have been applied: look, or send the
    /// operation again if a repeat is absorbed (an order id).
    #[error("whether the operation was committed is unknown; look before it is sent again")]
    Unknown,
}

impl BatchError {
    /// An error of the application's own. The batch is split until the operation that causes it is alone.
    pub fn operation(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Operation { source: source.into() }
    }

    /// The class of the database's error that it is, given that of database errors.
    pub(super) fn class(&self, class: impl Fn(&sqlx::Error) -> ErrorClass) -> Option<ErrorClass> {
        match self {
            Self::Database { source } => Some(class(source)),
            Self::Checked { source: Error::Database { class, .. } } => Some(*class),
            Self::TimedOut => Some(ErrorClass::StatementTimeout),
            Self::Checked { .. }
            | Self::Raced
            | Self::Unanswered { .. }
            | Self::Panicked { .. }
            | Self::Operation { .. } => None,
        }
    }

    /// Whether a statement outside of a transaction that ended so may have taken effect, given the class of database errors.
    ///
    /// A refusal of the database's own says that it has not: the statement is rolled back. On PostgreSQL that goes for a
    /// cancelled one too (57014): a cancellation that comes after the commit is no error, at most a warning (`SyncRepWaitForLSN`
    /// in its `syncrep.c`), and the statement is reported as done. Of other engines that is not known.
    pub(super) fn leaves_commit_unknown(&self, class: impl Fn(&sqlx::Error) -> ErrorClass, engine: Engine) -> bool {
        let source = match self {
            Self::Database { source } | Self::Checked { source: Error::Database { source, .. } } => source,
            Self::Checked { source: Error::CommitUnknown { .. } } | Self::TimedOut | Self::Panicked { .. } => {
                return true;
            }
            Self::Checked { .. } | Self::Raced | Self::Unanswered { .. } | Self::Operation { .. } => return false,
        };
        match (self.class(class), source) {
            (Some(ErrorClass::ConnectionLost), _) => true,
            (Some(ErrorClass::StatementTimeout), _) => engine != Engine::Postgres,
            // Refused, or never sent.
            (
                _,
                sqlx::Error::Database(_)
                | sqlx::Error::Encode(_)
                | sqlx::Error::InvalidArgument(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed,
            ) => false,
            // Such as an answer that cannot be read: the statement that gave it has run.
            _ => true,
        }
    }

    /// What is done about it, given the class of database errors.
    pub(super) fn remedy(&self, class: impl Fn(&sqlx::Error) -> ErrorClass) -> Remedy {
        match self.class(class) {
            Some(ErrorClass::LockTimeout | ErrorClass::StatementTimeout) => Remedy::IsolateThenSetAside,
            Some(class) if class.is_retryable() => Remedy::TryAgain,
            None if matches!(self, Self::Raced) => Remedy::TryAgainThenIsolate,
            _ => Remedy::Isolate,
        }
    }
}

/// What to look at first, when a name in a statement is not known to the database.
fn hint(source: &sqlx::Error) -> &'static str {
    /// `undefined_table` on PostgreSQL, `ER_NO_SUCH_TABLE` on MySQL, and SQLite's one code for what cannot be prepared.
    const UNKNOWN_NAME: [&str; 3] = ["42P01", "42S02", "1"];
    let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code);
    match code {
        Some(code) if UNKNOWN_NAME.contains(&&*code) => {
            "; if a table of leastlock's is missing, run `leastlock_occ::MIGRATIONS` once, which order ids need"
        }
        _ => "",
    }
}

/// What is done about a batch that was rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// The whole batch again: the error is about other transactions or the connection.
    TryAgain,
    /// The whole batch again; if that ends in the same way, one operation is to blame, and the batch is split; alone, it is tried
    /// again.
    TryAgainThenIsolate,
    /// One operation is to blame: the batch is split until it is alone; alone, it fails.
    Isolate,
    /// One operation probably waits for somebody else's lock: the batch is split so that the others need not; alone, it is
    /// tried again after them.
    IsolateThenSetAside,
}

impl CombineError {
    /// Whether it is open whether the operation was applied.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown)
    }
}

impl From<sqlx::Error> for BatchError {
    fn from(source: sqlx::Error) -> Self {
        Self::Database { source }
    }
}

impl From<Error> for BatchError {
    fn from(source: Error) -> Self {
        Self::Checked { source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classed(class: ErrorClass) -> BatchError {
        Error::Database { class, source: sqlx::Error::PoolTimedOut }.into()
    }

    fn other(_: &sqlx::Error) -> ErrorClass {
        ErrorClass::Other
    }

    #[test]
    fn only_what_was_refused_or_never_sent_has_no_effect_for_certain() {
        let leaves_unknown = |error: &BatchError, engine| error.leaves_commit_unknown(other, engine);
        let io = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        let is_lost = |error: &sqlx::Error| match error {
            sqlx::Error::Io(_) => ErrorClass::ConnectionLost,
            _ => ErrorClass::Other,
        };
        assert!(BatchError::from(io()).leaves_commit_unknown(is_lost, Engine::Postgres));
        for unknown in [
            classed(ErrorClass::ConnectionLost),
            Error::CommitUnknown { source: io() }.into(),
            BatchError::TimedOut,
            BatchError::Panicked { message: String::new() },
            sqlx::Error::Decode("no number".into()).into(),
            sqlx::Error::RowNotFound.into(),
        ] {
            assert!(leaves_unknown(&unknown, Engine::Postgres), "{unknown:?}");
        }
        for known in [
            classed(ErrorClass::LockTimeout),
            sqlx::Error::PoolTimedOut.into(),
            BatchError::Raced,
            BatchError::Unanswered { index: 0 },
            BatchError::operation("never"),
        ] {
            assert!(!leaves_unknown(&known, Engine::MySql), "{known:?}");
        }
        let cancelled = classed(ErrorClass::StatementTimeout);
        let engines = [Engine::Postgres, Engine::Sqlite, Engine::MySql];
        assert_eq!(engines.map(|engine| leaves_unknown(&cancelled, engine)), [false, true, true]);
    }

    #[test]
    fn remedy_depends_on_whose_fault_it_is() {
        for (error, remedy) in [
            (classed(ErrorClass::Deadlock), Remedy::TryAgain),
            (classed(ErrorClass::PoolTimeout), Remedy::TryAgain),
            (classed(ErrorClass::LockTimeout), Remedy::IsolateThenSetAside),
            (BatchError::TimedOut, Remedy::IsolateThenSetAside),
            (BatchError::Raced, Remedy::TryAgainThenIsolate),
            (classed(ErrorClass::Other), Remedy::Isolate),
            (BatchError::operation("never"), Remedy::Isolate),
        ] {
            assert_eq!(error.remedy(other), remedy, "{error:?}");
        }
    }
}
