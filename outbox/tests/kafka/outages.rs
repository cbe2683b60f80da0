//! A broker that is away for a while: behind a proxy, so that the real one can be.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leastlock_outbox::{Batch, KafkaSink, LoggedEvent, MIGRATIONS, Outbox, OutboxSql, Receipt, Refusal, Relay, Sink};
use leastlock_testkit::broker::{Broker, Record};
use leastlock_testkit::proxy::FaultProxy;
use leastlock_testkit::{TestDatabase, TestEngine};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
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

/// All side by side: most of it is waiting.
pub(crate) async fn b8_b19_outage_loses_parks_and_inverts_nothing<DB: TestEngine + OutboxSql>(
    _database: TestDatabase<DB>,
    broker: Broker,
) {
    let expired: [Arc<AtomicUsize>; 2] = Default::default();
    let product = |config| KafkaSink::new(config).expect("valid settings");
    let forgets = |config| Expiring::new(config, false, &expired[0]);
    let requeues = |config| Expiring::new(config, true, &expired[1]);
    let (down, silent, forgotten, turned_round) = tokio::join!(
        through_an_outage::<DB, _>(&broker, Away::Down, product),
        through_an_outage::<DB, _>(&broker, Away::Silent, product),
        through_an_outage::<DB, _>(&broker, Away::Down, forgets),
        through_an_outage::<DB, _>(&broker, Away::Down, requeues),
    );
    assert_eq!((down, silent), (expected(), expected()));
    let lost = expected().into_iter().any(|(key, all)| forgotten.get(&key).is_none_or(|left| left.len() < all.len()));
    assert!(lost, "the double must be seen to lose what expired: {forgotten:?}");
    assert_ne!(turned_round, expected(), "the double must be seen to turn round what expired");
    // The outage is longer than a message time-out, and not only as long as the doubles' other mistakes take.
    assert!(expired.iter().all(|expired| expired.load(Ordering::SeqCst) > 0), "{expired:?}");
}

/// A transaction that the outage cuts is aborted, and its events are sent again by the shard's next producer. The doubles are above.
pub(crate) async fn b8_b19_outage_loses_parks_and_inverts_nothing_in_transactions<DB: TestEngine + OutboxSql>(
    _database: TestDatabase<DB>,
    broker: Broker,
) {
    let product = |config| {
        let prefix = format!("leastlock-test-{}", uuid::Uuid::new_v4().simple());
        KafkaSink::transactional(config, prefix).expect("valid settings")
    };
    let (down, silent) = tokio::join!(
        through_an_outage::<DB, _>(&broker, Away::Down, product),
        through_an_outage::<DB, _>(&broker, Away::Silent, product),
    );
    assert_eq!((down, silent), (expected(), expected()));
}

/// The double: messages expire, and what expired is given up, or sent again later.
struct Expiring {
    producer: FutureProducer,
    again: bool,
    expired: Arc<AtomicUsize>,
}

impl Expiring {
    fn new(mut config: ClientConfig, again: bool, expired: &Arc<AtomicUsize>) -> Self {
        config.set("message.timeout.ms", MESSAGE_TIMEOUT_MS.to_string());
        Self { producer: config.create().expect("a producer"), again, expired: expired.clone() }
    }
}

impl Sink for Expiring {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        while let Some((event, receipt)) = batch.next() {
            let (event, producer, again) = (event.clone(), self.producer.clone(), self.again);
            let expired = self.expired.clone();
            tokio::spawn(async move {
                send(&producer, &event, again, &expired, receipt).await;
            });
        }
    }

    fn abandon(&self) {}
}

async fn send(producer: &FutureProducer, event: &LoggedEvent, again: bool, expired: &AtomicUsize, receipt: Receipt) {
    let (key, value) = (event.key.as_deref().unwrap(), event.value.as_deref().unwrap());
    loop {
        let record = FutureRecord::to(&event.topic).key(key).payload(value);
        let sent = producer.send(record, Duration::ZERO).await;
        let timed_out = KafkaError::MessageProduction(RDKafkaErrorCode::MessageTimedOut);
        if sent.as_ref().is_err_and(|(error, _)| *error == timed_out) {
            expired.fetch_add(1, Ordering::SeqCst);
        }
        match sent {
            Err(_) if again => tokio::time::sleep(Duration::from_millis(fastrand::u64(10..500))).await,
            _ => return receipt.published(),
        }
    }
}
