//! Starting workers of a scripted group, in each of their forms.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use tokio_util::sync::CancellationToken;

use leastlock_core::Backoff;

use super::group::{Group, Started};
use super::handlers::Met;
use super::member::Member;
use super::{TestError, TestKit, Under};
use crate::effect::{AtLeastOnce, Effect, InDatabase, Mode};
use crate::error::Error;
use crate::handler::{BatchHandler, Handler, Process};
use crate::sql::WorkerSql;
use crate::summary::Summary;
use crate::worker::{Builder, Worker};

const GROUP: &str = "leastlock-test-kit";
const SOON: Duration = Duration::from_millis(20);

/// Starts the worker that this describes.
pub(super) trait Launch<M: Mode> {
    fn launch(&self, builder: Builder<M>, member: Arc<Member>) -> Result<Started, Error>;
}

impl<M: Mode, F: Fn(Builder<M>, Arc<Member>) -> Result<Started, Error>> Launch<M> for F {
    fn launch(&self, builder: Builder<M>, member: Arc<Member>) -> Result<Started, Error> {
        self(builder, member)
    }
}

impl<DB: WorkerSql> TestKit<InDatabase<DB>> {
    /// Handles all records, those that earlier runs have finished excepted, and ends the worker.
    ///
    /// # Errors
    /// [`TestError::Worker`] if the worker ends by itself, as it does when a handler has failed for good and the policy is to
    /// stop; [`TestError::NotInTime`] after a minute.
    ///
    /// # Cancel safety
    /// Dropped, it ends the worker as a crash would.
    pub async fn run<H: Handler<DB>>(&self, effect: Effect<InDatabase<DB>>, handler: H) -> Result<Summary, TestError> {
        let (pool, timeouts) = (effect.mode.pool, effect.mode.timeouts);
        let handler = Arc::new(handler);
        let launch = |builder: Builder<_>, member: Arc<Member>| {
            let effect = Effect::in_database(&pool).timeouts(timeouts);
            start_records(builder.effect(effect), Arc::clone(&handler), member)
        };
        self.run_through(launch).await
    }

    /// As [`run`](Self::run), in batches.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As for [`run`](Self::run).
    pub async fn run_batches<H: BatchHandler<DB>>(
        &self,
        effect: Effect<InDatabase<DB>>,
        handler: H,
    ) -> Result<Summary, TestError> {
        let (pool, timeouts) = (effect.mode.pool, effect.mode.timeouts);
        let handler = Arc::new(handler);
        let launch = |builder: Builder<_>, member: Arc<Member>| {
            let effect = Effect::in_database(&pool).timeouts(timeouts);
            start_batches(builder.effect(effect), Arc::clone(&handler), member)
        };
        self.run_through(launch).await
    }
}

impl TestKit<AtLeastOnce> {
    /// Handles all records, those that earlier runs have finished excepted, and ends the worker.
    ///
    /// # Errors
    /// [`TestError::Worker`] if the worker ends by itself, as it does when a handler has failed for good and the policy is to
    /// stop; [`TestError::NotInTime`] after a minute.
    ///
    /// # Cancel safety
    /// Dropped, it ends the worker as a crash would.
    pub async fn run<H: Process>(&self, handler: H) -> Result<Summary, TestError> {
        let handler = Arc::new(handler);
        let launch = |builder: Builder<_>, member: Arc<Member>| start_process(builder, Arc::clone(&handler), member);
        self.run_through(launch).await
    }
}

impl<M: Mode> TestKit<M> {
    async fn run_through(&self, launch: impl Launch<M>) -> Result<Summary, TestError> {
        let start = |member| launch.launch(self.builder(&member), member);
        let mut group = Group::new(Arc::clone(&self.broker), &self.topics, start, Under::default())?;
        group.until_calls(u64::MAX).await?;
        group.end().await
    }

    pub(super) fn builder(&self, member: &Arc<Member>) -> Builder<M> {
        let mut kafka = ClientConfig::new();
        kafka.set("group.id", GROUP);
        let mut builder = Worker::builder(kafka)
            .backoff(Backoff::new(Duration::from_millis(1), SOON))
            .fold_every(SOON)
            .commit_every(SOON);
        for topic in &self.topics {
            builder = builder.topic(topic);
        }
        (self.configure)(builder).scripted(Arc::clone(member))
    }
}

pub(super) fn start_records<DB: WorkerSql, H: Handler<DB>>(
    builder: Builder<InDatabase<DB>>,
    handler: H,
    member: Arc<Member>,
) -> Result<Started, Error> {
    Ok(started(builder.build()?, |worker, shutdown| worker.run(Met { handler, member }, shutdown)))
}

pub(super) fn start_batches<DB: WorkerSql, H: BatchHandler<DB>>(
    builder: Builder<InDatabase<DB>>,
    handler: H,
    member: Arc<Member>,
) -> Result<Started, Error> {
    Ok(started(builder.build()?, |worker, shutdown| worker.run_batches(Met { handler, member }, shutdown)))
}

pub(super) fn start_process<H: Process>(
    builder: Builder<AtLeastOnce>,
    handler: H,
    member: Arc<Member>,
) -> Result<Started, Error> {
    let worker = builder.effect(Effect::at_least_once()).build()?;
    Ok(started(worker, |worker, shutdown| worker.run(Met { handler, member }, shutdown)))
}

fn started<M: Mode, R>(worker: Worker<M>, run: impl FnOnce(Worker<M>, CancellationToken) -> R) -> Started
where
    R: Future<Output = Result<Summary, Error>> + Send + 'static,
{
    let (probe, shutdown) = (worker.probe(), CancellationToken::new());
    let task = tokio::spawn(run(worker, shutdown.clone()));
    Started { probe, task, shutdown }
}
