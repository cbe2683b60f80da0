//! A task that asks providers what became of calls whose outcome is unknown.

use std::time::Duration;

use leastlock_core::{Backoff, Statement};
use serde_json::Value;
use sqlx::Pool;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::key::Key;
use crate::measure;
use crate::phased::bounded::bounded;
use crate::phased::policy::Verdict;
use crate::phased::record::millis;
use crate::phased::resolve::{Resolution, Resolved};
use crate::phased::settings::Phased;
use crate::phased::sql::PhasedSql;
use crate::phased::unknown::{Unknown, UnknownStep};
use crate::setting::{MILLISECOND, SettingError, check, check_number};

/// How to ask the provider of a step what became of a call.
///
/// # Contract
/// - [`ask`](Self::ask) has no effect at the provider.
/// - [`Verdict::Done`] carries what the step's own code would have recorded, as JSON.
/// - [`Verdict::NotDone`] is said only of a call that can have no effect any more: its owner may be late and not dead, and its
///   call still under way.
/// - Whatever is not definite is [`Verdict::StillUnknown`]; a time-out is not an answer.
pub trait Inquiry: Send + Sync + 'static {
    /// Asks about one call.
    fn ask(&self, key: &Key, step: &UnknownStep) -> impl Future<Output = Verdict<Value>> + Send;
}

/// Asks, on a schedule, about the unknown steps of keys that are held, and of keys whose owner's lease is over.
///
/// What the provider says is resolved as an operator would ([`Phased::resolve`], audit included); the next claimant then goes
/// on. A key whose steps cannot be read is passed over. A key whose provider does not know is asked about again after a growing pause, `max_asks` times, and is then left to an
/// operator. Any number of reconcilers may run: pauses are kept in the records, and each ask is taken by one of them.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `interval` | 10 s | the pause between two passes that found nothing |
/// | `older_than` | 1 min | how long a key must have been unknown: a claimant that comes back needs no help |
/// | `batch` | 50 | keys in a pass |
/// | `ask_limit` | 10 s | the longest that an ask may take |
/// | `max_asks` | 20 | asks about one key |
/// | `backoff` | 10 s to 1 h | the pause after each ask |
#[derive(Debug)]
pub struct Reconciler<DB: PhasedSql, I> {
    phased: Phased,
    pool: Pool<DB>,
    inquiry: I,
    settings: Settings,
}

#[derive(Debug, Clone)]
struct Settings {
    interval: Duration,
    older_than: Duration,
    batch: u32,
    ask_limit: Duration,
    max_asks: u32,
    backoff: Backoff,
}

/// What a reconciler has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Asks made.
    pub asked: u64,
    /// Keys resolved.
    pub resolved: u64,
    /// Asks that brought nothing definite.
    pub still_unknown: u64,
    /// Asks whose key somebody else had resolved or taken over meanwhile.
    pub overtaken: u64,
}

impl<DB: PhasedSql, I: Inquiry> Reconciler<DB, I> {
    /// A reconciler of the keys in `pool`.
    ///
    /// ```
    /// # use leastlock_idempotency::Key;
    /// use leastlock_idempotency::phased::{Inquiry, Phased, Reconciler, UnknownStep, Verdict};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// struct Bank;
    ///
    /// impl Inquiry for Bank {
    ///     async fn ask(&self, _: &Key, step: &UnknownStep) -> Verdict<serde_json::Value> {
    ///         // … GET /payments?idempotency_key={step.provider_key} …
    /// #       let _ = step;
    ///         Verdict::StillUnknown
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # leastlock_idempotency::MIGRATIONS.run(&pool).await?;
    /// let shutdown = CancellationToken::new();
    /// let reconciler = Reconciler::builder(Phased::default(), pool, Bank).build()?;
    /// let task = tokio::spawn(reconciler.run(shutdown.clone()));
    /// // …
    /// shutdown.cancel();
    /// let summary = task.await??;
    /// assert_eq!(summary.asked, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(phased: Phased, pool: Pool<DB>, inquiry: I) -> ReconcilerBuilder<DB, I> {
        let settings = Settings {
            interval: Duration::from_secs(10),
            older_than: Duration::from_mins(1),
            batch: 50,
            ask_limit: Duration::from_secs(10),
            max_asks: 20,
            backoff: Backoff::new(Duration::from_secs(10), Duration::from_hours(1)),
        };
        ReconcilerBuilder { reconciler: Self { phased, pool, inquiry, settings } }
    }

    /// Asks until `shutdown`. An ask that is under way then comes to its end, which takes `ask_limit` at most; no other begins.
    ///
    /// # Errors
    /// What the database said, if a repetition cannot help; trouble that passes is waited for.
    ///
    /// # Cancel safety
    /// Dropped, the answer of the ask that is under way is lost, and it is asked again after its pause.
    pub async fn run(self, shutdown: CancellationToken) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        while !shutdown.is_cancelled() {
            let found = match self.pass(&mut summary, &shutdown).await {
                Ok(found) => found,
                Err(error) if error.is_retryable() => {
                    tracing::warn!(%error, "a reconciler's pass failed and is repeated");
                    0
                }
                Err(error) => return Err(error),
            };
            if found < self.settings.batch as usize {
                let pause = self.settings.interval.mul_f64(0.9 + 0.2 * fastrand::f64());
                let _stopped = shutdown.run_until_cancelled(tokio::time::sleep(pause)).await;
            }
        }
        Ok(summary)
    }

    /// One pass: at most a batch of keys, one after the other. For those who have a scheduler of their own.
    ///
    /// # Errors
    /// What the database said.
    ///
    /// # Cancel safety
    /// As for [`run`](Self::run).
    pub async fn once(&self) -> Result<Summary, Error> {
        let mut summary = Summary::default();
        self.pass(&mut summary, &CancellationToken::new()).await?;
        Ok(summary)
    }

    /// Answers how many keys it found.
    async fn pass(&self, summary: &mut Summary, shutdown: &CancellationToken) -> Result<usize, Error> {
        let candidates = self.candidates().await?;
        for (unknown, asks) in &candidates {
            if shutdown.is_cancelled() {
                break;
            }
            // Also those that have nothing to ask about, so that they do not stand in the way of the others.
            if !self.take(unknown, *asks).await? {
                continue;
            }
            let Some(step) = &unknown.step else { continue };
            summary.asked += 1;
            let asked = tokio::time::timeout(self.settings.ask_limit, self.inquiry.ask(&unknown.key, step)).await;
            let verdict = asked.unwrap_or(Verdict::StillUnknown);
            measure::asked(match &verdict {
                Verdict::Done(_) => "done",
                Verdict::Failed(_) => "failed",
                Verdict::NotDone => "not_done",
                Verdict::StillUnknown => "still_unknown",
            });
            match self.settle(unknown, verdict).await? {
                Some(Resolved::Applied) => summary.resolved += 1,
                Some(Resolved::Changed) => summary.overtaken += 1,
                None => summary.still_unknown += 1,
            }
        }
        Ok(candidates.len())
    }

    async fn candidates(&self) -> Result<Vec<(Unknown, u32)>, Error> {
        let database = |source| Error::database::<DB>(source);
        let age = millis(self.settings.older_than);
        let askable = Statement::new(DB::ASKABLE).bind(age).bind(age);
        let askable = askable.bind(i64::from(self.settings.max_asks)).bind(i64::from(self.settings.batch));
        let fetch = async {
            let mut connection = self.pool.acquire().await.map_err(database)?;
            askable.fetch_all::<DB>(&mut connection).await.map_err(database)
        };
        let rows = bounded::<DB, _>(self.phased.call_limit, fetch).await?;
        let candidate = |row| {
            let asks = u32::try_from(leastlock_core::Row::int(row, 16).map_err(database)?).unwrap_or(u32::MAX);
            Ok((self.phased.unknown_of::<DB>(row)?, asks))
        };
        rows.iter().map(candidate).collect()
    }

    async fn take(&self, unknown: &Unknown, asks: u32) -> Result<bool, Error> {
        let ask = Statement::new(DB::ASK)
            .bind(millis(self.settings.backoff.ceiling(asks)))
            .bind(unknown.key.scope().as_str())
            .bind(unknown.key.as_str())
            .bind(unknown.generation);
        let execute = async {
            let mut connection = self.pool.acquire().await.map_err(Error::database::<DB>)?;
            ask.execute::<DB>(&mut connection).await.map_err(Error::database::<DB>)
        };
        Ok(bounded::<DB, _>(self.phased.call_limit, execute).await? == 1)
    }

    /// `None` if the provider said nothing definite.
    async fn settle(&self, unknown: &Unknown, verdict: Verdict<Value>) -> Result<Option<Resolved>, Error> {
        let (resolution, reason) = match verdict {
            Verdict::StillUnknown => return Ok(None),
            Verdict::Done(result) => (Resolution::step_done(&result)?, "the provider says that the call took effect"),
            Verdict::NotDone => {
                (Resolution::step_not_done_by_its_provider(), "the provider says that the call had no effect")
            }
            Verdict::Failed(reason) => (Resolution::step_failed(reason), "the provider says that the call was refused"),
        };
        match self.phased.resolve_by_itself(&self.pool, unknown, resolution, reason).await {
            Ok(resolved) => Ok(Some(resolved)),
            // A compensation that was refused, a result that is too large, steps that cannot be read: it concerns this key alone,
            // and an operator has to find another way.
            Err(
                error @ (Error::Step { .. }
                | Error::SealedByAnother { .. }
                | Error::Cipher { .. }
                | Error::Serialize { .. }
                | Error::Deserialize { .. }),
            ) => {
                tracing::warn!(%error, "what a provider said could not be recorded; `list_unknown` has the key");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Builds a [`Reconciler`]; [`build`](Self::build) checks the limits.
#[derive(Debug)]
#[must_use = "call `build`"]
pub struct ReconcilerBuilder<DB: PhasedSql, I> {
    reconciler: Reconciler<DB, I>,
}

impl<DB: PhasedSql, I: Inquiry> ReconcilerBuilder<DB, I> {
    /// The pause between two passes that found nothing (default: 10 s).
    pub fn interval(mut self, interval: Duration) -> Self {
        self.reconciler.settings.interval = interval;
        self
    }

    /// How long a key must have been unknown (default: 1 min).
    pub fn older_than(mut self, older_than: Duration) -> Self {
        self.reconciler.settings.older_than = older_than;
        self
    }

    /// Keys in a pass (default: 50; 0 counts as 1).
    pub fn batch(mut self, batch: u32) -> Self {
        self.reconciler.settings.batch = batch.max(1);
        self
    }

    /// The longest that an ask may take (default: 10 s).
    pub fn ask_limit(mut self, ask_limit: Duration) -> Self {
        self.reconciler.settings.ask_limit = ask_limit;
        self
    }

    /// Asks about one key (default: 20).
    pub fn max_asks(mut self, max_asks: u32) -> Self {
        self.reconciler.settings.max_asks = max_asks;
        self
    }

    /// The pause after each ask (default: from 10 s to 1 h).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.reconciler.settings.backoff = backoff;
        self
    }

    /// The reconciler, if every limit makes sense.
    ///
    /// # Errors
    /// [`SettingError`] names the setting that is zero or beyond its bound.
    pub fn build(self) -> Result<Reconciler<DB, I>, SettingError> {
        let day = Duration::from_hours(24);
        let settings = &self.reconciler.settings;
        for (setting, value) in [("interval", settings.interval), ("ask_limit", settings.ask_limit)] {
            check(setting, value, MILLISECOND, day)?;
        }
        check("older_than", settings.older_than, Duration::ZERO, 3660 * day)?;
        check_number("max_asks", settings.max_asks as usize, 1, u32::MAX as usize)?;
        Ok(self.reconciler)
    }
}
