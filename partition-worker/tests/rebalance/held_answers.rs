//! A coordinator that takes its time to answer.

use std::time::Duration;

use futures_util::future::BoxFuture;
use leastlock_partition_worker::{Effect, Failure, Record, Worker};
use rdkafka::ClientConfig;
use rdkafka::mocking::{MockCluster, MockCoordinator};
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::group::{KEYS, watched};
use crate::rig::{LIMIT, Log};

/// Longer than a probe believes that a thread is alive which does not go round.
const HELD: Duration = Duration::from_secs(15);
const TOPIC: &str = "held";
const GROUP: &str = "held-group";

/// One key fails for ever, so each record of the others makes the metadata of the commits longer than any before. The group's
/// coordinator is a broker of its own, which holds back its answers.
pub(crate) async fn polling_goes_on_while_no_commit_is_answered() {
    let cluster = MockCluster::new(2).expect("a mock cluster");
    cluster.create_topic(TOPIC, 1, 1).expect("a topic");
    cluster.partition_leader(TOPIC, 0, Some(1)).expect("a leader");
    cluster.coordinator(MockCoordinator::Group(GROUP.to_owned()), 2).expect("a coordinator");
    let mut kafka = ClientConfig::new();
    kafka.set("bootstrap.servers", cluster.bootstrap_servers());
    let producer: FutureProducer = kafka.create().expect("a producer");
    // None of the heartbeats is answered either.
    kafka.set("group.id", GROUP).set("session.timeout.ms", "300000");

    let log = Log::default();
    let stuck = |record: &Record| -> BoxFuture<'static, _> {
        let result = if record.key() == Some(KEYS[0].as_bytes()) { Err(Failure::retry("stuck")) } else { Ok(()) };
        Box::pin(async { result })
    };
    let worker = Worker::builder(kafka).topic(TOPIC).effect(Effect::at_least_once());
    let worker = watched(worker.max_attempts(u32::MAX).commit_every(Duration::from_millis(50)), log.first(stuck));
    worker.until("its share", |health| health.partitions.len() == 1 && health.is_ready()).await;
    for round in 1..=40_usize {
        if round == 10 {
            cluster.broker_round_trip_time(2, HELD).expect("it is slow from now on");
        }
        for key in [KEYS[0], KEYS[1]] {
            let record = FutureRecord::to(TOPIC).key(key).payload("1");
            producer.send(record, LIMIT).await.expect("it is appended");
        }
        let processed = async || {
            let health = worker.probe.health();
            assert!(health.is_alive(), "the polling thread stands still: {health:?}");
            log.processed().len() >= round
        };
        leastlock_testkit::until("the record is processed", LIMIT, processed).await;
        // A commit has become due, in which there is more than in the last one.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    worker.running.task.abort();
}
