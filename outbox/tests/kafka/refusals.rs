//! Events that can never be sent, on the real broker.

use std::time::Duration;

use leastlock_outbox::{Error, Event, KafkaSink, MIGRATIONS, OnRefusal, Outbox, OutboxSql, Relay};
use leastlock_testkit::broker::{Broker, Record};
use leastlock_testkit::{TestDatabase, TestEngine};
use rdkafka::ClientConfig;
use tokio_util::sync::CancellationToken;

use crate::suite::{PATIENCE, sink};

/// Runs a relay until it stops at an event; what the sink said of it, and the values that stand in `topic`.
async fn stops_at<DB: TestEngine + OutboxSql>(
    database: &TestDatabase<DB>,
    broker: &Broker,
    events: Vec<Event>,
    topic: &str,
) -> (String, Vec<String>) {
    let outbox = Outbox::open(&database.pool).await.unwrap().max_event_bytes(4_000_000);
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    outbox.append_all(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    let relay = Relay::builder(&database.pool, sink(broker)).on_refusal(OnRefusal::Halt).build().unwrap();
    let stopped = tokio::time::timeout(PATIENCE, relay.run(CancellationToken::new())).await.expect("it stops");
    let Err(Error::Refused { source, .. }) = stopped else { panic!("{stopped:?}") };
    let landed = broker.read_all(topic, PATIENCE).await;
    (source.to_string(), landed.iter().map(|record| record.value_text().to_owned()).collect())
}

pub(crate) async fn b7_what_a_topic_cannot_take_is_found_before_anything_is_sent<DB: TestEngine + OutboxSql>(
    _database: TestDatabase<DB>,
    broker: Broker,
) {
    let fresh = || async { TestDatabase::<DB>::create().await.with(&MIGRATIONS).await };
    let ok = |topic: &str, value: &str| Event::new(topic, "k").bytes(value);

    // Larger than what librdkafka and the topic take by default.
    let large = async {
        let topic = broker.topic(1).await;
        let large = Event::new(&topic, "k").bytes(vec![b'x'; 2_000_000]);
        let events = vec![ok(&topic, "1"), large, ok(&topic, "3")];
        let (reason, landed) = stops_at(&fresh().await, &broker, events, &topic).await;
        assert!(reason.contains("max.message.bytes"), "{reason}");
        assert_eq!(landed, ["1"]);
    };
    // Larger than this topic takes; it would pass elsewhere. One byte less passes.
    let sized = async {
        let topic = broker.topic(1).await;
        broker.set(&topic, "max.message.bytes", "1000").await;
        let sized = |bytes: usize| Event::new(&topic, "k").bytes("x".repeat(bytes));
        // 61 of the batch, 4 + 2 of the record, 2 of the key, 2 + 1 of lengths, 57 of the header with the event id.
        let most = (1..1000).rev().find(|bytes| batch(*bytes) <= 1000).unwrap();
        let (reason, landed) = stops_at(&fresh().await, &broker, vec![sized(most), sized(most + 1)], &topic).await;
        assert!(reason.contains(&format!("topic {topic} takes 1000")), "{reason}");
        assert_eq!(landed, ["x".repeat(most)], "what fits exactly is taken by the broker");
    };
    // A partition that the topic does not have.
    let elsewhere = async {
        let topic = broker.topic(2).await;
        let events = vec![ok(&topic, "1").partition(1), ok(&topic, "2").partition(2)];
        let (reason, landed) = stops_at(&fresh().await, &broker, events, &topic).await;
        assert!(reason.contains("has 2 partitions"), "{reason}");
        assert_eq!(landed, ["1"]);
    };
    // No key, on a topic that keeps the last value of each.
    let without_key = async {
        let topic = broker.topic(1).await;
        broker.set(&topic, "cleanup.policy", "compact").await;
        let events = vec![Event::without_key(&topic).bytes("1")];
        let (reason, landed) = stops_at(&fresh().await, &broker, events, &topic).await;
        assert!(reason.contains("compacted"), "{reason}");
        assert_eq!(landed, Vec::<String>::new());
    };
    // A topic that cannot be.
    let nowhere = async {
        let topic = broker.topic(1).await;
        let (reason, _) = stops_at(&fresh().await, &broker, vec![ok("..", "1")], &topic).await;
        assert!(reason.contains("no topic"), "{reason}");
    };
    tokio::join!(large, sized, elsewhere, without_key, nowhere);
}

/// A batch of one event of key `k` and so many bytes.
fn batch(bytes: usize) -> usize {
    let varint = |length: usize| {
        if length < 64 {
            1
        } else if length < 8192 {
            2
        } else {
            3
        }
    };
    let header = 1 + "leastlock_event_id".len() + 1 + 36;
    let body = 3 + (1 + 1) + (varint(bytes) + bytes) + 1 + header;
    61 + varint(body) + body
}

/// The topic's limit was lowered after it was asked for: the broker refuses whole batches of which one event is too large.
pub(crate) async fn b7_event_refused_among_others_is_told_from_the_innocent<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
) {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let topic = broker.topic(1).await;
    let relay = Relay::builder(&database.pool, sink(&broker)).woken_by(outbox.wake());
    let relay = relay.on_refusal(OnRefusal::Halt).build().unwrap();
    let stats = relay.stats();
    let running = tokio::spawn(relay.run(CancellationToken::new()));
    let append = async |events: Vec<Event>| {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        outbox.append_all(&mut tx, &events).await.unwrap();
        tx.commit().await.unwrap();
        outbox.wake().notify();
    };
    append(vec![Event::new(&topic, "k").bytes("first")]).await;
    let first = async {
        while stats.published() < 1 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, first).await.expect("it is published, and what the topic takes is known");
    broker.set(&topic, "max.message.bytes", "2000").await;

    let value = |number: usize| if number == 20 { "x".repeat(5_000) } else { number.to_string() };
    append((0..40).map(|number| Event::new(&topic, "k").bytes(value(number))).collect()).await;
    let stopped = tokio::time::timeout(PATIENCE, running).await.expect("it stops").unwrap();
    assert!(matches!(stopped, Err(Error::Refused { .. })), "{stopped:?}");
    assert_eq!(stats.published(), 21, "everything before it is published and noted");
    let landed = broker.read_all(&topic, PATIENCE).await;
    let mut landed: Vec<&str> = landed.iter().map(Record::value_text).collect();
    assert!(landed.iter().all(|value| value.len() < 100));
    // In order, whoever was in the batch of the large one.
    landed.retain(|value| value.parse().is_ok_and(|number: usize| number < 20));
    assert_eq!(landed, (0..20).map(value).collect::<Vec<_>>());
}

/// Appends `events` to a topic that came to take less than the relay knows, and waits until all but `parked` of them landed: well before
/// the topic is asked for again.
async fn lands_but<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: &Broker,
    (name, value): (&str, &str),
    events: impl Fn(&str) -> Vec<Event>,
    parked: u64,
) {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let topic = broker.topic(1).await;
    let mut config = ClientConfig::new();
    // So long that whatever is sent side by side is one batch.
    config.set("bootstrap.servers", broker.bootstrap()).set("linger.ms", "20");
    let sink = KafkaSink::new(config).expect("valid settings");
    let relay = Relay::builder(&database.pool, sink).woken_by(outbox.wake()).build().unwrap();
    let (stats, shutdown) = (relay.stats(), CancellationToken::new());
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let append = async |events: Vec<Event>| {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        outbox.append_all(&mut tx, &events).await.unwrap();
        tx.commit().await.unwrap();
        outbox.wake().notify();
    };
    let settled = async |events: u64| {
        let comes = async {
            while stats.published() + stats.parked() < events {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let limit = Duration::from_secs(20);
        tokio::time::timeout(limit, comes).await.unwrap_or_else(|_| panic!("of {events} only {}", stats.published()));
    };
    append(vec![Event::new(&topic, "k").bytes("first")]).await;
    settled(1).await;
    broker.set(&topic, name, value).await;
    let events = events(&topic);
    let count = events.len() as u64;
    append(events).await;
    settled(1 + count).await;
    assert_eq!(stats.parked(), parked, "an innocent is parked");
    assert_eq!(broker.read_all(&topic, PATIENCE).await.len() as u64, 1 + count - parked);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// The broker says of the others of its batch only that another one is invalid.
pub(crate) async fn b7_event_without_a_key_stops_no_other_event<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
) {
    let events = |topic: &str| {
        let of_key = |number| Event::new(topic, format!("k{number}")).bytes("1");
        (0..40).map(of_key).chain([Event::without_key(topic).bytes("no key")]).chain((40..60).map(of_key)).collect()
    };
    lands_but(database, &broker, ("cleanup.policy", "compact"), events, 1).await;
}

/// Each fits alone, two of them do not: sent again side by side from several shards they would be refused together once more.
pub(crate) async fn b7_events_of_many_shards_that_fit_alone_are_sent_alone<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
) {
    let events =
        |topic: &str| (0..40).map(|number| Event::new(topic, format!("k{number}")).bytes("x".repeat(500))).collect();
    lands_but(database, &broker, ("max.message.bytes", "1000"), events, 0).await;
}
