//! From delivered records to running handlers: the state that the polling thread and the handlers share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rdkafka::ClientConfig;
use tokio::runtime::Handle;
use tokio::sync::{Notify, RwLock};
use tokio_util::sync::CancellationToken;

use crate::assignment::Batch;
use crate::error::Error;
use crate::flow::{Change, Flow};
use crate::handler::Handler;
use crate::lanes::Lanes;
use crate::partition::{Epoch, TopicPartition};
use crate::polling::{Control, Order, Start};
use crate::progress::Progress;
use crate::record::Record;
use crate::settings::{Reset, Settings};
use crate::sql::WorkerSql;
use crate::summary::{PartitionSummary, Summary};
use crate::tracker::CommitTracker;

mod attempt;
mod fold;
mod lane;
mod seal;
mod state;

/// Everything a worker does outside of its polling thread.
pub(crate) struct Dispatch<DB: WorkerSql, H> {
    this: Weak<Self>,
    progress: Progress<DB>,
    handler: H,
    settings: Settings,
    kafka: ClientConfig,
    reset: Reset,
    runtime: Handle,
    orders: Sender<Order>,
    state: Mutex<State>,
    changed: Notify,
    /// Ends every handler that still runs.
    stop: CancellationToken,
}

struct State {
    lanes: Lanes<Job>,
    flow: Flow,
    owned: HashMap<TopicPartition, Owned>,
    /// Seals under way; cancelling one keeps it from fencing the next owner.
    sealing: HashMap<TopicPartition, CancellationToken>,
    partitions: BTreeMap<TopicPartition, PartitionSummary>,
    draining: bool,
    failure: Option<Error>,
}

/// A sealed partition, for as long as Kafka leaves it to this worker.
struct Owned {
    tracker: CommitTracker,
    /// Finished offsets that will be delivered again.
    finished: BTreeSet<i64>,
    cancel: CancellationToken,
    turnstile: Turnstile,
    fold: fold::Progressed,
    /// The last watermark told to Kafka.
    hinted: Option<i64>,
}

/// Handlers of a partition pass it together, a fold alone.
type Turnstile = Arc<RwLock<()>>;

/// A record on its way through a lane.
struct Job {
    record: Record,
    epoch: Epoch,
    cancel: CancellationToken,
    turnstile: Turnstile,
    /// Attempts that the handler failed.
    attempts: u32,
    /// Attempts that the database failed.
    disturbances: u32,
    /// Whether a commit has been sent whose reply was lost.
    commit_unknown: bool,
}

/// What a dispatch is made of.
pub(crate) struct Parts<DB: WorkerSql, H> {
    pub(crate) progress: Progress<DB>,
    pub(crate) handler: H,
    pub(crate) settings: Settings,
    pub(crate) kafka: ClientConfig,
    pub(crate) reset: Reset,
    pub(crate) orders: Sender<Order>,
}

impl<DB: WorkerSql, H: Handler<DB>> Dispatch<DB, H> {
    pub(crate) fn new(parts: Parts<DB, H>, runtime: Handle) -> Arc<Self> {
        let Parts { progress, handler, settings, kafka, reset, orders } = parts;
        let lanes = Lanes::new(settings.concurrency(progress.pool()));
        let state = Mutex::new(State::new(lanes, Flow::new(settings.limits)));
        let (changed, stop) = (Notify::new(), CancellationToken::new());
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            progress,
            handler,
            settings,
            kafka,
            reset,
            runtime,
            orders,
            state,
            changed,
            stop,
        })
    }

    /// Waits for a failure after which the worker cannot go on.
    pub(crate) async fn failed(&self) {
        self.wait_for(|state| state.failure.is_some()).await;
    }

    /// Waits until no handler runs.
    pub(crate) async fn idle(&self) {
        self.wait_for(|state| state.lanes.out() == 0).await;
    }

    /// Starts no handler any more.
    pub(crate) fn drain(&self) {
        self.state().drain();
    }

    /// Ends the handlers that run; their transactions roll back.
    pub(crate) fn cancel(&self) {
        self.stop.cancel();
    }

    /// What was done, or why it came to an end.
    pub(crate) fn outcome(&self, drained: bool) -> Result<Summary, Error> {
        let mut state = self.state();
        let owned: Vec<_> = state.owned.keys().cloned().collect();
        for partition in owned {
            state.note_position(&partition);
        }
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(Summary { partitions: state.partitions.clone(), drained }),
        }
    }

    /// The first failure is the one that is reported.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.state();
        state.failure.get_or_insert(error);
        state.drain();
        drop(state);
        self.changed.notify_waiters();
    }

    async fn wait_for(&self, condition: impl Fn(&State) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if condition(&self.state()) {
                return;
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code of the application runs under this lock, and every change under it is complete once it is begun.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the polling thread; if it has ended there is nothing left to tell.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }
}

impl<DB: WorkerSql, H: Handler<DB>> Control for Dispatch<DB, H> {
    fn seal(&self, batch: Batch, partitions: Vec<TopicPartition>) {
        let Some(this) = self.this.upgrade() else { return };
        let mut state = self.state();
        let partitions = partitions.into_iter().map(|partition| {
            let cancel = self.stop.child_token();
            if let Some(earlier) = state.sealing.insert(partition.clone(), cancel.clone()) {
                earlier.cancel();
            }
            (partition, cancel)
        });
        let partitions: Vec<_> = partitions.collect();
        drop(state);
        self.runtime.spawn(this.seal_all(batch, partitions));
    }

    fn activate(&self, partition: &TopicPartition, start: Start) {
        let mut state = self.state();
        state.sealing.remove(partition);
        state.flow.assigned(partition);
        state.partitions.entry(partition.clone()).or_default();
        let owned = Owned {
            tracker: CommitTracker::new(start.epoch, start.offset),
            finished: start.finished,
            cancel: self.stop.child_token(),
            turnstile: Turnstile::default(),
            fold: fold::Progressed::new(start.offset),
            hinted: None,
        };
        state.owned.insert(partition.clone(), owned);
    }

    fn take_away(&self, partitions: &[TopicPartition], lost: bool) -> Vec<(TopicPartition, i64)> {
        let mut state = self.state();
        let mut watermarks = Vec::new();
        for partition in partitions {
            if let Some(sealing) = state.sealing.remove(partition) {
                sealing.cancel();
            }
            if let Some(owned) = state.disown(partition) {
                watermarks.push((partition.clone(), owned.tracker.watermark()));
                if lost {
                    owned.cancel.cancel();
                }
            }
        }
        watermarks
    }

    fn deliver(&self, record: Record) {
        let mut state = self.state();
        if state.draining || !state.admit(record) {
            return;
        }
        self.start_ready(state);
    }

    fn change(&self) -> Change {
        self.state().flow.change()
    }

    fn hints(&self) -> Vec<(TopicPartition, i64)> {
        let mut hints = Vec::new();
        for (partition, owned) in &mut self.state().owned {
            let watermark = owned.tracker.watermark();
            if owned.hinted != Some(watermark) {
                owned.hinted = Some(watermark);
                hints.push((partition.clone(), watermark));
            }
        }
        hints
    }

    fn hint_again(&self) {
        for owned in self.state().owned.values_mut() {
            owned.hinted = None;
        }
    }
}
