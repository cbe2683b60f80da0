//! Handlers that do not end.

use std::time::Duration;

use leastlock_partition_worker::assignment::Phase;
use leastlock_partition_worker::effect::AtLeastOnce;
use leastlock_partition_worker::health::Stage;
use leastlock_partition_worker::{Builder, Error, OnStall, Probe, Summary};
use leastlock_testkit::broker::Broker;
use tokio_util::sync::CancellationToken;

use crate::group::{Hold, Holds, KEYS, Protocol, Watched, until_different, watched};
use crate::rig::{LIMIT, Log, Rig};

pub(crate) const MAX_POLL: Duration = Duration::from_secs(3);

/// A worker on a runtime of its own with one thread, which a handler can block.
struct Alone {
    thread: std::thread::JoinHandle<Result<Summary, Error>>,
    probe: Probe,
    shutdown: CancellationToken,
}

impl Alone {
    fn start(builder: Builder<AtLeastOnce>, handler: Holds) -> Self {
        let worker = builder.build().expect("a worker");
        let (probe, shutdown) = (worker.probe(), CancellationToken::new());
        let stop = shutdown.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(worker.run(handler, stop))
        });
        Self { thread, probe, shutdown }
    }

    async fn ended(self) -> Result<Summary, Error> {
        let ended = tokio::task::spawn_blocking(|| self.thread.join().expect("no panic"));
        tokio::time::timeout(LIMIT, ended).await.expect("the worker ends in time").expect("no panic")
    }
}

/// How many of two partitions a second member is given, when it is given any. Both: the first one has been thrown out.
pub(crate) async fn share(second: &Watched) -> usize {
    second.until("its share", |health| health.partitions.values().any(|phase| *phase == Phase::Active)).await;
    second.in_phase(Phase::Active).len()
}

/// A record in each of two partitions, of one key: its handler blocks.
pub(crate) async fn two_partitions(rig: &mut Rig) {
    for partition in 0..2 {
        rig.broker.produce_to(&rig.topic, partition, KEYS[0], "1").await;
    }
}

pub(crate) async fn p11_a_handler_that_blocks_its_runtime_holds_up_no_rebalance_and_is_reported(
    broker: Broker,
    protocol: Protocol,
) {
    let mut rig = protocol.rig(broker, 2).await;
    rig.settings.push(("max.poll.interval.ms", MAX_POLL.as_millis().to_string()));
    two_partitions(&mut rig).await;
    let (hold, log) = (Hold::default(), Log::default());
    let builder = rig.builder().stall_after(MAX_POLL).revoke_timeout(Duration::from_millis(100));
    let alone = Alone::start(builder, hold.handler(&log, &KEYS[..1]));
    // So it has run for longer than the time in which the client wants to be polled.
    leastlock_testkit::until("the stall", LIMIT, async || alone.probe.health().stalled == 1).await;
    let health = alone.probe.health();
    assert!(health.is_alive() && !health.is_ready(), "{health:?}");
    assert_eq!((health.stage, health.running), (Stage::Running, 1), "{health:?}");
    assert_eq!(health.partitions.len(), 2, "it was not thrown out: {health:?}");
    assert!(health.oldest.is_some_and(|oldest| oldest.offset == 0 && oldest.running_for >= MAX_POLL));

    let other_log = Log::default();
    let other = watched(rig.builder(), other_log.plain());
    assert_eq!(share(&other).await, 1, "the other one is the stalled worker's");
    other_log.until(1).await;
    hold.let_go();
    leastlock_testkit::until("the end of the stall", LIMIT, async || alone.probe.health().is_ready()).await;
    alone.shutdown.cancel();
    alone.ended().await.expect("the worker ends without an error");
    other.stop().await;
}

pub(crate) async fn p11_a_stalled_worker_leaves_the_group_if_it_is_to(broker: Broker, protocol: Protocol) {
    // The mock cluster knows no static members; under the consumer protocol one that leaves keeps its partitions.
    let is_static = broker.mock_cluster().is_none() && protocol != Protocol::Consumer;
    let mut rig = protocol.rig(broker, 2).await;
    two_partitions(&mut rig).await;
    let dynamic = rig.settings.clone();
    if is_static {
        // A static member that just closed would keep its partitions for as long as its session lasts.
        rig.settings.push(("group.instance.id", "stalls".to_owned()));
        rig.settings.push(("max.poll.interval.ms", "600000".to_owned()));
        rig.settings.push(("session.timeout.ms", "300000".to_owned()));
    }
    let (hold, log) = (Hold::default(), Log::default());
    let builder = rig.builder().revoke_timeout(Duration::from_millis(100));
    let builder = builder.stall_after(Duration::from_millis(500)).on_stall(OnStall::LeaveGroup);
    let alone = Alone::start(builder, hold.handler(&log, &KEYS[..1]));
    hold.until_entered(1).await;
    // A static member that leaves while its group is between two generations keeps its partitions until its session is over: the client
    // does not tell the group (KIP-345). So nobody joins meanwhile.
    leastlock_testkit::until("it gives back what it has", LIMIT, async || alone.probe.health().partitions.is_empty())
        .await;
    rig.settings = dynamic;
    let other_log = Log::default();
    let other = watched(rig.builder(), other_log.plain());
    until_different(&other_log, 2).await;
    assert_eq!(alone.probe.health().running, 1, "the handler still blocks");
    hold.let_go();
    let probe = alone.probe.clone();
    let error = alone.ended().await.expect_err("it has stalled");
    assert!(matches!(error, Error::Stalled { offset: 0, .. }), "{error:?}");
    assert_eq!(probe.health().stage, Stage::Ended);
    other.stop().await;
}
