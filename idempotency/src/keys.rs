//! Settings; `begin`, `begin_in`, `sweep`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leastlock_core::{Backoff, Engine, ErrorClass, begin, commit};
use sqlx::{Pool, Transaction};

use crate::cipher::{Cipher, Sealing};
use crate::claim::{self, Claimed, Limits};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::measure;
use crate::response::{Response, ResponseParts};
use crate::setting::{MAX_BYTES, MILLISECOND, SettingError, check, check_number};
use crate::sql::IdempotencySql;
use crate::unit::{Claim, Unit};

/// The wait that `OnDuplicate::Reject` allows: PostgreSQL's shortest lock time-out.
const REJECT_WAIT: Duration = Duration::from_millis(1);

/// How often a claim that lost a deadlock begins again when its time to wait is over.
const LATE_RERUNS: u32 = 5;

/// What a duplicate does while the first is still running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnDuplicate {
    /// Waits for the first, at most this long, and then replays its answer, or runs if the first rolled back. MariaDB knows
    /// whole seconds only, so there the limit is rounded down, and less than one second is no wait. MySQL cannot be told for a
    /// single statement: there the session's `innodb_lock_wait_timeout` holds (50 s by default).
    Wait(Duration),
    /// Answers [`Begin::InFlight`] at once. SQLite has one write lock for all keys, so there it waits as `Wait` does, for
    /// the default limit; so does MySQL (not MariaDB), for the session's `innodb_lock_wait_timeout`.
    Reject,
}

/// The outcome of [`Keys::begin`].
#[derive(Debug)]
#[must_use = "only `First` may run the effects"]
pub enum Begin<DB: IdempotencySql, R> {
    /// The key is new, or free again: run the effects in this unit.
    First(Unit<DB, R>),
    /// The request ran before; this was its answer.
    Replay(R),
    /// The key was used for a request that says something else.
    Mismatch,
    /// The first is still running.
    InFlight {
        /// When asking again makes sense.
        retry_after: Duration,
    },
}

/// The outcome of [`Keys::begin_in`].
#[derive(Debug)]
#[must_use = "only `First` may run the effects"]
pub enum BeginIn<R> {
    /// The key is new, or free again: run the effects in the same transaction and complete the claim.
    First(Claim<R>),
    /// The request ran before; this was its answer.
    Replay(R),
    /// The key was used for a request that says something else.
    Mismatch,
    /// The first is still running. The transaction is still usable.
    InFlight {
        /// When asking again makes sense.
        retry_after: Duration,
    },
}

/// The settings of a set of idempotency keys, and the operations on them.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `on_duplicate` | wait 10 s | what a duplicate does while the first runs |
/// | `retention` | 24 h | how long an answer is replayed; judged at the claim, on the database's clock |
/// | `idle_limit` | 10 s | PostgreSQL and MariaDB (in whole seconds, rounded up) end a unit that is idle in its transaction for longer, which frees its key |
/// | `retry_after` | 1 s | what `InFlight` advises |
/// | `max_response_bytes` | 262,144 | the largest answer that is stored, before it is sealed |
/// | `cipher` | none | seals answers before they are stored |
#[derive(Debug, Clone)]
pub struct Keys {
    on_duplicate: OnDuplicate,
    retention: Duration,
    idle_limit: Duration,
    retry_after: Duration,
    max_response_bytes: usize,
    sealing: Sealing,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            on_duplicate: OnDuplicate::Wait(Duration::from_secs(10)),
            retention: Duration::from_hours(24),
            idle_limit: Duration::from_secs(10),
            retry_after: Duration::from_secs(1),
            max_response_bytes: 256 * 1024,
            sealing: Sealing::default(),
        }
    }
}

impl Keys {
    /// Settings other than the defaults.
    ///
    /// ```
    /// use std::time::Duration;
    /// use leastlock_idempotency::{Keys, OnDuplicate};
    ///
    /// let keys = Keys::builder().on_duplicate(OnDuplicate::Reject).retention(Duration::from_secs(7 * 86_400)).build()?;
    /// # let _ = keys;
    /// assert!(Keys::builder().idle_limit(Duration::ZERO).build().is_err());
    /// # Ok::<(), leastlock_idempotency::SettingError>(())
    /// ```
    pub fn builder() -> KeysBuilder {
        KeysBuilder { keys: Self::default() }
    }

    /// Claims `key` in a transaction of its own and says what the request is: a first, a repeat, a mismatch, or one whose
    /// first is still running.
    ///
    /// At most one unit runs for a key at a time: the table's primary key makes a duplicate wait. A replay costs the begin
    /// of a transaction and one statement; a first costs two statements more than its effects.
    ///
    /// # Errors
    /// [`Error::is_retryable`] says whether asking again can help. The request never runs unprotected.
    ///
    /// # Cancel safety
    /// Dropped at any time, the transaction rolls back and the key is free.
    pub async fn begin<DB: IdempotencySql, R: Response>(
        &self,
        pool: &Pool<DB>,
        key: &Key,
        fingerprint: &Fingerprint,
    ) -> Result<Begin<DB, R>, Error> {
        measure::begun(self.begin_again(pool, key, fingerprint).await)
    }

    async fn begin_again<DB: IdempotencySql, R: Response>(
        &self,
        pool: &Pool<DB>,
        key: &Key,
        fingerprint: &Fingerprint,
    ) -> Result<Begin<DB, R>, Error> {
        let limits = self.limits::<DB>();
        let backoff = Backoff::default();
        for attempt in 0.. {
            let outcome = self.attempt(pool, key, fingerprint, &limits).await;
            let may_wait = Instant::now() < limits.deadline;
            match outcome.as_ref().err().and_then(Error::class) {
                Some(ErrorClass::LockTimeout) => break,
                // Ends of this transaction that say nothing about the key: begin again. Past the limit no more locks are waited
                // for, so that a deadlock is not met for long.
                Some(ErrorClass::Deadlock | ErrorClass::SerializationFailure) if may_wait || attempt < LATE_RERUNS => {}
                Some(ErrorClass::Busy) if may_wait => {}
                _ => return outcome.map_err(busy_by_name),
            }
            drop(outcome);
            tokio::time::sleep(backoff.delay(attempt)).await;
        }
        Ok(Begin::InFlight { retry_after: self.retry_after })
    }

    /// Claims `key` in the caller's own transaction. [`Claim::complete`] stores the answer; the caller commits.
    ///
    /// After [`BeginIn::InFlight`] the transaction is still usable: PostgreSQL waits under a savepoint, and MariaDB undoes the
    /// claim's statement alone.
    ///
    /// A transaction of the caller's that stops holds the key until it goes on or its connection ends. PostgreSQL ends it after
    /// `idle_limit`. On MariaDB nothing can be set for one transaction only: set `idle_transaction_timeout` on the pool's
    /// connections, or use [`begin`](Self::begin).
    ///
    /// # Errors
    /// A retryable [`Error::Database`] means that the whole transaction must be begun again: a deadlock; a serialization failure
    /// of a REPEATABLE READ transaction whose snapshot is older than the record; on a MySQL server with `innodb_rollback_on_timeout`,
    /// a wait that timed out. On MySQL the transaction can then not commit what it did before.
    ///
    /// # Cancel safety
    /// Dropped half-way, the transaction must be rolled back.
    pub async fn begin_in<DB: IdempotencySql, R: Response>(
        &self,
        tx: &mut Transaction<'_, DB>,
        key: &Key,
        fingerprint: &Fingerprint,
    ) -> Result<BeginIn<R>, Error> {
        measure::begun(self.join(tx, key, fingerprint).await)
    }

    async fn join<DB: IdempotencySql, R: Response>(
        &self,
        tx: &mut Transaction<'_, DB>,
        key: &Key,
        fingerprint: &Fingerprint,
    ) -> Result<BeginIn<R>, Error> {
        let limits = Limits { joins: true, ..self.limits::<DB>() };
        Ok(match claim::claim_in(tx, key, fingerprint, &limits).await.map_err(busy_by_name)? {
            Some(Claimed::First { generation }) => BeginIn::First(self.claim(key, generation)),
            Some(Claimed::Replay { response }) => BeginIn::Replay(self.read(key, response)?),
            Some(Claimed::Mismatch) => BeginIn::Mismatch,
            None => BeginIn::InFlight { retry_after: self.retry_after },
        })
    }

    /// Deletes at most `batch` expired records and answers how many it deleted; call it until it answers less. Rows that
    /// somebody is claiming are left for the next time. Correctness never waits for it: expiry is judged at the claim.
    ///
    /// # Cancel safety
    /// One transaction: the batch is deleted whole or not at all.
    pub async fn sweep<DB: IdempotencySql>(&self, pool: &Pool<DB>, batch: u32) -> Result<u64, Error> {
        let database = Error::database::<DB>;
        let mut tx = begin(pool).await.map_err(database)?;
        let deleted = DB::sweep(&mut tx, i64::from(batch)).await.map_err(database)?;
        commit(tx).await.map_err(database)?;
        Ok(deleted)
    }

    async fn attempt<DB: IdempotencySql, R: Response>(
        &self,
        pool: &Pool<DB>,
        key: &Key,
        fingerprint: &Fingerprint,
        limits: &Limits,
    ) -> Result<Begin<DB, R>, Error> {
        let mut tx = DB::begin(pool, limits).await.map_err(Error::database::<DB>)?;
        Ok(match claim::claim::<DB>(&mut tx, key, fingerprint, limits).await? {
            Claimed::First { generation } => Begin::First(Unit::new(tx, self.claim(key, generation))),
            Claimed::Replay { response } => Begin::Replay(self.read(key, response)?),
            Claimed::Mismatch => Begin::Mismatch,
        })
    }

    fn claim<R>(&self, key: &Key, generation: i64) -> Claim<R> {
        Claim::new(key.clone(), generation, self.max_response_bytes, self.sealing.clone())
    }

    fn read<R: Response>(&self, key: &Key, response: ResponseParts) -> Result<R, Error> {
        R::from_parts(self.sealing.open(key, response)?).map_err(|source| Error::Deserialize { source })
    }

    fn limits<DB: IdempotencySql>(&self) -> Limits {
        let wait = match self.on_duplicate {
            OnDuplicate::Wait(limit) => limit,
            OnDuplicate::Reject if DB::ENGINE == Engine::Sqlite => Duration::from_secs(10),
            OnDuplicate::Reject => REJECT_WAIT,
        };
        Limits { retention: self.retention, idle: self.idle_limit, joins: false, deadline: Instant::now() + wait }
    }
}

/// SQLite's lock says nothing about the key, and the error says so.
pub(crate) fn busy_by_name(error: Error) -> Error {
    match error {
        Error::Database { class: ErrorClass::Busy, source } => Error::Busy { source },
        other => other,
    }
}

/// Builds [`Keys`]; [`build`](Self::build) checks the limits.
#[derive(Debug, Clone)]
#[must_use = "call `build`"]
pub struct KeysBuilder {
    keys: Keys,
}

impl KeysBuilder {
    /// What a duplicate does while the first runs (default: wait 10 s).
    pub fn on_duplicate(mut self, on_duplicate: OnDuplicate) -> Self {
        self.keys.on_duplicate = on_duplicate;
        self
    }

    /// How long an answer is replayed (default: 24 h).
    pub fn retention(mut self, retention: Duration) -> Self {
        self.keys.retention = retention;
        self
    }

    /// How long a unit may be idle in its transaction before the server ends it (default: 10 s). Neither SQLite nor MySQL does;
    /// MariaDB does in whole seconds, rounded up.
    pub fn idle_limit(mut self, idle_limit: Duration) -> Self {
        self.keys.idle_limit = idle_limit;
        self
    }

    /// What `InFlight` advises (default: 1 s).
    pub fn retry_after(mut self, retry_after: Duration) -> Self {
        self.keys.retry_after = retry_after;
        self
    }

    /// The largest answer that is stored, in bytes of headers and body (default: 262,144).
    pub fn max_response_bytes(mut self, max_response_bytes: usize) -> Self {
        self.keys.max_response_bytes = max_response_bytes;
        self
    }

    /// Seals answers before they are stored, and opens them for a replay (default: none). Answers stored before there was a
    /// cipher are still read; with the cipher taken away, those it sealed are [`Error::SealedByAnother`].
    pub fn cipher(mut self, cipher: Arc<dyn Cipher>) -> Self {
        self.keys.sealing = Sealing::with(cipher);
        self
    }

    /// The keys, if every limit makes sense.
    ///
    /// # Errors
    /// [`SettingError`] names the setting that is zero or beyond its bound.
    pub fn build(self) -> Result<Keys, SettingError> {
        let day = Duration::from_hours(24);
        let wait = match self.keys.on_duplicate {
            OnDuplicate::Wait(limit) => limit,
            OnDuplicate::Reject => REJECT_WAIT,
        };
        for (setting, value, most) in [
            ("on_duplicate", wait, day),
            ("retention", self.keys.retention, 3660 * day),
            ("idle_limit", self.keys.idle_limit, day),
            ("retry_after", self.keys.retry_after, day),
        ] {
            check(setting, value, MILLISECOND, most)?;
        }
        check_number("max_response_bytes", self.keys.max_response_bytes, 1, MAX_BYTES)?;
        self.keys.sealing.check()?;
        Ok(self.keys)
    }
}
