//! The claim of a key with a lease and a generation.

use std::fmt;
use std::time::{Duration, Instant};

use leastlock_core::{Backoff, ErrorClass, Statement};
use sqlx::Pool;

use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::keys::busy_by_name;
use crate::measure;
use crate::phased::bounded::bounded;
use crate::phased::failpoint::failpoint;
use crate::phased::owner::{Nonce, Owner};
use crate::phased::record::{Record, State, millis};
use crate::phased::run::Run;
use crate::phased::settings::Phased;
use crate::phased::sql::PhasedSql;
use crate::phased::unknown::Unknown;
use crate::response::Response;

/// How often a claim looks again when the record changes hands between two of its statements.
const MAX_LOOKS: u32 = 100;

/// How long a claim goes on beginning again after errors that a repetition can help.
const PATIENCE: Duration = Duration::from_secs(10);

/// The outcome of [`Phased::begin`].
#[must_use = "only `First` may run the steps"]
pub enum PhasedBegin<DB: PhasedSql, R> {
    /// The key is this caller's: run its steps. Also when its owner before has died: see [`Run::resumed_at`].
    First(Run<DB, R>),
    /// The request ran before; this was its answer.
    Replay(R),
    /// The key was used for a request that says something else.
    Mismatch,
    /// Its owner is at work, or its lease is not over yet.
    InFlight {
        /// When asking again makes sense: at the end of the lease, or before.
        retry_after: Duration,
    },
    /// What became of it is unknown. It is not run again until an operator or a reconciler has resolved it.
    Unknown(Unknown),
}

impl<DB: PhasedSql, R> fmt::Debug for PhasedBegin<DB, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First(run) => formatter.debug_tuple("First").field(run).finish(),
            Self::Replay(_) => formatter.write_str("Replay(…)"),
            Self::Mismatch => formatter.write_str("Mismatch"),
            Self::InFlight { retry_after } => {
                formatter.debug_struct("InFlight").field("retry_after", retry_after).finish()
            }
            Self::Unknown(unknown) => formatter.debug_tuple("Unknown").field(unknown).finish(),
        }
    }
}

impl Phased {
    /// Claims `key` for the time of a lease, and says what the request is: a first (also one whose owner has died), a repeat, a
    /// mismatch, one that is in flight, or one whose outcome is unknown.
    ///
    /// The claim is committed when this returns: it holds no transaction and no connection. A duplicate does not wait for the
    /// owner.
    ///
    /// # Errors
    /// [`Error::is_retryable`] says whether asking again can help. [`Error::NoAnswer`] if the database stays silent, after 10 s and the
    /// `call_limit` at most. [`Error::CommittedWithoutAnswer`] if the transactional mode
    /// claimed this key and committed without an answer.
    ///
    /// # Cancel safety
    /// Dropped half-way, the key may be claimed by nobody: it is in flight until the lease is over, and then free.
    pub async fn begin<DB: PhasedSql, R: Response>(
        &self,
        pool: &Pool<DB>,
        key: &Key,
        fingerprint: &Fingerprint,
    ) -> Result<PhasedBegin<DB, R>, Error> {
        measure::begun(self.claim(pool, key, fingerprint, None).await)
    }

    /// As [`begin`](Self::begin), for a request that expires: later than `start_within` after the claim, by the database's clock,
    /// no step starts ([`Error::RequestExpired`]). Steps that were started are still recorded, and compensations still run. The
    /// time is fixed at the first claim; a repeat does not move it.
    ///
    /// # Errors
    /// As for `begin`.
    ///
    /// # Cancel safety
    /// As for `begin`.
    pub async fn begin_within<DB: PhasedSql, R: Response>(
        &self,
        pool: &Pool<DB>,
        key: &Key,
        fingerprint: &Fingerprint,
        start_within: Duration,
    ) -> Result<PhasedBegin<DB, R>, Error> {
        measure::begun(self.claim(pool, key, fingerprint, Some(start_within)).await)
    }

    async fn claim<DB: PhasedSql, R: Response>(
        &self,
        pool: &Pool<DB>,
        key: &Key,
        fingerprint: &Fingerprint,
        start_within: Option<Duration>,
    ) -> Result<PhasedBegin<DB, R>, Error> {
        // One nonce for all tries: a claim whose reply was lost finds itself the owner.
        let nonce = Nonce::random()?;
        let start_ms = start_within.map(millis);
        let (first_sent, took_over) = (Instant::now(), None);
        let mut claim = Claim { phased: self, pool, key, fingerprint, nonce, start_ms, first_sent, took_over };
        let backoff = Backoff::default();
        let give_up = Instant::now() + PATIENCE;
        let mut attempt = 0;
        loop {
            match bounded::<DB, _>(self.call_limit, claim.attempt()).await {
                // Another transaction has the record locked: a unit of the transactional mode, or a step that commits.
                Err(Error::Database { class: ErrorClass::LockTimeout, .. }) => {
                    return Ok(PhasedBegin::InFlight { retry_after: self.retry_after });
                }
                Err(error) if error.is_retryable() && Instant::now() < give_up => {
                    tokio::time::sleep(backoff.delay(attempt)).await;
                    attempt += 1;
                }
                outcome => return outcome.map_err(busy_by_name),
            }
        }
    }
}

/// One call of `begin`.
struct Claim<'a, DB: PhasedSql> {
    phased: &'a Phased,
    pool: &'a Pool<DB>,
    key: &'a Key,
    fingerprint: &'a Fingerprint,
    nonce: Nonce,
    start_ms: Option<i64>,
    /// Before its first statement: whichever of them it was that claimed the key, and was not answered, the lease runs from then on.
    first_sent: Instant,
    /// The generation that it has tried to take over from a dead owner. The try may have lost, to a release say, and a fresh claim
    /// won.
    took_over: Option<i64>,
}

impl<DB: PhasedSql> Claim<'_, DB> {
    async fn attempt<R: Response>(&mut self) -> Result<PhasedBegin<DB, R>, Error> {
        let database = |source| Error::database::<DB>(source);
        failpoint!("begin");
        let mut connection = self.pool.acquire().await.map_err(database)?;
        for look in 0..MAX_LOOKS {
            let sent = Instant::now();
            if self.insert(&mut connection).await.map_err(database)? {
                failpoint!("claimed");
                return Ok(PhasedBegin::First(self.run(1, sent, None)?));
            }
            let record = Record::read::<DB>(&mut connection, self.key).await.map_err(database)?;
            // Deleted in between.
            let Some(record) = record else { continue };
            if self.is_mine(&record) {
                return Ok(PhasedBegin::First(self.run(record.generation, self.first_sent, Some(&record))?));
            }
            if record.expired {
                // It is completed, so no try to take it over has won.
                self.took_over = None;
                if self.reclaim(&mut connection).await.map_err(database)? {
                    failpoint!("claimed");
                    let generation = record.generation + 1;
                    return Ok(PhasedBegin::First(self.run(generation, sent, None)?));
                }
                continue;
            }
            if record.fingerprint != self.fingerprint.as_bytes() {
                return Ok(PhasedBegin::Mismatch);
            }
            match self.judge(record)? {
                Judged::Said(begin) => return Ok(begin),
                Judged::Abandoned(record) => {
                    // What cannot be read is left to somebody who can.
                    self.phased.decode_steps(self.key, record.steps.as_deref())?;
                    self.took_over = Some(record.generation + 1);
                    if self.take_over(&mut connection, &record).await.map_err(database)? {
                        failpoint!("taken-over");
                        // The owner before may have recorded a step since that record was read. Now it cannot any more.
                        let taken = Record::read::<DB>(&mut connection, self.key).await.map_err(database)?;
                        if let Some(taken) = taken.filter(|taken| self.is_mine(taken)) {
                            return Ok(PhasedBegin::First(self.run(taken.generation, sent, Some(&taken))?));
                        }
                        continue;
                    }
                    // Renewed or taken by another just now. The next look says which.
                    tokio::time::sleep(Backoff::default().delay(look.min(3))).await;
                }
            }
        }
        Err(Error::Unsettled { looks: MAX_LOOKS })
    }

    fn judge<R: Response>(&self, record: Record) -> Result<Judged<DB, R>, Error> {
        Ok(match record.state {
            State::Unanswered => return Err(Error::CommittedWithoutAnswer),
            State::Completed => {
                let answer = R::from_parts(self.phased.sealing.open(self.key, record.response)?);
                Judged::Said(PhasedBegin::Replay(answer.map_err(|source| Error::Deserialize { source })?))
            }
            State::Held => Judged::Said(PhasedBegin::Unknown(self.phased.unknown(self.key.clone(), &record))),
            State::Running if record.lease_is_over() => Judged::Abandoned(record),
            State::Running => {
                let left = record.lease_left.unwrap_or_default();
                Judged::Said(PhasedBegin::InFlight { retry_after: left.min(self.phased.retry_after) })
            }
        })
    }

    /// The run of a claim: of a fresh record, or of the one that was taken over (or is found to be this claim's own).
    fn run<R>(&self, generation: i64, sent: Instant, taken: Option<&Record>) -> Result<Run<DB, R>, Error> {
        let settings = self.phased.clone();
        let owner = Owner::new(self.pool.clone(), self.key.clone(), generation, self.nonce, settings, sent);
        let steps = taken.and_then(|record| record.steps.as_deref());
        let log = self.phased.decode_steps(self.key, steps)?;
        let resumed_at = (self.took_over == Some(generation)).then(|| log.recovery_point());
        let expires = taken.map_or(self.start_ms.is_some(), |record| record.start_left.is_some());
        let step_seq = taken.map_or(0, |record| record.step_seq);
        Ok(Run::new(owner, (log, step_seq), resumed_at, expires))
    }

    fn is_mine(&self, record: &Record) -> bool {
        record.state == State::Running && record.owner.as_deref() == Some(self.nonce.as_bytes())
    }

    async fn insert(&self, connection: &mut DB::Connection) -> Result<bool, sqlx::Error> {
        let insert = Statement::new(DB::CLAIM)
            .bind(self.key.scope().as_str())
            .bind(self.key.as_str())
            .bind(self.fingerprint.as_bytes().as_slice())
            .bind(self.nonce.as_bytes())
            .bind(millis(self.phased.lease))
            .bind(self.start_ms);
        match insert.execute::<DB>(connection).await {
            Ok(rows) => Ok(rows == 1),
            Err(error) if leastlock_core::classify::<DB>(&error) == ErrorClass::UniqueViolation => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn reclaim(&self, connection: &mut DB::Connection) -> Result<bool, sqlx::Error> {
        let reclaim = Statement::new(DB::RECLAIM)
            .bind(self.fingerprint.as_bytes().as_slice())
            .bind(self.nonce.as_bytes())
            .bind(millis(self.phased.lease))
            .bind(self.start_ms)
            .bind(self.key.scope().as_str())
            .bind(self.key.as_str());
        Ok(reclaim.execute::<DB>(connection).await? == 1)
    }

    async fn take_over(&self, connection: &mut DB::Connection, record: &Record) -> Result<bool, sqlx::Error> {
        let take_over = Statement::new(DB::TAKE_OVER)
            .bind(self.nonce.as_bytes())
            .bind(millis(self.phased.lease))
            .bind(self.key.scope().as_str())
            .bind(self.key.as_str())
            .bind(record.generation);
        Ok(take_over.execute::<DB>(connection).await? == 1)
    }
}

enum Judged<DB: PhasedSql, R> {
    Said(PhasedBegin<DB, R>),
    /// The lease is over, or was when the record was read.
    Abandoned(Record),
}
