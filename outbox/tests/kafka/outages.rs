//! A broker that is away for a while: behind a proxy, so that the real one can be.

use std::collections::BTreeMap;
use std::time::Duration;

use leastlock_outbox::{Batch, KafkaSink, LoggedEvent, MIGRATIONS, Outbox, OutboxSql, Receipt, Refusal, Relay, Sink};
use leastlock_testkit::broker::{Broker, Record};
use leastlock_testkit::proxy::FaultProxy;
use leastlock_testkit::{TestDatabase, TestEngine};
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use tokio_util::sync::CancellationToken;

use crate::suite::{PATIENCE, commit};

const LEASE: Duration = Duration::from_secs(2);
/// The doubles' time-out, and an outage that is longer than several of it and of the lease.
const MESSAGE_TIMEOUT_MS: u64 = 1_000;
const OUTAGE: Duration = Duration::from_secs(7);
const KEYS: usize = 3;
const EVENTS: usize = 60;

/// How the broker is away.
#[derive(Debug, Clone, Copy)]
enum Away {
    /// Connections are refused.
    Down,
    /// Connections stay open and nothing comes.
    Silent,
}

/// Appends before, during and after an outage; answers what stands in the topic once `settled` says that all was dealt with.
async fn through_an_outage<DB: TestEngine + OutboxSql, S: Sink>(
    broker: &Broker,
    away: Away,
    sink: impl FnOnce(ClientConfig) -> S,
) -> BTreeMap<String, Vec<usize>> {
    let database = TestDatabase::<DB>::create().await.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let topic = broker.topic(1).await;
    let proxy = FaultProxy::to_kafka(broker.bootstrap()).await;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", proxy.address().to_string());
    // As a service would that wants to notice soon.
    config.set("socket.timeout.ms", "2000").set("reconnect.backoff.max.ms", "500");
    let relay = Relay::builder(&database.pool, sink(config)).lease(LEASE).woken_by(outbox.wake()).build().unwrap();
    let (stats, shutdown) = (relay.stats(), CancellationToken::new());
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let append = async |numbers: std::ops::Range<usize>| {
        for number in numbers {
            commit(&outbox, &database.pool, &topic, &format!("k{}", number % KEYS), &number.to_string()).await;
            outbox.wake().notify();
        }
    };
    let published = async |events: usize| {
        let enough = async {
            while stats.published() < events as u64 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, enough).await.unwrap_or_else(|_| panic!("{away:?}: {}", stats.published()));
    };
    append(0..EVENTS / 3).await;
    published(EVENTS / 3).await;
    match away {
        Away::Down => proxy.cut().await,
        Away::Silent => proxy.black_hole(),
    }
    append(EVENTS / 3..EVENTS * 2 / 3).await;
    tokio::time::sleep(OUTAGE).await;
    proxy.heal();
    append(EVENTS * 2 / 3..EVENTS).await;
    published(EVENTS).await;
    shutdown.cancel();
    running.await.unwrap().expect("an outage is nobody's fault");
    first_occurrences(&broker.read_all(&topic, PATIENCE).await)
}

/// The numbers of each key, each where it came first.
fn first_occurrences(records: &[Record]) -> BTreeMap<String, Vec<usize>> {
    let mut keys = BTreeMap::<String, Vec<usize>>::new();
    for record in records {
        let numbers = keys.entry(record.key_text().to_owned()).or_default();
        let number = record.value_text().parse().unwrap();
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    keys
}

fn expected() -> BTreeMap<String, Vec<usize>> {
    (0..KEYS).map(|key| (format!("k{key}"), (0..EVENTS).filter(|number| number % KEYS == key).collect())).collect()
}

pub(crate) async fn b8_b19_outage_loses_parks_and_inverts_nothing<DB: TestEngine + OutboxSql>(
    _database: TestDatabase<DB>,
    broker: Broker,
) {
    for away in [Away::Down, Away::Silent] {
        let product = |config| KafkaSink::new(config).expect("valid settings");
        assert_eq!(through_an_outage::<DB, _>(&broker, away, product).await, expected(), "{away:?}");
    }
    let forgets = |config| Expiring::new(config, false);
    let left = through_an_outage::<DB, _>(&broker, Away::Down, forgets).await;
    let lost =
        expected().into_iter().any(|(key, numbers)| left.get(&key).is_none_or(|left| left.len() < numbers.len()));
    assert!(lost, "the double must be seen to lose what expired: {left:?}");
    let requeues = |config| Expiring::new(config, true);
    let left = through_an_outage::<DB, _>(&broker, Away::Down, requeues).await;
    assert_ne!(left, expected(), "the double must be seen to turn round what expired");
}

/// The double: messages expire, and what expired is given up, or sent again later.
struct Expiring {
    producer: FutureProducer,
    again: bool,
}

impl Expiring {
    fn new(mut config: ClientConfig, again: bool) -> Self {
        config.set("message.timeout.ms", MESSAGE_TIMEOUT_MS.to_string());
        Self { producer: config.create().expect("a producer"), again }
    }
}

impl Sink for Expiring {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        while let Some((event, receipt)) = batch.next() {
            let (event, producer, again) = (event.clone(), self.producer.clone(), self.again);
            tokio::spawn(async move {
                send(&producer, &event, again, receipt).await;
            });
        }
    }

    fn abandon(&self) {}
}

async fn send(producer: &FutureProducer, event: &LoggedEvent, again: bool, receipt: Receipt) {
    let (key, value) = (event.key.as_deref().unwrap(), event.value.as_deref().unwrap());
    loop {
        let record = FutureRecord::to(&event.topic).key(key).payload(value);
        match producer.send(record, Duration::ZERO).await {
            Err(_) if again => tokio::time::sleep(Duration::from_millis(fastrand::u64(10..500))).await,
            _ => return receipt.published(),
        }
    }
}
