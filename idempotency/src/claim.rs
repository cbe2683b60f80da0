//! The claim of a key inside an open transaction.

use std::time::{Duration, Instant};

use leastlock_core::{ErrorClass, Statement};
use sqlx::{Connection, Transaction};

use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::response::ResponseParts;
use crate::sql::IdempotencySql;

/// How often a claim looks again when a record is neither to be inserted nor to be seen. Each look has a new snapshot, so
/// the second decides unless the record is deleted and made anew in between, again and again.
const MAX_LOOKS: u32 = 100;

/// What a claim is bound to.
#[derive(Debug)]
pub struct Request<'a> {
    /// The scope, as stored.
    pub scope: &'a str,
    /// The key.
    pub key: &'a str,
    /// 32 bytes.
    pub fingerprint: &'a [u8],
    /// How long the record is kept.
    pub retention_ms: i64,
    /// How long to wait for another transaction on the key.
    pub wait_ms: i64,
    /// How long the transaction may be idle.
    pub idle_ms: i64,
    /// Whether the transaction is a caller's, whose stricter time-outs stay.
    pub joins: bool,
}

impl<'a> Request<'a> {
    /// The parameters that every engine's claim begins with.
    pub fn bind(&self, statement: Statement<'a>) -> Statement<'a> {
        statement.bind(self.scope).bind(self.key).bind(self.fingerprint).bind(self.retention_ms)
    }
}

/// What an engine answers to a claim.
#[derive(Debug)]
pub enum Answer {
    /// The key is this transaction's.
    Claimed {
        /// 1, or more when it takes the place of an expired record.
        generation: i64,
    },
    /// A record holds the key.
    Exists(Existing),
    /// A record holds the key that this statement cannot see yet, or it is gone just now.
    NotVisible,
}

/// The record that holds a key.
#[derive(Debug)]
pub struct Existing {
    /// Whether it has an answer.
    pub completed: bool,
    /// Whether it is one of the phased mode, and not finished.
    pub phased: bool,
    /// Of the request that claimed it.
    pub fingerprint: Vec<u8>,
    /// The answer.
    pub response: ResponseParts,
    /// Whether its retention is over.
    pub expired: bool,
}

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
impl Existing {
    /// Reads a record whose columns from `first` on are state, fingerprint, the response's status, headers and body, and
    /// whether it has expired.
    pub(crate) fn read<DB: IdempotencySql>(row: &leastlock_core::Row<DB>, first: usize) -> Result<Self, sqlx::Error> {
        let state = row.text(first)?;
        Ok(Self {
            completed: state == "completed",
            phased: matches!(state.as_str(), "running" | "held"),
            fingerprint: row.bytes(first + 1)?,
            response: ResponseParts::read(row, first + 2)?,
            expired: row.int(first + 5)? != 0,
        })
    }
}

/// What a claim came to.
#[derive(Debug)]
pub(crate) enum Claimed {
    First { generation: i64 },
    Replay { response: ResponseParts },
    Mismatch,
}

/// Claims `key` in the transaction open on `connection`, looking again until it knows, or until `deadline` bounds the wait.
pub(crate) async fn claim<DB: IdempotencySql>(
    connection: &mut DB::Connection,
    key: &Key,
    fingerprint: &Fingerprint,
    limits: &Limits,
) -> Result<Claimed, Error> {
    let database = |source| Error::database::<DB>(source);
    for _look in 0..MAX_LOOKS {
        let request = Request {
            scope: key.scope().as_str(),
            key: key.as_str(),
            fingerprint: fingerprint.as_bytes(),
            retention_ms: millis(limits.retention),
            wait_ms: millis(limits.deadline.saturating_duration_since(Instant::now())),
            idle_ms: millis(limits.idle),
            joins: limits.joins,
        };
        let existing = match DB::claim(connection, &request).await.map_err(database)? {
            Answer::Claimed { generation } => return Ok(Claimed::First { generation }),
            Answer::Exists(existing) => existing,
            Answer::NotVisible => continue,
        };
        if existing.expired {
            match DB::claim_expired(connection, &request).await.map_err(database)? {
                Some(generation) => return Ok(Claimed::First { generation }),
                None => continue,
            }
        }
        if existing.fingerprint != fingerprint.as_bytes() {
            return Ok(Claimed::Mismatch);
        }
        if existing.phased {
            return Err(Error::Phased);
        }
        if !existing.completed {
            return Err(Error::CommittedWithoutAnswer);
        }
        return Ok(Claimed::Replay { response: existing.response });
    }
    Err(Error::Unsettled { looks: MAX_LOOKS })
}

/// Claims `key` in a caller's transaction. `None`: another transaction holds the key, and this one is as it was.
pub(crate) async fn claim_in<DB: IdempotencySql>(
    tx: &mut Transaction<'_, DB>,
    key: &Key,
    fingerprint: &Fingerprint,
    limits: &Limits,
) -> Result<Option<Claimed>, Error> {
    let database = Error::database::<DB>;
    let timed_out = if DB::NEEDS_SAVEPOINT {
        let mut savepoint = tx.begin().await.map_err(database)?;
        match claim::<DB>(&mut savepoint, key, fingerprint, limits).await {
            Ok(claimed) => {
                savepoint.commit().await.map_err(database)?;
                return Ok(Some(claimed));
            }
            Err(error) if error.class() == Some(ErrorClass::LockTimeout) => {
                savepoint.rollback().await.map_err(database)?;
                error
            }
            Err(error) => return Err(error),
        }
    } else {
        match claim::<DB>(tx, key, fingerprint, limits).await {
            Err(error) if error.class() == Some(ErrorClass::LockTimeout) => error,
            claimed => return claimed.map(Some),
        }
    };
    if DB::outlives_lock_timeout(tx).await.map_err(database)? {
        return Ok(None);
    }
    // What the caller does next must not be committed without what it did before.
    DB::poison(tx).await.map_err(database)?;
    Err(timed_out)
}

/// The limits of one claim.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long the record is kept.
    pub retention: Duration,
    /// How long the transaction may be idle.
    pub idle: Duration,
    /// Whether the transaction is a caller's.
    pub joins: bool,
    /// Until when to wait for another transaction on the key.
    pub deadline: Instant,
}

/// Whole milliseconds, as the statements take them.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
