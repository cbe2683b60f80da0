//! A group under test: its protocol, workers that can be looked at, and handlers that wait to be let go.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use leastlock_partition_worker::assignment::Phase;
use leastlock_partition_worker::effect::AtLeastOnce;
use leastlock_partition_worker::health::Health;
use leastlock_partition_worker::{Builder, Failure, Probe, Process, Record, Summary};
use leastlock_testkit::broker::Broker;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::kick;
use crate::rig::{LIMIT, Log, Rig, Running, start};

pub(crate) const KEYS: [&str; 4] = ["85123A", "71053", "84406B", "84029G"];

/// So seldom that what is committed was committed for another reason.
pub(crate) const NEVER: Duration = Duration::from_hours(1);

/// How long it may take until what has to come to hold does; what does not by then is taken never to.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Whether something comes to hold in time.
pub(crate) async fn within(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !condition() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    condition()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Eager,
    Cooperative,
    Consumer,
}

impl Protocol {
    pub(crate) fn settings(self) -> Vec<(&'static str, String)> {
        let classic = |strategy: &str| {
            [
                ("partition.assignment.strategy", strategy),
                ("session.timeout.ms", "3000"),
                ("heartbeat.interval.ms", "200"),
            ]
            .map(|(name, value)| (name, value.to_owned()))
            .to_vec()
        };
        match self {
            Self::Eager => classic("range"),
            Self::Cooperative => classic("cooperative-sticky"),
            Self::Consumer => vec![("group.protocol", "consumer".to_owned())],
        }
    }

    pub(crate) async fn rig(self, broker: Broker, partitions: i32) -> Rig {
        let mut rig = Rig::new(broker, partitions).await;
        rig.settings = self.settings();
        rig
    }
}

/// A worker, and what looks at it.
pub(crate) struct Watched {
    pub(crate) running: Running,
    pub(crate) probe: Probe,
}

pub(crate) fn watched<H: Process>(builder: Builder<AtLeastOnce>, handler: H) -> Watched {
    let mut probe = None;
    let running = start_with(builder, handler, &mut probe);
    Watched { running, probe: probe.expect("it was set") }
}

fn start_with<H: Process>(builder: Builder<AtLeastOnce>, handler: H, probe: &mut Option<Probe>) -> Running {
    let shutdown = tokio_util::sync::CancellationToken::new();
    let worker = builder.build().expect("a worker");
    *probe = Some(worker.probe());
    Running { task: tokio::spawn(worker.run(handler, shutdown.clone())), shutdown }
}

impl Watched {
    /// Waits until the worker is so.
    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Health) -> bool) {
        leastlock_testkit::until(what, LIMIT, async || is(&self.probe.health())).await;
    }

    pub(crate) fn in_phase(&self, phase: Phase) -> BTreeSet<i32> {
        let partitions = self.probe.health().partitions;
        partitions.iter().filter(|(_, own)| **own == phase).map(|(partition, _)| partition.partition()).collect()
    }

    pub(crate) async fn stop(self) -> Summary {
        self.running.stop().await
    }
}

/// What a worker is started with that nothing is to be looked at.
pub(crate) fn plain(rig: &Rig, log: &Log) -> Running {
    start(rig.builder(), log.plain())
}

/// How often each record was processed.
pub(crate) fn different(log: &Log) -> usize {
    log.processed().into_iter().map(|(partition, offset, ..)| (partition, offset)).collect::<BTreeSet<_>>().len()
}

pub(crate) async fn until_different(log: &Log, count: usize) {
    let what = format!("{count} different records are processed");
    leastlock_testkit::until(&what, LIMIT, async || different(log) >= count).await;
}

/// The group goes on without its only worker, which does not know.
pub(crate) async fn forget_the_member(rig: &Rig, protocol: Protocol) {
    if let Some(cluster) = rig.broker.mock_cluster() {
        cluster.request_errors(RDKafkaApiKey::Heartbeat, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID]);
        return;
    }
    let (bootstrap, group) = (rig.broker.bootstrap().to_owned(), rig.group.clone());
    let kicked = tokio::task::spawn_blocking(move || match protocol {
        Protocol::Eager | Protocol::Cooperative => kick::members(&bootstrap, &group),
        Protocol::Consumer => kick::members_of_consumer_group(&bootstrap, &group),
    });
    assert_eq!(kicked.await.expect("no panic"), 1, "the group has one member");
}

/// Processes as the log does, after it has held the records of some keys for as long as it is told to. It blocks its thread, so that
/// nothing can cancel it.
pub(crate) struct Holds {
    log: crate::rig::Told,
    keys: BTreeSet<&'static str>,
    hold: Hold,
}

/// What holds.
#[derive(Clone, Default)]
pub(crate) struct Hold(Arc<Inner>);

#[derive(Default)]
struct Inner {
    let_go: Mutex<bool>,
    changed: Condvar,
    entered: AtomicUsize,
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl Hold {
    pub(crate) fn handler(&self, log: &Log, keys: &[&'static str]) -> Holds {
        Holds { log: log.plain(), keys: keys.iter().copied().collect(), hold: self.clone() }
    }

    pub(crate) fn let_go(&self) {
        *self.0.let_go.lock().expect("no panic under the lock") = true;
        self.0.changed.notify_all();
    }

    pub(crate) fn entered(&self) -> usize {
        self.0.entered.load(Ordering::SeqCst)
    }

    /// How many were held at a time, at the most.
    pub(crate) fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }

    pub(crate) async fn until_entered(&self, count: usize) {
        leastlock_testkit::until("handlers are held", LIMIT, async || self.entered() >= count).await;
    }

    fn pass(&self) {
        let inside = self.0.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(inside, Ordering::SeqCst);
        self.0.entered.fetch_add(1, Ordering::SeqCst);
        let mut let_go = self.0.let_go.lock().expect("no panic under the lock");
        while !*let_go {
            let_go = self.0.changed.wait_timeout(let_go, LIMIT).expect("no panic under the lock").0;
        }
        drop(let_go);
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Process for Holds {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        if record.key().is_some_and(|key| self.keys.iter().any(|held| held.as_bytes() == key)) {
            let hold = self.hold.clone();
            match tokio::runtime::Handle::current().runtime_flavor() {
                tokio::runtime::RuntimeFlavor::MultiThread => tokio::task::block_in_place(|| hold.pass()),
                _ => hold.pass(),
            }
        }
        self.log.process(record).await
    }
}
