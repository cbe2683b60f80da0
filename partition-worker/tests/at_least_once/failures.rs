//! Failure policies without a database.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leastlock_partition_worker::dead_letter::Origin;
use leastlock_partition_worker::on_failure::Cause;
use leastlock_partition_worker::{Error, Failure, OnFailure, Process, Record};
use leastlock_testkit::broker::Broker;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::rig::{LIMIT, Log, Rig, Told, start};

const KEYS: [&str; 3] = ["85123A", "71053", "84406B"];

fn refuse_the_third(record: &Record) -> BoxFuture<'static, Result<(), Failure>> {
    let result = if record.offset() == 2 { Err(Failure::permanent("never")) } else { Ok(()) };
    Box::pin(async { result })
}

pub(crate) async fn a_dead_letter_leaves_its_key_and_names_its_origin(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    let dead = rig.broker.topic(1).await;
    rig.produce(&KEYS[..1], 1..=3).await;
    let log = Log::default();
    let worker = start(rig.builder().on_failure(OnFailure::dead_letter(&dead)), log.first(refuse_the_third));
    leastlock_testkit::until("commit of all", LIMIT, async || rig.committed().await[0].offset == 3).await;
    let summary = worker.stop().await;
    let partition = summary.partitions.values().next().expect("one partition");
    assert_eq!((partition.dead_lettered, partition.processed), (1, 2), "{summary:?}");
    let copies = rig.broker.read_all(&dead, LIMIT).await;
    assert_eq!((copies.len(), copies[0].key_text(), copies[0].value_text()), (1, KEYS[0], "3"));
    let mut copy = Record::new(dead, 0, 0);
    for (name, value) in &copies[0].headers {
        copy = copy.with_header(name.clone(), value.clone());
    }
    let origin = Origin::of(&copy).expect("it is a copy");
    assert_eq!((origin.source.topic(), origin.offset, origin.cause), (&*rig.topic, 2, Cause::Permanent));
}

/// (A real broker cannot be made to keep a topic out.)
pub(crate) async fn a_dead_letter_is_not_committed_before_its_copy_is_acknowledged(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    let dead = rig.broker.topic(1).await;
    rig.produce(&KEYS, 1..=2).await;
    let errors = vec![RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 10_000];
    rig.broker.mock_cluster().expect("a mock cluster").request_errors(RDKafkaApiKey::Produce, &errors);
    let log = Log::default();
    let worker = start(rig.builder().on_failure(OnFailure::dead_letter(&dead)), log.first(refuse_the_third));
    // The failing one holds up its key and the watermark, and nobody else.
    log.until(4).await;
    // Time in which a record that is finished too early would be committed; no more is asked of it.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(rig.committed().await[0].offset <= 2, "the broker has not acknowledged anything");
    rig.broker.mock_cluster().expect("a mock cluster").clear_request_errors(RDKafkaApiKey::Produce);
    leastlock_testkit::until("commit of all", LIMIT, async || rig.committed().await[0].offset == 6).await;
    worker.stop().await;
    assert!(!rig.broker.read_all(&dead, LIMIT).await.is_empty());
}

pub(crate) async fn a_key_cannot_be_parked(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    let refused = rig.builder().on_failure(OnFailure::park_key("parking")).build().map(drop);
    assert!(matches!(refused, Err(Error::Setting { setting: "on_failure", .. })), "{refused:?}");
    let refused = rig.builder().on_permanent_failure(OnFailure::dead_letter(&rig.topic)).build().map(drop);
    assert!(matches!(refused, Err(Error::Setting { setting: "on_failure", .. })), "{refused:?}");
}

pub(crate) async fn a_retry_ends_with_the_ownership(broker: Broker) {
    let rig = Rig::new(broker, 2).await;
    for partition in 0..2 {
        rig.broker.produce_to(&rig.topic, partition, KEYS[0], "1").await;
    }
    let tries: Arc<[AtomicUsize; 2]> = Arc::default();
    let counts = Arc::clone(&tries);
    let log = Log::default();
    let fails = log.first(move |record| {
        counts[usize::try_from(record.partition()).expect("0 or 1")].fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(Failure::retry("not yet")) })
    });
    let counted = || [tries[0].load(Ordering::SeqCst), tries[1].load(Ordering::SeqCst)];
    let first = start(rig.builder().max_attempts(u32::MAX), fails);
    leastlock_testkit::until("tries", LIMIT, async || counted().iter().all(|tries| *tries > 2)).await;
    let second = Log::default();
    let taking = start(rig.builder(), second.plain());
    second.until(1).await;
    let taken = usize::try_from(second.processed()[0].0).expect("0 or 1");
    let before = counted();
    // The other one goes on meanwhile.
    leastlock_testkit::until("tries at what is left", LIMIT, async || counted()[1 - taken] > before[1 - taken] + 5)
        .await;
    assert_eq!(counted()[taken], before[taken], "it is another worker's");
    first.task.abort();
    taking.stop().await;
}

/// Panics at each record for the first time, before it answers a future.
struct PanicsAtOnce {
    log: Told,
    seen: Mutex<BTreeSet<i64>>,
}

impl Process for PanicsAtOnce {
    fn process(&self, record: &Record) -> impl Future<Output = Result<(), Failure>> + Send {
        let is_new = self.seen.lock().expect("no panic under the lock").insert(record.offset());
        assert!(!is_new, "before there is a future");
        self.log.process(record)
    }
}

pub(crate) async fn a_handler_that_panics_before_its_future_is_tried_again(broker: Broker) {
    let rig = Rig::new(broker, 1).await;
    rig.produce(&KEYS, 1..=2).await;
    let log = Log::default();
    let handler = PanicsAtOnce { log: log.plain(), seen: Mutex::default() };
    // More panics than there are places for handlers.
    let worker = start(rig.builder().concurrency(2), handler);
    log.until(6).await;
    let summary = worker.stop().await;
    let partition = summary.partitions.values().next().expect("one partition");
    assert_eq!((partition.processed, partition.failures, summary.drained), (6, 6, true), "{summary:?}");
    log.assert_once(&KEYS, 2);
}
