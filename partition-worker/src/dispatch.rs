//! From delivered records to running handlers: the state that the polling thread and the handlers share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::runtime::Handle;
use tokio::sync::{Notify, RwLock};
use tokio_util::sync::CancellationToken;

use crate::dead_letter::DeadLetters;
use crate::error::Error;
use crate::flow::Flow;
use crate::lanes::{LaneKey, Lanes};
use crate::ordering::{NullKeys, Ordering};
use crate::parked::Queue;
use crate::partition::{Epoch, TopicPartition};
use crate::polling::Order;
use crate::record::Record;
use crate::runs::Runs;
use crate::settings::Settings;
use crate::stall::Watch;
use crate::summary::{PartitionSummary, Summary};
use crate::tracker::CommitTracker;

mod attempt;
mod batches;
mod control;
mod database;
mod failed;
#[cfg(feature = "testing")]
mod faulty;
mod fold;
mod give_up;
mod lane;
mod memory;
mod oversight;
mod processes;
mod records;
mod release;
mod seal;
mod seat;
mod start;
mod state;
mod suspect;
mod topic;
mod unit;

pub(crate) use self::batches::Batches;
pub(crate) use self::database::Database;
use self::failed::Failed;
pub(crate) use self::failed::Failures;
#[cfg(feature = "testing")]
pub(crate) use self::faulty::Faulty;
use self::give_up::GivenUp;
pub(crate) use self::processes::Processes;
pub(crate) use self::records::Records;
use self::release::Draining;
pub(crate) use self::start::GroupStart;
use self::suspect::Suspicion;
pub(crate) use self::unit::Unit;
use self::unit::{Disturbance, Outcome};

/// Everything a worker does outside of its polling thread.
pub(crate) struct Dispatch<U> {
    this: Weak<Self>,
    unit: U,
    dead_letters: DeadLetters,
    settings: Settings,
    runtime: Handle,
    /// How many tasks can run at the same time.
    threads: usize,
    orders: Sender<Order>,
    state: Mutex<State>,
    /// Shared with the tenures, whose handlers it is about.
    watch: Arc<Mutex<Watch>>,
    changed: Notify,
    /// Handlers pass it together; one alone that may bring the process down.
    alone: RwLock<()>,
    /// Ends every handler that still runs.
    stop: CancellationToken,
}

struct State {
    lanes: Lanes<Job>,
    /// Tasks whose attempt has not had to wait yet.
    busy: usize,
    ordering: Ordering,
    null_keys: NullKeys,
    flow: Flow,
    owned: HashMap<TopicPartition, Owned>,
    /// Seals under way; cancelling one keeps it from fencing the next owner.
    sealing: HashMap<TopicPartition, CancellationToken>,
    partitions: BTreeMap<TopicPartition, PartitionSummary>,
    /// How much metadata goes with a commit, in bytes.
    metadata_room: usize,
    draining: bool,
    /// Partitions whose handlers had not finished when the drain was over.
    undrained: BTreeSet<TopicPartition>,
    failure: Option<Error>,
}

/// A sealed partition, for as long as Kafka leaves it to this worker.
struct Owned {
    tracker: CommitTracker,
    /// Finished offsets that will be delivered again.
    finished: Runs,
    tenure: Arc<Tenure>,
    fold: fold::Progressed,
    suspicion: Suspicion,
    /// The last watermark told to Kafka, and how many records were finished then.
    told: Option<(i64, u64)>,
    /// Whether it is about to be given back, so that nothing of it is started.
    leaving: bool,
}

/// What the records of one ownership of a partition have in common.
struct Tenure {
    epoch: Epoch,
    /// Ends the handlers, when the partition is lost.
    cancel: CancellationToken,
    /// Handlers of a partition pass it together, a fold alone.
    turnstile: RwLock<()>,
    /// The handlers that run, of all partitions.
    watch: Arc<Mutex<Watch>>,
    failed: Failed,
}

/// A record on its way through a lane.
pub(crate) struct Job {
    record: Record,
    lane: LaneKey,
    tenure: Arc<Tenure>,
    course: Course,
    /// The deaths held against it, if a process may have died of it.
    suspect: Option<u32>,
    /// Partition and offset of its copy, once the broker has acknowledged it.
    copied: Option<(i32, i64)>,
    /// Attempts that the handler failed.
    attempts: u32,
    /// Attempts that something else failed.
    disturbances: u32,
    /// Whether a commit has been sent whose reply was lost.
    commit_unknown: bool,
    /// Whether it is known, since it was given up, that no handler's commit of it took effect.
    is_unhandled: bool,
    /// Whether the last attempt found the record finished before.
    found_done: bool,
    /// In a hand of how many it may be, itself counted: fewer after a failure for which nobody is to blame yet.
    company: usize,
}

/// What is being done about a record.
enum Course {
    /// The application's handler is tried.
    Handle,
    /// The handler has failed for good, and this is done instead, until it has succeeded.
    GiveUp(Box<GivenUp>),
    /// Its key is parked, and it follows.
    Follow { queue: Queue, topic: Arc<str> },
    /// It stands for the records of a released queue.
    Drain(Box<Draining>),
}

impl<U: Unit> Dispatch<U> {
    pub(crate) fn new(
        unit: U,
        dead_letters: DeadLetters,
        concurrency: usize,
        mut settings: Settings,
        orders: Sender<Order>,
    ) -> Arc<Self> {
        let mut limits = settings.limits(concurrency);
        if U::COMMIT_DECIDES {
            limits.finished_rows = usize::MAX;
        }
        // Well before a partition stands still for it.
        settings.fold_after = settings.fold_after.min((limits.finished_rows / 4).max(1));
        let room = if U::COMMIT_DECIDES { settings.commit_metadata } else { 0 };
        let state = Mutex::new(State::new(concurrency, &settings, limits, room));
        let (changed, stop, runtime) = (Notify::new(), CancellationToken::new(), Handle::current());
        let threads = runtime.metrics().num_workers();
        let this = |this: &Weak<Self>| Self {
            this: this.clone(),
            unit,
            dead_letters,
            settings,
            runtime,
            threads,
            orders,
            state,
            watch: Arc::default(),
            changed,
            alone: RwLock::default(),
            stop,
        };
        Arc::new_cyclic(this)
    }

    /// Waits for a failure after which the worker cannot go on.
    pub(crate) async fn failed(&self) {
        self.wait_for(|state| state.failure.is_some()).await;
    }

    /// Waits until no handler runs.
    pub(crate) async fn idle(&self) {
        self.wait_for(|state| state.lanes.out() == 0).await;
    }

    /// Looks from time to time whether a topic was made anew under the worker, which fails then. Never ends.
    pub(crate) async fn look_at_topics(&self) {
        loop {
            tokio::time::sleep(self.settings.look_every).await;
            if let Err(error) = self.unit.look().await {
                self.fail(error);
                return std::future::pending().await;
            }
        }
    }

    /// Starts no handler any more.
    pub(crate) fn drain(&self) {
        self.state().drain();
    }

    /// Notes which partitions' handlers have not finished by themselves.
    pub(crate) fn note_undrained(&self) {
        let mut state = self.state();
        let running = |partition: &&TopicPartition| !state.lanes.is_quiet(partition);
        state.undrained = state.partitions.keys().filter(running).cloned().collect();
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
        let mut summary = Summary { partitions: state.partitions.clone(), drained };
        for (partition, of) in &mut summary.partitions {
            of.drained = !state.undrained.contains(partition);
            tracing::info!(%partition, ?of, "the end of a worker's partition");
        }
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(summary),
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

    fn watch(&self) -> MutexGuard<'_, Watch> {
        oversight::locked(&self.watch)
    }

    /// Tells the polling thread; if it has ended there is nothing left to tell.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }
}
