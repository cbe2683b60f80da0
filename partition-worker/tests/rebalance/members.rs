//! Members that are replaced: static ones (KIP-345: `group.instance.id`), and those that fail.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_partition_worker::health::Stage;
use leastlock_partition_worker::{Error, Summary, TopicPartition};
use leastlock_testkit::broker::Broker;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::sync::Semaphore;

use crate::group::{KEYS, Protocol, watched};
use crate::rig::{LIMIT, Log, Rig};

fn is(rig: &mut Rig, protocol: Protocol, name: &str) {
    rig.settings = protocol.settings();
    rig.settings.push(("group.instance.id", name.to_owned()));
    if protocol != Protocol::Consumer {
        // Long enough to come back.
        rig.settings.push(("session.timeout.ms", "30000".to_owned()));
    }
}

pub(crate) async fn a_static_member_that_comes_back_in_time_causes_no_rebalance(broker: Broker, protocol: Protocol) {
    let mut rig = protocol.rig(broker, 4).await;
    let log = Log::default();
    is(&mut rig, protocol, "stays");
    let stays = watched(rig.builder(), log.plain());
    stays.until("all partitions", |health| health.partitions.len() == 4 && health.is_ready()).await;
    is(&mut rig, protocol, "restarts");
    let restarts = watched(rig.builder(), log.plain());
    for member in [&stays, &restarts] {
        member.until("its share", |health| health.partitions.len() == 2 && health.is_ready()).await;
    }
    rig.produce(&KEYS, 1..=3).await;
    log.until(12).await;
    let before = restarts.stop().await;
    rig.produce(&KEYS, 4..=6).await;
    let again = watched(rig.builder(), log.plain());
    log.until(24).await;
    let (again, stays) = (again.stop().await, stays.stop().await);
    log.assert_once(&KEYS, 6);
    let (had, has) = (held(&before), held(&again));
    assert_eq!((had.len(), &had), (2, &has), "it has its partitions again: {before:?} {again:?}");
    assert_eq!(again.partitions.len(), 2, "and never had others: {again:?}");
    // The member that stays had all at first, then its share, and nothing came or went since.
    let shares = if protocol == Protocol::Eager { 2 } else { 1 };
    for (partition, of) in &stays.partitions {
        let expected = if has.contains(partition) { (1, 1, 0) } else { (shares, shares - 1, 0) };
        assert_eq!((of.taken_over, of.given_back, of.lost), expected, "{partition}: {stays:?}");
    }
}

/// What it had when it ended.
fn held(summary: &Summary) -> BTreeSet<TopicPartition> {
    let held = summary.partitions.iter().filter(|(_, of)| of.taken_over > of.given_back + of.lost);
    held.map(|(partition, _)| partition.clone()).collect()
}

pub(crate) async fn a_second_worker_of_one_static_member_stops_the_first(broker: Broker, protocol: Protocol) {
    let mut rig = protocol.rig(broker, 1).await;
    is(&mut rig, protocol, "one");
    let log = Log::default();
    let (held, gate) = (Log::default(), Arc::new(Semaphore::new(0)));
    let waits = Arc::clone(&gate);
    let holds = held.first(move |_| {
        let waits = Arc::clone(&waits);
        Box::pin(async move {
            waits.acquire().await.expect("never closed").forget();
            Ok(())
        })
    });
    // Its handler is not waited for, though there would be all the time in the world: the second one's is at work.
    let first = watched(rig.builder().drain_timeout(Duration::from_hours(1)), holds);
    rig.produce(&KEYS[..1], 1..=1).await;
    first.until("a handler that waits", |health| health.running == 1).await;
    let second = watched(rig.builder(), log.plain());
    let ended = tokio::time::timeout(LIMIT, first.running.task).await.expect("it ends in time").expect("no panic");
    let error = ended.expect_err("it is fenced");
    assert!(matches!(error, Error::FencedInstance { .. }), "{error:?}");
    gate.add_permits(10);
    rig.produce(&KEYS[..1], 2..=2).await;
    log.until(2).await;
    second.stop().await;
    assert!(held.processed().is_empty(), "the first one's handler has ended with it");
}

/// A worker that meets an error which it cannot go on with, while its handler takes effect all the time, and another one that
/// gets its partition.
pub(crate) async fn a_worker_that_fails_ends_its_handlers_before_the_next_owner_starts_any(
    broker: Broker,
    protocol: Protocol,
) {
    let rig = protocol.rig(broker, 1).await;
    let effects: Arc<Mutex<Vec<&str>>> = Arc::default();
    let takes_effect = |owner: &'static str, goes_on: bool| {
        let effects = Arc::clone(&effects);
        Log::default().first(move |_| {
            let effects = Arc::clone(&effects);
            Box::pin(async move {
                loop {
                    effects.lock().expect("no panic under the lock").push(owner);
                    if !goes_on {
                        return Ok(());
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
        })
    };
    let first = watched(rig.builder().drain_timeout(Duration::from_secs(5)), takes_effect("first", true));
    rig.produce(&KEYS[..1], 1..=1).await;
    first.until("its handler", |health| health.running == 1).await;
    let cluster = rig.broker.mock_cluster().expect("the mock cluster");
    cluster.request_errors(RDKafkaApiKey::Fetch, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE]);
    first.until("the error", |health| matches!(health.stage, Stage::Draining | Stage::Ended)).await;
    let second = watched(rig.builder(), takes_effect("second", false));
    let ended = tokio::time::timeout(LIMIT, first.running.task).await.expect("it ends in time").expect("no panic");
    let error = ended.expect_err("the log does not have its offset");
    assert!(matches!(error, Error::OffsetOutOfRange { .. }), "{error:?}");
    let of_second = async || effects.lock().expect("no panic under the lock").contains(&"second");
    leastlock_testkit::until("the second one's effect", LIMIT, of_second).await;
    second.stop().await;
    let effects = effects.lock().expect("no panic under the lock");
    let began = effects.iter().position(|owner| *owner == "second").expect("it has begun");
    assert!(effects[began..].iter().all(|owner| *owner == "second"), "both were at work at the same time");
}
