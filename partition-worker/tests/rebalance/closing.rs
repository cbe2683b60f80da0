//! The end of a worker.

use std::time::Duration;

use futures_util::future::BoxFuture;
use leastlock_partition_worker::assignment::Phase;
use leastlock_partition_worker::{Health, PartitionSummary, Record, TopicPartition};
use leastlock_testkit::broker::Broker;

use crate::group::{KEYS, PATIENCE, Protocol, plain, watched, within};
use crate::moves::only;
use crate::rig::Log;

fn active(health: &Health) -> usize {
    health.partitions.values().filter(|phase| **phase == Phase::Active).count()
}

pub(crate) async fn p15_a_shutdown_reports_each_partition(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, 3).await;
    // Of the first partition all is finished, in the second a handler never ends, the third has nothing.
    for number in 1..=3 {
        rig.broker.produce_to(&rig.topic, 0, KEYS[0], number.to_string()).await;
        rig.broker.produce_to(&rig.topic, 1, KEYS[1], number.to_string()).await;
    }
    let log = Log::default();
    let stuck = |record: &Record| -> BoxFuture<'static, _> {
        if record.partition() == 1 && record.offset() == 1 {
            Box::pin(std::future::pending())
        } else {
            Box::pin(async { Ok(()) })
        }
    };
    let worker = watched(rig.builder().drain_timeout(Duration::from_millis(300)), log.first(stuck));
    log.until(4).await;
    worker.until("the stuck handler", |health| health.running == 1 && active(health) == 3).await;
    let summary = worker.stop().await;
    let of = |partition| summary.partitions[&TopicPartition::new(rig.topic.as_str(), partition)];
    assert!(!summary.drained, "{summary:?}");
    let [first, second, third] = [0, 1, 2].map(of);
    assert_eq!((first.processed, first.watermark, first.unfinished, first.drained), (3, Some(3), 0, true), "{first:?}");
    assert_eq!((second.processed, second.watermark, second.drained), (1, Some(1), false), "{second:?}");
    assert_eq!((second.unfinished, second.cancelled), (2, 1), "{second:?}");
    assert_eq!((third.processed, third.watermark, third.drained, third.taken_over), (0, Some(0), true, 1), "{third:?}");
    let committed: Vec<i64> = rig.committed().await.iter().map(|commit| commit.offset).collect();
    assert_eq!(committed, [3, 1, 0]);
}

/// Three handlers run when the shutdown begins, and need a while.
async fn shut_down(broker: Broker, protocol: Protocol, drain_timeout: Duration) -> PartitionSummary {
    let rig = protocol.rig(broker, 1).await;
    rig.produce(&KEYS[..3], 1..=1).await;
    let log = Log::default();
    let slow = |_: &Record| -> BoxFuture<'static, _> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(())
        })
    };
    let worker = watched(rig.builder().drain_timeout(drain_timeout), log.first(slow));
    worker.until("three handlers", |health| health.running == 3).await;
    only(&worker.stop().await)
}

pub(crate) async fn p15_a_shutdown_waits_for_handlers_that_run(broker: Broker, protocol: Protocol) {
    let of = shut_down(broker, protocol, Duration::from_secs(20)).await;
    assert_eq!((of.processed, of.cancelled, of.watermark, of.drained), (3, 0, Some(3), true), "{of:?}");
}

pub(crate) async fn p15_double_a_shutdown_that_waits_for_nothing_cuts_them_short(broker: Broker, protocol: Protocol) {
    let of = shut_down(broker, protocol, Duration::from_nanos(1)).await;
    assert_eq!((of.processed, of.cancelled, of.watermark, of.drained), (0, 3, Some(0), false), "{of:?}");
}

/// Whether a member of a group that has nothing to do closes.
pub(crate) async fn closes(close: impl FnOnce(), is_closed: impl Fn() -> bool) -> bool {
    close();
    within(PATIENCE, is_closed).await
}

pub(crate) async fn p18_a_worker_closes_at_once_with_nothing_to_do_and_while_joining(
    broker: Broker,
    protocol: Protocol,
) {
    let rig = protocol.rig(broker, 2).await;
    let log = Log::default();
    // While it joins, wherever that is just now.
    for pause in [0, 5, 50] {
        let joining = plain(&rig, &log);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let summary = joining.stop().await;
        assert_eq!((summary.processed(), summary.drained), (0, true), "{summary:?}");
    }
    let idle = watched(rig.builder(), log.plain());
    idle.until("membership", |health| health.is_ready() && active(health) == 2).await;
    assert!(closes(|| idle.running.shutdown.cancel(), || idle.running.task.is_finished()).await);
    let summary = idle.stop().await;
    assert_eq!((summary.processed(), summary.partitions.len(), summary.drained), (0, 2, true), "{summary:?}");
}
