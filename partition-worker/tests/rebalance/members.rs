//! Static members (KIP-345): `group.instance.id`.

use std::collections::BTreeSet;

use leastlock_partition_worker::{Error, Summary, TopicPartition};
use leastlock_testkit::broker::Broker;

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
    let first = watched(rig.builder(), log.plain());
    rig.produce(&KEYS[..1], 1..=1).await;
    log.until(1).await;
    let second = watched(rig.builder(), log.plain());
    let ended = tokio::time::timeout(LIMIT, first.running.task).await.expect("it ends in time").expect("no panic");
    let error = ended.expect_err("it is fenced");
    assert!(matches!(error, Error::FencedInstance { .. }), "{error:?}");
    rig.produce(&KEYS[..1], 2..=2).await;
    log.until(2).await;
    second.stop().await;
}
