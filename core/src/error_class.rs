//! What a database error means for the caller.

use std::fmt;

use crate::dialect::Dialect;

/// The meaning of a database error, the same for every engine.
///
/// Nothing is ever decided by an error's text: the class comes from the SQLSTATE (PostgreSQL, Appendix A of its manual),
/// the extended result code (SQLite, "Result and Error Codes") or the error number (MariaDB, "Error Codes"; its SQLSTATE
/// is too coarse: `HY000` for most).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The isolation level found a conflict (`40001`, `SQLITE_BUSY_SNAPSHOT`, `1020`).
    SerializationFailure,
    /// The engine broke a deadlock by ending this transaction (`40P01`, `1213`).
    Deadlock,
    /// Another connection holds SQLite's one write lock (`SQLITE_BUSY`, `SQLITE_LOCKED`).
    Busy,
    /// A lock was not had within `lock_timeout` (`55P03`) or `innodb_lock_wait_timeout` (`1205`).
    LockTimeout,
    /// The statement was cancelled or exceeded `statement_timeout` (`57014`) or
    /// `max_statement_time` (`1969`).
    StatementTimeout,
    /// A unique key exists already (`23505`, `SQLITE_CONSTRAINT_UNIQUE`, `…_PRIMARYKEY`, `1062`).
    UniqueViolation,
    /// The connection is gone: cut, ended by the server, or past `idle_in_transaction_session_timeout` or MariaDB's
    /// `idle_transaction_timeout`. Whether a commit that was under way took effect is unknown.
    ConnectionLost,
    /// No connection was to be had from the pool in time.
    PoolTimeout,
    /// The server is there and cannot do it now: it only reads, as after a switchover (`25006`, `1290`, `1836`), or has no disk,
    /// memory or connection left (`53100`, `53200`, `53300`, `1021`, `1040`, `SQLITE_FULL`). The statement had no effect. Try again
    /// later, on a new connection where it is pooled: this one stays with the server that was demoted. MariaDB has one number
    /// (`1290`) for all that one of its options forbids, so a forbidden `LOAD DATA` is of this class too.
    Unavailable,
    /// Anything else: a retry would meet the same error.
    Other,
}

impl ErrorClass {
    /// Whether running the whole unit of work again, in a fresh transaction, can help.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::SerializationFailure
            | Self::Deadlock
            | Self::Busy
            | Self::LockTimeout
            | Self::StatementTimeout
            | Self::ConnectionLost
            | Self::PoolTimeout
            | Self::Unavailable => true,
            Self::UniqueViolation | Self::Other => false,
        }
    }

    /// Whether the unit of work met another one: a rerun in a fresh transaction sees what the other has done. The rest of
    /// what is [retryable](Self::is_retryable) is trouble with the server or a limit on waiting.
    #[must_use]
    pub const fn is_conflict(self) -> bool {
        matches!(self, Self::SerializationFailure | Self::Deadlock | Self::Busy)
    }

    /// Whether a `COMMIT` that ended with this error may have taken effect.
    #[must_use]
    pub const fn leaves_commit_unknown(self) -> bool {
        matches!(self, Self::ConnectionLost | Self::StatementTimeout)
    }
}

/// In words, for an error message. What is not recognised is most often a table that is not there, so that is asked about:
/// SQLite has no code of its own for it.
impl fmt::Display for ErrorClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::SerializationFailure => "a serialization failure",
            Self::Deadlock => "a deadlock",
            Self::Busy => "the write lock was not free",
            Self::LockTimeout => "a lock was not had in time",
            Self::StatementTimeout => "the statement was cancelled or took too long",
            Self::UniqueViolation => "a unique key exists already",
            Self::ConnectionLost => "the connection is gone",
            Self::PoolTimeout => "no connection was to be had in time",
            Self::Unavailable => "the server only reads, or has no disk, memory or connection left",
            Self::Other => "it refused the statement; have the crate's MIGRATIONS run?",
        })
    }
}

/// The class of `error`, as seen on `DB`.
#[must_use]
pub fn classify<DB: Dialect>(error: &sqlx::Error) -> ErrorClass {
    match error {
        sqlx::Error::Database(inner) => DB::class_of(inner.as_ref()),
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            ErrorClass::ConnectionLost
        }
        sqlx::Error::PoolTimedOut => ErrorClass::PoolTimeout,
        _ => ErrorClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_is_retryable_and_leaves_a_commit_unknown() {
        assert!(ErrorClass::ConnectionLost.is_retryable());
        assert!(ErrorClass::ConnectionLost.leaves_commit_unknown());
        assert!(!ErrorClass::Deadlock.leaves_commit_unknown());
    }

    /// A relay waits for it; a loop that is for conflicts does not run into it again and again.
    #[test]
    fn a_server_that_cannot_do_it_now_is_retryable_and_no_conflict() {
        let unavailable = ErrorClass::Unavailable;
        assert!(unavailable.is_retryable() && !unavailable.is_conflict() && !unavailable.leaves_commit_unknown());
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn io_errors_mean_a_lost_connection() {
        let cut = sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(classify::<sqlx::Postgres>(&cut), ErrorClass::ConnectionLost);
    }
}
