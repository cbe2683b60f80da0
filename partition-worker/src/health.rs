//! How a worker is, for a readiness probe and for people.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::assignment::Phase;
use crate::lag::{PartitionLag, Position};
use crate::partition::TopicPartition;
use crate::stall::Running;

/// The polling thread looks at its orders every 20 ms, so one that has not for so long is in trouble.
const POLLED_LATELY: Duration = Duration::from_secs(10);

/// How far a worker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Not run yet.
    Built,
    /// Not yet a member of the group.
    Joining,
    /// A member of the group, with or without partitions.
    Running,
    /// Shutting down, or stopped by a failure: no handler is started any more.
    Draining,
    /// Over.
    Ended,
}

/// How a worker is at a moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Health {
    /// How far it has come.
    pub stage: Stage,
    /// The partitions that Kafka has left to it, and where each stands.
    pub partitions: BTreeMap<TopicPartition, Phase>,
    /// Handlers that run.
    pub running: usize,
    /// The handler that has run for longest.
    pub oldest: Option<OldestHandler>,
    /// Handlers that have run for longer than [`stall_after`](crate::Builder::stall_after).
    pub stalled: usize,
    /// How long ago the polling thread went round; `None` before its start.
    pub polled: Option<Duration>,
}

/// A handler that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OldestHandler {
    /// The partition of its record.
    pub partition: TopicPartition,
    /// The offset of its record.
    pub offset: i64,
    /// For how long it has run.
    pub running_for: Duration,
}

impl Health {
    /// Whether the worker does what it is there for: it is a member of the group, polls, and no handler is stalled. A readiness probe
    /// wants to know this.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.stage == Stage::Running && self.stalled == 0 && self.polls()
    }

    /// Whether the worker may come round by itself: it has not ended, and polls. A liveness probe wants to know this. It says nothing
    /// of stalled handlers, since starting anew does not make what they wait for faster; [`OnStall`](crate::OnStall) does, if
    /// it is to.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.stage != Stage::Ended && self.polls()
    }

    fn polls(&self) -> bool {
        self.polled.is_none_or(|ago| ago < POLLED_LATELY)
    }
}

/// Looks at a worker from outside, from before it runs until after it has ended. Cheap to clone.
///
/// ```no_run
/// # #[cfg(all(feature = "kafka", feature = "sqlite"))]
/// # async fn run(
/// #     worker: leastlock_partition_worker::Worker<leastlock_partition_worker::effect::InDatabase<sqlx::Sqlite>>,
/// #     ledger: impl leastlock_partition_worker::Handler<sqlx::Sqlite>,
/// #     shutdown: tokio_util::sync::CancellationToken,
/// # ) -> Result<(), leastlock_partition_worker::Error> {
/// let probe = worker.probe();
/// tokio::spawn(async move {
///     // What an HTTP server would do for `GET /ready`.
///     let status = if probe.health().is_ready() { 200 } else { 503 };
///     // And for a page of figures:
///     for (partition, lag) in probe.lag() {
///         println!("{partition}: {:?} behind", lag.lag);
///     }
/// #   let _ = status;
/// });
/// worker.run(ledger, shutdown).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Probe {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    stage: Stage,
    phases: BTreeMap<TopicPartition, Phase>,
    polled_at: Option<Instant>,
    /// The ends of the logs, as the client has heard them.
    ends: HashMap<TopicPartition, i64>,
    stall_after: Duration,
    source: Option<Weak<dyn Source>>,
}

/// Knows what runs.
pub(crate) trait Source: Send + Sync {
    /// How many handlers run, which is the oldest, how many have run for `stall_after`.
    fn running(&self, stall_after: Duration, now: Instant) -> (usize, Option<Running>, usize);
    /// How far the partitions have come that this worker owns.
    fn positions(&self) -> Vec<(TopicPartition, Position)>;
}

impl Probe {
    pub(crate) fn new(stall_after: Duration) -> Self {
        let shared = Shared {
            stage: Stage::Built,
            phases: BTreeMap::new(),
            polled_at: None,
            ends: HashMap::new(),
            stall_after,
            source: None,
        };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// How the worker is now.
    #[must_use]
    pub fn health(&self) -> Health {
        let now = Instant::now();
        let shared = self.shared();
        let (stage, partitions, stall_after) = (shared.stage, shared.phases.clone(), shared.stall_after);
        let polled = shared.polled_at.filter(|_| stage != Stage::Ended).map(|at| now.saturating_duration_since(at));
        let source = shared.source.as_ref().and_then(Weak::upgrade);
        // Not under two locks at a time.
        drop(shared);
        let (running, oldest, stalled) = source.map_or((0, None, 0), |source| source.running(stall_after, now));
        let oldest = oldest.map(|running| OldestHandler {
            running_for: now.saturating_duration_since(running.since),
            partition: running.partition,
            offset: running.offset,
        });
        Health { stage, partitions, running, oldest, stalled, polled }
    }

    /// How far the worker is behind in the partitions that it owns. The client's statistics, every `statistics.interval.ms`
    /// (5 s unless it is set), tell where the logs end; without them (0) lags are unknown.
    #[must_use]
    pub fn lag(&self) -> BTreeMap<TopicPartition, PartitionLag> {
        let source = self.shared().source.as_ref().and_then(Weak::upgrade);
        let positions = source.map(|source| source.positions()).unwrap_or_default();
        let shared = self.shared();
        let lag = |(partition, position)| {
            let end = shared.ends.get(&partition).copied();
            (partition, PartitionLag::new(position, end))
        };
        positions.into_iter().map(lag).collect()
    }

    pub(crate) fn watch(&self, source: Weak<dyn Source>) {
        let mut shared = self.shared();
        shared.source = Some(source);
        shared.stage = Stage::Joining;
    }

    /// A stage is only ever followed by a later one.
    pub(crate) fn reached(&self, stage: Stage) {
        let mut shared = self.shared();
        if stage as u8 > shared.stage as u8 {
            shared.stage = stage;
        }
    }

    pub(crate) fn ended(&self) {
        let mut shared = self.shared();
        shared.stage = Stage::Ended;
        shared.phases.clear();
        shared.ends.clear();
    }

    pub(crate) fn polled(&self, now: Instant) {
        self.shared().polled_at = Some(now);
    }

    pub(crate) fn phases<'a>(&self, phases: impl Iterator<Item = (&'a TopicPartition, Phase)>) {
        let assigned = phases.filter(|(_, phase)| phase.is_assigned());
        self.shared().phases = assigned.map(|(partition, phase)| (partition.clone(), phase)).collect();
    }

    pub(crate) fn ends(&self, ends: HashMap<TopicPartition, i64>) {
        self.shared().ends = ends;
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Probe").field("health", &self.health()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(stage: Stage, stalled: usize, polled: Option<Duration>) -> Health {
        Health { stage, partitions: BTreeMap::new(), running: 0, oldest: None, stalled, polled }
    }

    #[test]
    fn a_member_that_polls_and_does_not_stall_is_ready() {
        let lately = Some(Duration::from_millis(20));
        assert!(health(Stage::Running, 0, lately).is_ready());
        assert!(!health(Stage::Joining, 0, lately).is_ready());
        assert!(!health(Stage::Draining, 0, lately).is_ready());
        let stalled = health(Stage::Running, 1, lately);
        assert!(!stalled.is_ready() && stalled.is_alive());
        let hung = health(Stage::Running, 0, Some(Duration::from_mins(1)));
        assert!(!hung.is_ready() && !hung.is_alive());
        assert!(!health(Stage::Ended, 0, None).is_alive());
    }

    #[test]
    fn no_stage_is_followed_by_an_earlier_one() {
        let probe = Probe::new(Duration::from_secs(1));
        assert_eq!(probe.health().stage, Stage::Built);
        for (reached, then) in
            [(Stage::Joining, Stage::Joining), (Stage::Draining, Stage::Draining), (Stage::Running, Stage::Draining)]
        {
            probe.reached(reached);
            assert_eq!(probe.health().stage, then);
        }
        probe.ended();
        assert_eq!(probe.health().stage, Stage::Ended);
    }
}
