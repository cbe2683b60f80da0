//! The worker: built, run, and shut down.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rdkafka::ClientConfig;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use crate::dead_letter::DeadLetters;
use crate::dispatch::{Batches, Database, Dispatch, GroupStart, Processes, Records, Unit};
use crate::effect::{AtLeastOnce, InDatabase, Mode};
use crate::error::Error;
use crate::handler::{BatchHandler, Handler, Process};
use crate::health::{Probe, Source, Stage};
use crate::parked::Parking;
use crate::poison::Suspects;
use crate::polling::{self, Control, Order, Setup};
use crate::progress::Progress;
use crate::settings::{Reset, Settings};
use crate::sql::WorkerSql;
use crate::summary::Summary;

mod builder;

pub use self::builder::Builder;

/// How long a cancelled handler may take to end; one that blocks its thread is left behind.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// How long the last fold may take. It is housekeeping: what it leaves is folded by the next owner.
const FOLD_PATIENCE: Duration = Duration::from_secs(5);
/// How long it may take to note that nothing has died.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for keys that operators have released, where any are parked.
const RELEASES_EVERY: Duration = Duration::from_millis(500);
/// How long leaving the group may take.
const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// A consumer with one writer per key, whose effect is exactly once.
///
/// See the [crate's documentation](crate) for what it guarantees.
#[derive(Debug)]
pub struct Worker<M: Mode> {
    kafka: ClientConfig,
    group: String,
    reset: Reset,
    topics: Vec<String>,
    mode: M,
    settings: Settings,
    probe: Probe,
    #[cfg(feature = "testing")]
    scripted: Option<Arc<crate::testing::Member>>,
}

impl<M: Mode> Worker<M> {
    /// Starts to describe a worker that consumes as `kafka` says. `bootstrap.servers` and `group.id` are needed; classic
    /// groups, eager or cooperative, and `group.protocol=consumer` all work.
    ///
    /// The worker itself sets `enable.auto.commit` and `enable.auto.offset.store` to false. `auto.offset.reset` (default here:
    /// `earliest`) says where a group starts that has neither progress in the database nor a committed offset; afterwards
    /// the database says it, and an offset that the log does not have stops the worker.
    pub fn builder(kafka: ClientConfig) -> Builder<M> {
        Builder::new(kafka)
    }

    /// What looks at this worker from outside, while it runs: for a readiness probe, and for its lag.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.probe.clone()
    }
}

impl<DB: WorkerSql> Worker<InDatabase<DB>> {
    /// Consumes until `shutdown` is cancelled. Then it takes no more records, lets the handlers that run finish, up to the
    /// drain time-out, cancels those that do not, commits what is finished, and leaves the group. Records that waited are
    /// delivered again to whoever owns their partition next.
    ///
    /// Beyond the drain time-out it takes 45 s at the most, whatever database and broker do: 5 s for cancelled handlers to end,
    /// 5 s for the last fold, 5 s to note the end, 30 s to leave the group.
    ///
    /// # Errors
    /// [`Error::HandlerFailed`] if a handler has failed for good; the other variants if the database or Kafka answer in a way
    /// that trying again cannot help. The group has been left, and what was finished stays finished.
    ///
    /// # Cancel safety
    /// Dropped, it cancels its handlers, whose transactions roll back, and its thread leaves the group in the background.
    /// No record is lost and none takes effect twice.
    pub async fn run<H: Handler<DB>>(self, handler: H, shutdown: CancellationToken) -> Result<Summary, Error> {
        let (concurrency, database) = (self.settings.concurrency(&self.mode.pool), self.database());
        self.consume(Records { database, handler }, concurrency, shutdown).await
    }

    /// As [`run`](Self::run), with many records of a partition in a transaction: one that has little to do for each of them takes
    /// most of its time to begin and to commit.
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As for [`run`](Self::run).
    pub async fn run_batches<H: BatchHandler<DB>>(
        mut self,
        handler: H,
        shutdown: CancellationToken,
    ) -> Result<Summary, Error> {
        let (concurrency, database) = (self.settings.concurrency_of_batches(&self.mode.pool), self.database());
        let max_batch = self.settings.max_batch;
        // A fold waits for the batches that run, so it comes after many of them.
        self.settings.fold_after = self.settings.fold_after.max(max_batch.saturating_mul(100));
        self.consume(Batches { database, handler, max_batch }, concurrency, shutdown).await
    }

    fn database(&self) -> Database<DB> {
        let owner = uuid::Uuid::new_v4().to_string();
        let progress = Progress::new(self.mode.pool.clone(), self.group.as_str(), owner);
        Database {
            progress: progress.with_timeouts(self.mode.timeouts),
            origin: self.origin(),
            backoff: self.settings.backoff,
            handler_timeout: self.settings.handler_timeout,
            parking: Parking::new(self.mode.pool.clone(), self.group.as_str()),
            suspects: Suspects::new(self.mode.pool.clone(), self.group.as_str()),
            held: self.settings.held(self.settings.concurrency(&self.mode.pool)),
        }
    }
}

impl Worker<AtLeastOnce> {
    /// Consumes until `shutdown` is cancelled, as a worker [with a database](Worker::run) does, with the same bounds. Each record
    /// is processed at least once.
    ///
    /// # Errors
    /// [`Error::HandlerFailed`] if a handler has failed for good; the other variants if Kafka answers in a way that trying again
    /// cannot help. The group has been left, and what was finished is committed.
    ///
    /// # Cancel safety
    /// Dropped, it cancels its handlers, and its thread commits what is finished and leaves the group in the background. No record
    /// is lost; those whose handlers were cancelled are processed again.
    pub async fn run<H: Process>(self, handler: H, shutdown: CancellationToken) -> Result<Summary, Error> {
        let (concurrency, handler_timeout) = (self.settings.concurrency_alone(), self.settings.handler_timeout);
        let processes = Processes::new(handler, self.origin(), handler_timeout);
        self.consume(processes, concurrency, shutdown).await
    }
}

impl<M: Mode> Worker<M> {
    fn origin(&self) -> GroupStart {
        #[cfg(feature = "testing")]
        if let Some(member) = &self.scripted {
            return GroupStart::scripted(self.kafka.clone(), self.reset, Arc::clone(member));
        }
        GroupStart::new(self.kafka.clone(), self.reset)
    }

    async fn consume<U: Unit>(
        self,
        unit: U,
        concurrency: usize,
        shutdown: CancellationToken,
    ) -> Result<Summary, Error> {
        #[cfg(feature = "testing")]
        if let Some(member) = self.scripted.clone() {
            let unit = crate::dispatch::Faulty { unit, member };
            return Box::pin(self.work_through(unit, concurrency, shutdown)).await;
        }
        self.work_through(unit, concurrency, shutdown).await
    }

    async fn work_through<U: Unit>(
        self,
        unit: U,
        concurrency: usize,
        shutdown: CancellationToken,
    ) -> Result<Summary, Error> {
        let (orders, receiver) = mpsc::channel();
        let Settings { drain_timeout, fold_every, commit_every, rejoin_after, .. } = self.settings;
        let (probe, kafka) = (self.probe, self.kafka.clone());
        let setup = Setup {
            kafka: self.kafka,
            topics: self.topics,
            commit_every,
            rejoin_after,
            revoke_timeout: U::COMMIT_DECIDES.then_some(self.settings.revoke_timeout),
            probe: probe.clone(),
        };
        let dead_letters = DeadLetters::new(kafka, self.group);
        #[cfg(feature = "testing")]
        let dead_letters = dead_letters.scripted(self.scripted.clone());
        let dispatch = Dispatch::new(unit, dead_letters, concurrency, self.settings, orders.clone());
        let source: Arc<dyn Source> = Arc::clone(&dispatch) as _;
        probe.watch(Arc::downgrade(&source));
        let _probed = EndOnDrop(&probe);
        let control = Arc::clone(&dispatch) as Arc<dyn Control>;
        #[cfg(not(feature = "testing"))]
        let mut ended = polling::start(setup, control, receiver)?;
        #[cfg(feature = "testing")]
        let mut ended = match self.scripted {
            Some(member) => member.start(setup, control, receiver)?,
            None => polling::start(setup, control, receiver)?,
        };
        let abandoned = CloseOnDrop { dispatch: &dispatch, orders: &orders };

        let mut fold = interval(fold_every);
        fold.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut releases = interval(RELEASES_EVERY);
        releases.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = pin!(dispatch.look_at_topics());
        let early = loop {
            tokio::select! {
                () = shutdown.cancelled() => break None,
                () = dispatch.failed() => break None,
                end = &mut ended => break Some(end),
                () = &mut looks => {}
                _ = fold.tick() => dispatch.start_folds(),
                _ = releases.tick() => dispatch.look_for_releases(),
            }
        };

        dispatch.drain();
        probe.reached(Stage::Draining);
        let _ = orders.send(Order::Drain);
        let patience = if is_over::<U>(early.as_ref()) { Duration::ZERO } else { drain_timeout };
        let drained = timeout(patience, dispatch.idle()).await.is_ok();
        dispatch.note_undrained();
        dispatch.cancel();
        if timeout(CANCEL_PATIENCE, dispatch.idle()).await.is_err() {
            tracing::warn!(
                "a handler goes on after it was cancelled; it is left behind, and cannot commit once it is fenced"
            );
        }
        if timeout(FOLD_PATIENCE, dispatch.fold_all()).await.is_err() {
            tracing::warn!("the last fold takes long; the next owner folds what it leaves");
        }
        if timeout(END_PATIENCE, dispatch.end_all()).await.is_err() {
            tracing::warn!(
                "noting the end takes long; the next owner will be careful with the records that come first"
            );
        }
        let _ = orders.send(Order::Close);
        let end = match early {
            Some(end) => Some(end),
            None => timeout(CLOSE_PATIENCE, ended).await.ok(),
        };
        drop(abandoned);
        note_end(&dispatch, end);
        dispatch.outcome(drained)
    }
}

type Ended = Result<Result<(), Error>, oneshot::error::RecvError>;

/// Whether handlers are not waited for, since the group has been left. Of a stalled handler it is known by then that it does not end, and
/// the others have had the revocation's drain. And without a database they would run beside the next owner's.
fn is_over<U: Unit>(early: Option<&Ended>) -> bool {
    early.is_some_and(|end| U::COMMIT_DECIDES || matches!(end, Ok(Err(Error::Stalled { .. }))))
}

fn note_end<U: Unit>(dispatch: &Dispatch<U>, end: Option<Ended>) {
    match end {
        Some(Ok(Ok(()))) => {}
        Some(Ok(Err(error))) => dispatch.fail(error),
        Some(Err(_)) => dispatch.fail(Error::PollingThreadEnded),
        None => tracing::warn!("leaving the group takes long; it goes on in the background"),
    }
}

/// Has the probe say that the worker has ended, however its future ends.
struct EndOnDrop<'a>(&'a Probe);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// Ends the thread and the handlers however the worker's future ends.
struct CloseOnDrop<'a, U: Unit> {
    dispatch: &'a Dispatch<U>,
    orders: &'a mpsc::Sender<Order>,
}

impl<U: Unit> Drop for CloseOnDrop<'_, U> {
    fn drop(&mut self) {
        self.dispatch.drain();
        self.dispatch.cancel();
        let _ = self.orders.send(Order::Close);
    }
}
