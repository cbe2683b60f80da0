//! What a consumer finds of an event, on the real broker.

use std::time::Duration;

use leastlock_outbox::{CloudEvent, Event, EventId, MIGRATIONS, Outbox, OutboxSql, Relay};
use leastlock_testkit::broker::{Broker, Record};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio_util::sync::CancellationToken;

use crate::suite::{PATIENCE, sink};

/// Appends events, has them published, and answers the records of the topic.
async fn published<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: &Broker,
    topic: &str,
    events: &[Event],
) -> Vec<Record> {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.expect("the tables are there");
    let mut tx = leastlock_core::begin(&database.pool).await.expect("a transaction");
    outbox.append_all(&mut tx, events).await.expect("they are appended");
    tx.commit().await.expect("the commit");
    let relay = Relay::builder(&database.pool, sink(broker)).build().expect("valid settings");
    let (stats, shutdown) = (relay.stats(), CancellationToken::new());
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let all = u64::try_from(events.len()).expect("few");
    let acknowledged = tokio::time::timeout(PATIENCE, async {
        while stats.published() < all {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    acknowledged.await.expect("every event is acknowledged");
    shutdown.cancel();
    running.await.expect("no panic").expect("the relay ends well");
    broker.read_all(topic, PATIENCE).await
}

fn header(name: &str, value: Option<&[u8]>) -> (String, Option<Vec<u8>>) {
    (name.to_owned(), value.map(<[u8]>::to_vec))
}

pub(crate) async fn consumer_finds_what_was_appended<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let broker = Broker::real();
    let topic = broker.topic(4).await;
    let events = [
        // Repeated headers in their order, one without a value, one with an empty value, one that is no text.
        Event::new(&topic, "k")
            .bytes([0x00, 0xff])
            .header("b", "1")
            .header("a", [0xff, 0x00])
            .null_header("n")
            .header("n", "")
            .header("b", "2")
            .partition(3),
        Event::new(&topic, "k").header("why", "gone").partition(3),
        Event::new(&topic, "k").bytes("").partition(3),
        Event::without_key(&topic).bytes("no key").partition(1),
        Event::new(&topic, "").bytes("empty key").partition(2),
    ];
    let records = published(database, &broker, &topic, &events).await;
    assert_eq!(records.len(), events.len());
    let id = |event: &Event| header("leastlock_event_id", Some(event.id().to_string().as_bytes()));
    let of = |partition: i32| records.iter().filter(move |record| record.partition == partition);
    let mut third = of(3);
    let [first, tombstone, empty] = [(); 3].map(|()| third.next().expect("three of the key, in their order"));
    let kinds = [("b", Some(&b"1"[..])), ("a", Some(&[0xff, 0x00])), ("n", None), ("n", Some(b"")), ("b", Some(b"2"))];
    let kinds: Vec<_> = std::iter::once(id(&events[0])).chain(kinds.map(|(name, value)| header(name, value))).collect();
    assert_eq!(first.headers, kinds);
    assert_eq!((first.key_text(), first.value.as_deref()), ("k", Some(&[0x00, 0xff][..])));
    assert_eq!(tombstone.value, None, "a tombstone has no value");
    assert_eq!(tombstone.headers, [id(&events[1]), header("why", Some(b"gone"))]);
    assert_eq!(empty.value.as_deref(), Some(&b""[..]), "an empty value is one");
    assert_eq!(of(1).next().map(|record| (record.key.clone(), record.value_text())), Some((None, "no key")));
    assert_eq!(of(2).next().map(|record| (record.key.clone(), record.value_text())), Some((Some(vec![]), "empty key")));
}

/// The Kafka protocol binding of CloudEvents 1.0.2, section 3.2, and what a consumer tells a repeat by.
pub(crate) async fn consumer_finds_a_cloud_event_in_binary_mode<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let broker = Broker::real();
    let topic = broker.topic(1).await;
    let attributes = CloudEvent::new("com.example.shop.order-placed", "https://example.com/shop")
        .and_then(|event| event.subject("order/17"))
        .and_then(|event| event.extension("tenant", "sieben €"))
        .and_then(|event| event.partition_key("17"))
        .expect("attributes");
    let events = [
        Event::without_key(&topic)
            .json(&serde_json::json!({"units": 3}))
            .expect("JSON")
            .cloud_event(attributes.clone()),
        Event::new(&topic, "17").cloud_event(attributes),
    ];
    let mut records = published(database, &broker, &topic, &events).await;
    // Both have the same key, the first by its partitionkey.
    assert!(records.iter().all(|record| record.key_text() == "17"), "{records:?}");
    let names = |record: &Record| record.headers.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let text =
        |record: &Record, name: &str| String::from_utf8(record.header(name).expect(name).to_vec()).expect("UTF-8");
    let tombstone = records.remove(1);
    let placed = records.remove(0);
    let attributes =
        ["ce_id", "ce_specversion", "ce_type", "ce_source", "ce_subject", "ce_tenant", "ce_partitionkey", "ce_time"];
    assert_eq!(names(&tombstone), attributes, "each once, the id nowhere else");
    assert_eq!(names(&placed)[..8], attributes);
    assert_eq!(text(&placed, "content-type"), "application/json");
    assert_eq!((placed.value_text(), &tombstone.value), (r#"{"units":3}"#, &None));
    for (record, event) in [(&placed, &events[0]), (&tombstone, &events[1])] {
        assert_eq!(text(record, "ce_id"), event.id().to_string());
        assert_eq!(text(record, "ce_specversion"), "1.0");
        assert_eq!(text(record, "ce_tenant"), "sieben €");
        let time = humantime::parse_rfc3339(&text(record, "ce_time")).expect("RFC 3339");
        assert!(time.elapsed().expect("it was made before now") < Duration::from_mins(10));
        let told_by = EventId::of_record(|name| record.header(name));
        assert_eq!(told_by, Some(EventId::of_foreign("https://example.com/shop", &event.id().to_string())));
    }
}
