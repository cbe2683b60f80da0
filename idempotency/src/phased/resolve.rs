//! What an operator, or a reconciler, says of a key whose outcome is unknown.

use std::time::Duration;

use leastlock_core::{Statement, begin, commit};
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::{Pool, Transaction};

use crate::error::Error;
use crate::key::{Key, Scope};
use crate::measure;
use crate::phased::bounded::{bounded, bounded_commit};
use crate::phased::external::Failure;
use crate::phased::failpoint::failpoint;
use crate::phased::log::{FoundOut, Log};
use crate::phased::record::{Record, State, millis};
use crate::phased::settings::Phased;
use crate::phased::sql::PhasedSql;
use crate::phased::unknown::Unknown;
use crate::response::{Response, ResponseParts};

/// Longest name of who resolves, and longest reason, in bytes: the audit keeps both whole.
const MAX_BY_BYTES: usize = 255;
const MAX_REASON_BYTES: usize = 4000;

/// Who resolved what a reconciler did, in the audit.
const RECONCILER: &str = "leastlock reconciler";

/// What has been found out about a key whose outcome is unknown.
#[derive(Debug, Clone)]
pub struct Resolution(Kind);

#[derive(Debug, Clone)]
enum Kind {
    StepDone(Box<RawValue>),
    StepFailed(Failure),
    /// By an operator, or else by a provider, whose word does not begin the count of attempts anew.
    StepNotDone {
        excuses: bool,
    },
    Completed(ResponseParts),
    Released,
    Resumed,
}

/// What [`Phased::resolve`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "`Changed` means that nothing was resolved"]
pub enum Resolved {
    /// The resolution is in force, and written to the audit.
    Applied,
    /// The key is not any more as it was when it was listed: resolved, taken over or finished by somebody else. Nothing changed.
    Changed,
}

impl Resolution {
    /// The unknown step happened, and came to `result` (what the program would have given to
    /// [`Attempt::done`](crate::phased::Attempt::done)). The key goes to the next claimant, who goes on behind the step.
    ///
    /// # Errors
    /// [`Error::Serialize`] if the result cannot be written as JSON.
    pub fn step_done<T: Serialize>(result: &T) -> Result<Self, Error> {
        let result =
            serde_json::value::to_raw_value(result).map_err(|source| Error::Serialize { source: source.into() })?;
        Ok(Self(Kind::StepDone(result)))
    }

    /// The unknown step was refused for good, and had no effect. The key goes to the next claimant, who is told the reason.
    #[must_use]
    pub fn step_failed(reason: Failure) -> Self {
        Self(Kind::StepFailed(reason))
    }

    /// The unknown step had no effect and can have none any more. The key goes to the next claimant, who makes the call; the
    /// count towards `max_attempts` begins anew.
    #[must_use]
    pub fn step_not_done() -> Self {
        Self(Kind::StepNotDone { excuses: true })
    }

    /// The same by a provider: how often it is called is still bounded.
    pub(crate) fn step_not_done_by_its_provider() -> Self {
        Self(Kind::StepNotDone { excuses: false })
    }

    /// The request is answered with `response`, whatever its steps say; every repeat gets it.
    ///
    /// # Errors
    /// [`Error::Serialize`] if it cannot be written.
    pub fn completed<R: Response>(response: &R) -> Result<Self, Error> {
        let parts = response.to_parts().map_err(|source| Error::Serialize { source })?;
        Ok(Self(Kind::Completed(parts)))
    }

    /// Nothing has happened, or nothing is left of it: the key is free, and what is recorded of its steps is forgotten. A step
    /// that is then called again brings its provider the same provider key as before.
    #[must_use]
    pub fn released() -> Self {
        Self(Kind::Released)
    }

    /// The key goes to the next claimant as it is, at its recovery point: for one that was held for a reason that is no more. A step
    /// whose outcome is unknown stays unknown, and its policy decides. The count towards `max_attempts` begins anew.
    #[must_use]
    pub fn resumed() -> Self {
        Self(Kind::Resumed)
    }

    /// As the audit has it.
    fn name(&self) -> &'static str {
        match self.0 {
            Kind::StepDone(_) => "step-done",
            Kind::StepFailed(_) => "step-failed",
            Kind::StepNotDone { .. } => "step-not-done",
            Kind::Completed(_) => "completed",
            Kind::Released => "released",
            Kind::Resumed => "resumed",
        }
    }
}

impl Phased {
    /// Lists keys whose outcome is unknown, the oldest first: held for longer than `older_than`, or left by an owner whose lease
    /// has been over for longer than that. At most `limit`.
    ///
    /// A key of the second kind needs no operator if its requests are repeated: its next claimant goes on with it. A key whose steps
    /// cannot be read is listed with [`Unknown::unreadable`].
    ///
    /// # Errors
    /// What the database said.
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub async fn list_unknown<DB: PhasedSql>(
        &self,
        pool: &Pool<DB>,
        older_than: Duration,
        limit: u32,
    ) -> Result<Vec<Unknown>, Error> {
        let age = millis(older_than);
        let list = async {
            let mut connection = pool.acquire().await.map_err(Error::database::<DB>)?;
            let list = Statement::new(DB::UNKNOWN).bind(age).bind(age).bind(i64::from(limit));
            list.fetch_all::<DB>(&mut connection).await.map_err(Error::database::<DB>)
        };
        let rows = bounded::<DB, _>(self.call_limit, list).await?;
        let listed = rows.iter().map(|row| self.unknown_of(row)).collect::<Result<Vec<_>, _>>()?;
        measure::listed(&listed);
        Ok(listed)
    }

    /// Puts a resolution in force, if the key is still as `unknown` says, its steps included: an owner that was late and not dead
    /// may have gone on since, and what is known of one step says nothing of the next. From then on the owner before, should it
    /// still exist, is superseded. `by` and `reason` go to the audit (`leastlock_idempotency_audit`) in the same transaction.
    ///
    /// # Errors
    /// [`Error::Step`] if the resolution speaks of an unknown step and there is none, or says of a compensation that it failed.
    /// [`Error::ResponseTooLarge`] for an answer over `max_response_bytes`. [`Error::NoAnswer`] if the database stays silent for `call_limit`: nothing was resolved. [`Error::CommitUnknown`] if it does so at the
    /// commit: list the key again. [`Error::Unaccounted`] if `by` or `reason` is empty, or longer than 255 and 4,000 bytes.
    ///
    /// # Cancel safety
    /// Dropped half-way, the resolution is in force with its audit, or neither is.
    pub async fn resolve<DB: PhasedSql>(
        &self,
        pool: &Pool<DB>,
        unknown: &Unknown,
        resolution: Resolution,
        by: &str,
        reason: &str,
    ) -> Result<Resolved, Error> {
        let name = resolution.name();
        measure::resolved("operator", name, self.settle(pool, unknown, resolution, by, reason).await)
    }

    /// The same by a reconciler.
    pub(crate) async fn resolve_by_itself<DB: PhasedSql>(
        &self,
        pool: &Pool<DB>,
        unknown: &Unknown,
        resolution: Resolution,
        reason: &str,
    ) -> Result<Resolved, Error> {
        let name = resolution.name();
        measure::resolved("reconciler", name, self.settle(pool, unknown, resolution, RECONCILER, reason).await)
    }

    async fn settle<DB: PhasedSql>(
        &self,
        pool: &Pool<DB>,
        unknown: &Unknown,
        resolution: Resolution,
        by: &str,
        reason: &str,
    ) -> Result<Resolved, Error> {
        for (text, limit) in [(by, MAX_BY_BYTES), (reason, MAX_REASON_BYTES)] {
            if text.trim().is_empty() || text.len() > limit {
                return Err(Error::Unaccounted);
            }
        }
        if let Kind::Completed(parts) = &resolution.0 {
            let (bytes, limit) = (parts.bytes(), self.max_response_bytes);
            if bytes > limit {
                return Err(Error::ResponseTooLarge { bytes, limit });
            }
        }
        let written = self.write_resolution::<DB>(pool, unknown, resolution, (by, reason));
        let Some(tx) = bounded::<DB, _>(self.call_limit, written).await? else { return Ok(Resolved::Changed) };
        bounded_commit::<DB>(self.call_limit, commit(tx)).await.map_err(Error::commit::<DB>)?;
        Ok(Resolved::Applied)
    }

    /// The resolution with its audit, in a transaction to be committed; `None` if the key has changed.
    async fn write_resolution<DB: PhasedSql>(
        &self,
        pool: &Pool<DB>,
        unknown: &Unknown,
        resolution: Resolution,
        (by, reason): (&str, &str),
    ) -> Result<Option<Transaction<'static, DB>>, Error> {
        let database = |source| Error::database::<DB>(source);
        let key = &unknown.key;
        let mut tx = begin(pool).await.map_err(database)?;
        let lock = Statement::new(DB::LOCK).bind(key.scope().as_str()).bind(key.as_str());
        let Some(row) = lock.fetch_optional::<DB>(&mut tx).await.map_err(database)? else {
            return Ok(None);
        };
        let record = Record::of(&row).map_err(database)?;
        let is_unknown = match record.state {
            State::Held => true,
            State::Running => record.lease_is_over(),
            State::Completed | State::Unanswered => false,
        };
        if !is_unknown || !unknown.is_still(&record) {
            return Ok(None);
        }
        let outcome = resolution.name();
        let mut log = match self.decode_steps(key, record.steps.as_deref()) {
            Ok(log) => log,
            // Such a resolution asks nothing of the steps.
            Err(_) if matches!(resolution.0, Kind::Completed(_) | Kind::Released) => Log::default(),
            Err(error) => return Err(error),
        };
        let step = log.open_step().map(|(_, name, _)| name.to_owned());
        if unknown.unreadable.is_none() && !unknown.speaks_of(step.as_deref()) {
            return Ok(None);
        }
        let changed = self.apply::<DB>(&mut tx, key, record.generation, &mut log, resolution).await?;
        if changed == 0 {
            return Ok(None);
        }
        failpoint!("resolve-audit");
        let audit = Statement::new(DB::AUDIT)
            .bind(key.scope().as_str())
            .bind(key.as_str())
            .bind(record.generation)
            .bind(step.as_deref())
            .bind(outcome)
            .bind(by)
            .bind(reason);
        audit.execute::<DB>(&mut tx).await.map_err(database)?;
        Ok(Some(tx))
    }

    async fn apply<DB: PhasedSql>(
        &self,
        connection: &mut DB::Connection,
        key: &Key,
        generation: i64,
        log: &mut Log,
        resolution: Resolution,
    ) -> Result<u64, Error> {
        let (scope, name) = (key.scope().as_str(), key.as_str());
        if matches!(resolution.0, Kind::StepNotDone { excuses: true } | Kind::Resumed) {
            log.excuse();
        }
        let found_out = match resolution.0 {
            Kind::StepDone(result) => Some(FoundOut::Done(result)),
            Kind::StepFailed(failure) => Some(FoundOut::Failed(failure.raw()?)),
            Kind::StepNotDone { .. } => Some(FoundOut::NotDone),
            Kind::Resumed => None,
            Kind::Completed(parts) => {
                let parts = self.sealing.seal(key, parts)?;
                let settle = parts.bind(Statement::new(DB::SETTLE)).bind(millis(self.retention));
                let settle = settle.bind(scope).bind(name).bind(generation);
                return settle.execute::<DB>(connection).await.map_err(Error::database::<DB>);
            }
            Kind::Released => {
                let forget = Statement::new(DB::FORGET).bind(scope).bind(name).bind(generation);
                return forget.execute::<DB>(connection).await.map_err(Error::database::<DB>);
            }
        };
        if let Some(found_out) = found_out {
            log.settle_open(found_out).map_err(|source| Error::Step { source })?;
        }
        let steps = self.encode_steps(key, log)?;
        let reopen = Statement::new(DB::REOPEN).bind(steps.as_slice()).bind(log.last_done());
        let reopen = reopen.bind(scope).bind(name).bind(generation);
        reopen.execute::<DB>(connection).await.map_err(Error::database::<DB>)
    }

    /// From a row of a listing: the record, then scope and key.
    pub(crate) fn unknown_of<DB: PhasedSql>(&self, row: &leastlock_core::Row<DB>) -> Result<Unknown, Error> {
        let database = |source| Error::database::<DB>(source);
        let scope = Scope::stored(row.text(14).map_err(database)?);
        let key = Key::stored(scope, row.text(15).map_err(database)?);
        Ok(self.unknown(key, &Record::of(row).map_err(database)?))
    }
}
