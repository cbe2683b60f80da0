//! What arrives at the broker.

use std::time::Duration;

use leastlock_outbox::{Event, KafkaSink, MIGRATIONS, Outbox, OutboxSql, Relay, Sink};
use leastlock_testkit::broker::{Broker, Record};
use leastlock_testkit::{TestDatabase, TestEngine};
use rdkafka::ClientConfig;
use sqlx::Pool;
use tokio_util::sync::CancellationToken;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn sink(broker: &Broker) -> KafkaSink {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap());
    KafkaSink::new(config).expect("valid settings")
}

/// Appends and commits.
pub(crate) async fn commit<DB: TestEngine + OutboxSql>(
    outbox: &Outbox,
    pool: &Pool<DB>,
    topic: &str,
    key: &str,
    value: &str,
) {
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    outbox.append(&mut tx, Event::new(topic, key).bytes(value)).await.unwrap();
    tx.commit().await.unwrap();
}

/// Runs a relay until so many events are published.
pub(crate) async fn publish_all<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, sink: impl Sink, events: u64) {
    let relay = Relay::builder(pool, sink).build().unwrap();
    let (stats, shutdown) = (relay.stats(), CancellationToken::new());
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let published = async {
        while stats.published() < events {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, published).await.expect("every event is acknowledged");
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().published, events);
}

pub(crate) async fn events_reach_their_topic_in_order_per_key<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
) {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let topic = broker.topic(3).await;
    let relay = Relay::builder(&database.pool, sink(&broker)).woken_by(outbox.wake()).page(20).build().unwrap();
    let (stats, shutdown) = (relay.stats(), CancellationToken::new());
    let running = tokio::spawn(relay.run(shutdown.clone()));
    for number in 0..200 {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        let event = Event::new(&topic, format!("k{}", number % 7)).json(&number).unwrap().header("source", "test");
        outbox.append(&mut tx, event).await.unwrap();
        tx.commit().await.unwrap();
        outbox.wake().notify();
    }
    let published = tokio::time::timeout(PATIENCE, async {
        while stats.published() < 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    published.await.expect("every event is acknowledged");
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().published, 200);

    let records = broker.read_all(&topic, PATIENCE).await;
    let mut numbers: Vec<usize> = records.iter().map(|record| record.value_text().parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>(), "{:?}", places(&broker.read_all(&topic, PATIENCE).await));
    for key in 0..7 {
        let of_key = records.iter().filter(|record| record.key_text() == format!("k{key}"));
        let numbers: Vec<usize> = of_key.map(|record| record.value_text().parse().unwrap()).collect();
        assert_eq!(numbers, (0..200).filter(|number| number % 7 == key).collect::<Vec<_>>());
    }
    let first = &records[0];
    assert_eq!(first.header("source"), Some(&b"test"[..]));
    assert!(first.header("leastlock_event_id").is_some());
}

/// Where records are, for a message.
fn places(records: &[Record]) -> Vec<(i32, i64, &str)> {
    records.iter().map(|record| (record.partition, record.offset, record.value_text())).collect()
}
