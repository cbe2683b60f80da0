//! Partitions that move, are lost, and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leastlock_partition_worker::assignment::Phase;
use leastlock_partition_worker::{Limits, PartitionSummary, Record, Summary, TopicPartition};
use leastlock_testkit::broker::Broker;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::sync::Semaphore;

use crate::group::{
    Hold, KEYS, NEVER, PATIENCE, Protocol, Watched, different, forget_the_member, plain, watched, within,
};
use crate::rig::{LIMIT, Log, Rig};

/// A worker is forgotten by its group while a handler runs, joins anew, and is given the partition again.
pub(crate) async fn p1_p4_what_is_lost_is_not_committed_and_its_key_waits_for_the_old_handler(
    broker: Broker,
    protocol: Protocol,
) {
    let rig = protocol.rig(broker, 1).await;
    rig.produce(&KEYS[..2], 1..=2).await;
    let (hold, log) = (Hold::default(), Log::default());
    let worker = watched(rig.builder().commit_every(NEVER), hold.handler(&log, &KEYS[..1]));
    hold.until_entered(1).await;
    log.until(2).await;
    forget_the_member(&rig, protocol).await;
    // The other key's records are processed again, and those that come.
    log.until(4).await;
    rig.produce(&KEYS[1..2], 3..=3).await;
    log.until(5).await;
    assert_eq!(hold.entered(), 1, "a key waits for its handler from before");
    assert_eq!(rig.committed().await[0].offset, 0, "what is lost is not committed");
    hold.let_go();
    // The old handler's record, the same again, and the key's next.
    log.until(8).await;
    assert_eq!(hold.most(), 1, "one of a key at a time");
    let summary = worker.stop().await;
    let of = only(&summary);
    assert_eq!((of.lost, of.taken_over), (1, 2), "{of:?}");
    assert_eq!(rig.committed().await[0].offset, 5, "at the end all is committed");
}

/// Commits are on their way all the time, while a second worker comes and goes.
pub(crate) async fn p2_a_rebalance_with_commits_in_flight_stalls_nothing(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, 4).await;
    let log = Log::default();
    let builder = || rig.builder().commit_every(Duration::from_millis(1));
    let first = watched(builder(), log.plain());
    let second_log = Log::default();
    let mut second = None;
    let mut upto = 0;
    // A second worker comes at 10 and goes once it has had something.
    let mut rounds = 0;
    while rounds < 20 {
        upto += 1;
        rig.produce(&KEYS, upto..=upto).await;
        if upto == 10 {
            second = Some(watched(builder(), second_log.plain()));
        }
        if !second_log.processed().is_empty() {
            if let Some(second) = second.take() {
                second.stop().await;
            }
            rounds += 1;
        }
        assert!(upto < 6_000, "the second worker never got a partition");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let all = KEYS.len() * usize::try_from(upto).expect("small");
    let both = async || {
        let mut processed: BTreeSet<_> = log.processed().into_iter().map(|(p, offset, ..)| (p, offset)).collect();
        processed.extend(second_log.processed().into_iter().map(|(p, offset, ..)| (p, offset)));
        processed.len() == all
    };
    leastlock_testkit::until("consumption goes on to the end", LIMIT, both).await;
    let summary = first.stop().await;
    assert_eq!(summary.partitions.values().map(|of| of.lost).sum::<u32>(), 0, "{summary:?}");
    let committed = rig.committed().await.iter().map(|commit| commit.offset).sum::<i64>();
    assert_eq!(usize::try_from(committed), Ok(all), "and everything is committed");
}

/// On a broker some of the commits are refused for the rebalance.
pub(crate) async fn p2_p14_a_rebalance_with_commits_in_flight_stalls_nothing(broker: Broker, protocol: Protocol) {
    p2_a_rebalance_with_commits_in_flight_stalls_nothing(broker, protocol).await;
}

/// Handlers of every partition, each let go by itself.
#[derive(Clone)]
pub(crate) struct Gates(Arc<BTreeMap<i32, Semaphore>>);

impl Gates {
    pub(crate) fn new(partitions: i32) -> Self {
        Self(Arc::new((0..partitions).map(|partition| (partition, Semaphore::new(0))).collect()))
    }

    fn open(&self, partitions: &BTreeSet<i32>) {
        for partition in partitions {
            self.0[partition].add_permits(1_000);
        }
    }

    /// Whether the handlers of partition 0 have been let go.
    pub(crate) fn is_open(&self) -> bool {
        self.0[&0].available_permits() > 0
    }

    fn handler(&self, log: &Log) -> crate::rig::Told {
        let gates = self.clone();
        log.first(move |record: &Record| {
            let (gates, partition) = (gates.clone(), record.partition());
            Box::pin(async move {
                gates.0[&partition].acquire().await.expect("never closed").forget();
                Ok(())
            })
        })
    }
}

const PARTITIONS: i32 = 4;

/// One worker with a handler in each of four partitions, and a second one that joins; what Kafka takes back of the first.
async fn takes_back(rig: &Rig, log: &Log, gates: &Gates) -> (Watched, BTreeSet<i32>, Watched) {
    for (partition, key) in (0..PARTITIONS).zip(KEYS) {
        rig.broker.produce_to(&rig.topic, partition, key, "1").await;
    }
    // Nothing is committed but at a revocation.
    let builder = || rig.builder().commit_every(NEVER).concurrency(8).revoke_timeout(Duration::from_secs(30));
    let first = watched(builder(), gates.handler(log));
    first.until("a handler in each partition", |health| health.running == 4).await;
    let second = watched(builder(), log.plain());
    first.until("a drain", |health| health.partitions.values().any(|phase| *phase == Phase::Draining)).await;
    let taken = first.in_phase(Phase::Draining);
    assert!(log.processed().is_empty(), "all handlers are open");
    (first, taken, second)
}

async fn second_round(rig: &Rig, log: &Log, second: &Watched) {
    second.until("its share", |health| health.partitions.values().any(|phase| *phase == Phase::Active)).await;
    for (partition, key) in (0..PARTITIONS).zip(KEYS) {
        rig.broker.produce_to(&rig.topic, partition, key, "2").await;
    }
    log.until(8).await;
}

pub(crate) async fn p3_what_is_finished_in_the_drain_is_committed(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, PARTITIONS).await;
    let (log, gates) = (Log::default(), Gates::new(PARTITIONS));
    let (first, taken, second) = takes_back(&rig, &log, &gates).await;
    gates.open(&(0..PARTITIONS).collect());
    second_round(&rig, &log, &second).await;
    let (first, second) = (first.stop().await, second.stop().await);
    log.assert_once(&KEYS, 2);
    for partition in taken {
        let of = &first.partitions[&TopicPartition::new(rig.topic.as_str(), partition)];
        assert!(of.given_back >= 1 && of.cancelled == 0 && of.lost == 0, "{of:?}");
    }
    assert!(second.processed() >= 1 && second.already_done() == 0, "{second:?}");
}

pub(crate) async fn p9_an_incremental_revocation_leaves_kept_partitions_alone(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, PARTITIONS).await;
    let (log, gates) = (Log::default(), Gates::new(PARTITIONS));
    let (first, taken, second) = takes_back(&rig, &log, &gates).await;
    let kept: BTreeSet<i32> = (0..PARTITIONS).filter(|partition| !taken.contains(partition)).collect();
    assert!(!kept.is_empty(), "the protocol is incremental");
    assert_eq!(first.in_phase(Phase::Active), kept);
    // Only what is taken back may finish, and the second worker gets it while the kept partitions' handlers are open.
    gates.open(&taken);
    second.until("its share", |health| health.partitions.values().any(|phase| *phase == Phase::Active)).await;
    assert_eq!(first.probe.health().running, kept.len(), "the handlers of kept partitions go on");
    assert_eq!(first.in_phase(Phase::Active), kept);
    gates.open(&kept);
    second_round(&rig, &log, &second).await;
    let (first, _) = (first.stop().await, second.stop().await);
    log.assert_once(&KEYS, 2);
    for partition in kept {
        let of = &first.partitions[&TopicPartition::new(rig.topic.as_str(), partition)];
        assert_eq!((of.taken_over, of.given_back, of.lost, of.cancelled, of.processed), (1, 0, 0, 0, 2), "{of:?}");
    }
}

/// A consumer of one partition has paused it at its limit when the partition is lost, and is given it again. Answers whether all 40
/// records are processed then.
pub(crate) async fn goes_on_after_a_loss(
    rig: &Rig,
    protocol: Protocol,
    (log, gates): (&Log, &Gates),
    is_full: impl AsyncFn() -> bool,
    has_lost: impl AsyncFn() -> bool,
) -> bool {
    rig.produce(&KEYS[..1], 1..=40).await;
    leastlock_testkit::until("the limit is reached", LIMIT, is_full).await;
    forget_the_member(rig, protocol).await;
    leastlock_testkit::until("the loss", LIMIT, has_lost).await;
    gates.open(&BTreeSet::from([0]));
    within(PATIENCE, || different(log) >= 40).await
}

pub(crate) async fn p8_a_pause_is_not_in_force_after_a_reassignment(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, 1).await;
    let (log, gates) = (Log::default(), Gates::new(1));
    let limits = Limits { records_per_partition: 4, ..Limits::default() };
    let worker = watched(rig.builder().limits(limits), gates.handler(&log));
    let is_full = async || worker.probe.lag().values().any(|lag| lag.unfinished >= 4);
    let has_lost = async || worker.probe.health().partitions.is_empty() || only_lost(&worker);
    assert!(goes_on_after_a_loss(&rig, protocol, (&log, &gates), is_full, has_lost).await);
    let summary = worker.stop().await;
    assert_eq!(only(&summary).lost, 1, "{summary:?}");
}

/// Whether what is assigned has been taken over anew.
fn only_lost(worker: &Watched) -> bool {
    worker.in_phase(Phase::Sealing).len() == 1
}

/// The mock cluster refuses commits as a broker does in the middle of a rebalance. Answers whether the consumer that `start` starts lives,
/// has committed all the same, and goes on.
pub(crate) async fn goes_on_after_refused_commits<C>(
    rig: &Rig,
    log: &Log,
    start: impl FnOnce() -> C,
    has_ended: impl Fn(&C) -> bool,
) -> (bool, C) {
    refuse_commits(rig);
    rig.produce(&KEYS[..1], 1..=5).await;
    let consumer = start();
    let committed = async || has_ended(&consumer) || rig.committed().await[0].offset == 5;
    leastlock_testkit::until("the commit", LIMIT, committed).await;
    rig.produce(&KEYS[..1], 6..=6).await;
    let goes_on = !has_ended(&consumer) && within(PATIENCE, || different(log) >= 6).await;
    (goes_on, consumer)
}

pub(crate) async fn p14_a_commit_refused_for_a_rebalance_is_made_again(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, 1).await;
    let log = Log::default();
    let (goes_on, worker) =
        goes_on_after_refused_commits(&rig, &log, || plain(&rig, &log), |worker| worker.task.is_finished()).await;
    assert!(goes_on);
    worker.stop().await;
    log.assert_once(&KEYS[..1], 6);
}

fn refuse_commits(rig: &Rig) {
    let refused = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS; 3];
    rig.broker.mock_cluster().expect("the mock cluster").request_errors(RDKafkaApiKey::OffsetCommit, &refused);
}

pub(crate) fn only(summary: &Summary) -> PartitionSummary {
    assert_eq!(summary.partitions.len(), 1, "{summary:?}");
    *summary.partitions.values().next().expect("one partition")
}
