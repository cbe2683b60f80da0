//! The same records with faults and without, and what comes of them.

use std::fmt::Debug;
use std::sync::Arc;

use sqlx::Pool;

use super::group::{Group, Started};
use super::kit::{start_batches, start_process, start_records};
use super::member::Member;
use super::{Fault, TestError, TestKit, Under};
use crate::effect::{AtLeastOnce, Effect, InDatabase, Mode};
use crate::error::Error;
use crate::handler::{BatchHandler, Handler, Process};
use crate::sql::WorkerSql;
use crate::worker::Builder;

/// Faults of one round.
const FAULTS: std::ops::RangeInclusive<usize> = 4..=12;

/// What a handler has come through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survived {
    /// The rounds with faults.
    pub rounds: Vec<Under>,
}

impl<DB: WorkerSql> TestKit<InDatabase<DB>> {
    /// Handles the records without faults, then once for each seed with [faults](Fault), each time in a database of its own that
    /// `fresh` has made (with [`MIGRATIONS`](crate::MIGRATIONS) applied, and whatever the handler needs), and compares what
    /// `end` sees of it in the end.
    ///
    /// A handler is made for each worker, as a process would make it when it starts. Compare what the handler *means*: a column
    /// that is filled by a sequence or a clock differs between any two runs. Records that are poisonous after several deaths of a
    /// process are not looked for ([`poison_after`](crate::Builder::poison_after) is 0), since the faults are nobody's.
    ///
    /// # Errors
    /// [`TestError::Differs`] if the handler is not what it should be: it names the seed and the faults. Otherwise as
    /// for [`run`](Self::run).
    ///
    /// # Cancel safety
    /// Dropped, it ends the workers as a crash would.
    pub async fn torture<H: Handler<DB>, T: PartialEq + Debug>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        fresh: impl AsyncFn() -> Pool<DB>,
        handler: impl Fn(&Pool<DB>) -> H,
        end: impl AsyncFn(&Pool<DB>) -> T,
    ) -> Result<Survived, TestError> {
        let start = |pool: &Pool<DB>, builder: Builder<_>, member| {
            start_records(builder.effect(Effect::in_database(pool)).poison_after(0), handler(pool), member)
        };
        self.compare(seeds, fresh, start, end).await
    }

    /// As [`torture`](Self::torture), in batches.
    ///
    /// # Errors
    /// As for [`torture`](Self::torture).
    ///
    /// # Cancel safety
    /// As for [`torture`](Self::torture).
    pub async fn torture_batches<H: BatchHandler<DB>, T: PartialEq + Debug>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        fresh: impl AsyncFn() -> Pool<DB>,
        handler: impl Fn(&Pool<DB>) -> H,
        end: impl AsyncFn(&Pool<DB>) -> T,
    ) -> Result<Survived, TestError> {
        let start = |pool: &Pool<DB>, builder: Builder<_>, member| {
            start_batches(builder.effect(Effect::in_database(pool)).poison_after(0), handler(pool), member)
        };
        self.compare(seeds, fresh, start, end).await
    }
}

impl TestKit<AtLeastOnce> {
    /// Processes the records without faults, then once for each seed with [faults](Fault), each time in a world of its own that
    /// `fresh` has made, and compares what `end` sees of it in the end. It shows whether the handler bears that a record is
    /// processed again.
    ///
    /// # Errors
    /// [`TestError::Differs`] if it does not: it names the seed and the faults. Otherwise as for [`run`](Self::run).
    ///
    /// # Cancel safety
    /// Dropped, it ends the workers as a crash would.
    pub async fn torture<W, H: Process, T: PartialEq + Debug>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        fresh: impl AsyncFn() -> W,
        handler: impl Fn(&W) -> H,
        end: impl AsyncFn(&W) -> T,
    ) -> Result<Survived, TestError> {
        let start = |world: &W, builder, member| start_process(builder, handler(world), member);
        self.compare(seeds, fresh, start, end).await
    }
}

impl<M: Mode> TestKit<M> {
    async fn compare<W, T: PartialEq + Debug>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        fresh: impl AsyncFn() -> W,
        start: impl Fn(&W, Builder<M>, Arc<Member>) -> Result<Started, Error>,
        end: impl AsyncFn(&W) -> T,
    ) -> Result<Survived, TestError> {
        let world = fresh().await;
        self.round(None, |builder, member| start(&world, builder, member)).await?;
        let expected = end(&world).await;
        let mut survived = Survived::default();
        for seed in seeds {
            let world = fresh().await;
            let under = self.round(Some(seed), |builder, member| start(&world, builder, member)).await?;
            let found = end(&world).await;
            if found != expected {
                let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
                return Err(TestError::Differs { under, expected, found });
            }
            survived.rounds.push(under);
        }
        Ok(survived)
    }

    async fn round(
        &self,
        seed: Option<u64>,
        start: impl Fn(Builder<M>, Arc<Member>) -> Result<Started, Error>,
    ) -> Result<Under, TestError> {
        let broker = Arc::new(self.broker.afresh(&self.topics));
        let records: usize = self.topics.iter().map(|topic| broker.records(topic).len()).sum();
        let start = |member| start(self.builder(&member), member);
        let mut group = Group::new(Arc::clone(&broker), &self.topics, start, Under { seed, faults: Vec::new() })?;
        if let Some(seed) = seed {
            let mut rng = fastrand::Rng::with_seed(seed);
            // A fault at a call of the handler, so that there is something that it meets.
            let mut due: Vec<u64> = (0..rng.usize(FAULTS)).map(|_| rng.u64(0..=records as u64)).collect();
            due.sort_unstable();
            for calls in due {
                if group.until_calls(calls).await? {
                    break;
                }
                let fault = rng.choice(Fault::ALL).unwrap_or(Fault::Crashed);
                group.disturb(&mut rng, fault).await?;
            }
            broker.arm(None);
        }
        group.until_calls(u64::MAX).await?;
        let under = group.under.clone();
        group.end().await?;
        Ok(under)
    }
}
