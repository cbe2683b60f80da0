//! What the real broker refuses is parked, and sent when an operator has mended it.

use std::time::Duration;

use leastlock_outbox::{
    Asked, Event, Filter, KafkaSink, MIGRATIONS, Outbox, OutboxSql, Parked, ParkedEvent, Relay, Retry,
};
use leastlock_testkit::broker::Broker;
use leastlock_testkit::{TestDatabase, TestEngine};
use rdkafka::ClientConfig;
use tokio_util::sync::CancellationToken;

use crate::suite::{PATIENCE, sink};

async fn until_parked<DB: TestEngine + OutboxSql>(parked: &Parked<DB>, topic: &str, events: usize) -> Vec<ParkedEvent> {
    let comes = async {
        loop {
            let list = parked.list(&Filter::topic(topic), None, 100).await.unwrap();
            if list.len() == events && list.iter().all(|event| !event.under_way) {
                return list;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, comes).await.unwrap_or_else(|_| panic!("{events} of {topic} are never parked"))
}

async fn until_landed(broker: &Broker, topic: &str, key: &str, expected: &[&str]) {
    let comes = async {
        loop {
            let records = broker.read_all(topic, PATIENCE).await;
            let of_key = records.iter().filter(|record| record.key.as_deref() == Some(key.as_bytes()));
            // What is too large is told by its length.
            let values: Vec<String> = of_key
                .map(|record| match record.value_text() {
                    large if large.len() > 100 => "large".to_owned(),
                    small => small.to_owned(),
                })
                .collect();
            if values == expected {
                return;
            }
            assert!(values.len() <= expected.len(), "{values:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, comes).await.unwrap_or_else(|_| panic!("{expected:?} of {key} never landed"));
}

pub(crate) async fn b7_what_the_broker_refuses_is_parked_and_leaves_in_order_once_mended<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
) {
    let sink = sink(&broker);
    parked_and_mended(database, broker, sink).await;
}

pub(crate) async fn b7_parked_events_leave_in_transactions_as_well<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap());
    let sink = KafkaSink::transactional(config, broker.topic(1).await).expect("valid settings");
    parked_and_mended(database, broker, sink).await;
}

/// An oversized record, a partition that is not there, a topic that cannot be, a null key on a compacted topic: each is parked with
/// its key, everything else lands, and a retry sends what was mended, in order.
async fn parked_and_mended<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>, broker: Broker, sink: KafkaSink) {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let parked = Parked::of(&database.pool);
    let (sized, compacted) = (broker.topic(1).await, broker.topic(1).await);
    broker.set(&sized, "max.message.bytes", "2000").await;
    broker.set(&compacted, "cleanup.policy", "compact").await;
    let relay = Relay::builder(&database.pool, sink).woken_by(outbox.wake()).build().unwrap();
    let (stats, shutdown) = (relay.stats(), CancellationToken::new());
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let append = async |events: Vec<Event>| {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        outbox.append_all(&mut tx, &events).await.unwrap();
        tx.commit().await.unwrap();
        outbox.wake().notify();
    };
    let large = "x".repeat(5_000);
    append(vec![
        Event::new(&sized, "a").bytes("a1"),
        Event::new(&sized, "a").bytes(large.as_str()),
        Event::new(&sized, "b").bytes("b1"),
        Event::new(&sized, "a").bytes("a3"),
        Event::new(&sized, "c").bytes("c1").partition(7),
        Event::new(&sized, "c").bytes("c2"),
        Event::new("..", "a").bytes("nowhere"),
        Event::without_key(&compacted).bytes("n1"),
        Event::new(&compacted, "a").bytes("k1"),
        Event::new(&sized, "b").bytes("b2"),
    ])
    .await;
    let of_sized = until_parked(&parked, &sized, 4).await;
    assert!(of_sized.iter().any(|event| event.refused && event.reason.contains("2000")), "{of_sized:?}");
    assert!(of_sized.iter().any(|event| event.refused && event.reason.contains("has 1 partitions")), "{of_sized:?}");
    let nowhere = until_parked(&parked, "..", 1).await;
    let of_compacted = until_parked(&parked, &compacted, 1).await;
    assert!(of_compacted[0].reason.contains("compacted") && !of_compacted[0].blocks, "{of_compacted:?}");
    until_landed(&broker, &sized, "a", &["a1"]).await;
    until_landed(&broker, &sized, "b", &["b1", "b2"]).await;
    until_landed(&broker, &compacted, "a", &["k1"]).await;
    assert_eq!(stats.overtaking(), 0, "all of it was known beforehand");

    // The operator raises a limit.
    broker.set(&sized, "max.message.bytes", "20000").await;
    let first_large = of_sized.iter().find(|event| event.refused && event.reason.contains("2000")).unwrap();
    retried(&parked, &Retry::Event(first_large.event_id), &Filter::key(&sized, "a")).await;
    append(vec![Event::new(&sized, "a").bytes("a4")]).await;
    until_landed(&broker, &sized, "a", &["a1", "large", "a3", "a4"]).await;
    // What nobody can mend is skipped.
    let of_c = parked.list(&Filter::key(&sized, "c"), None, 10).await.unwrap();
    assert_eq!(of_c.len(), 2);
    for event in [&of_compacted[0], &nowhere[0], &of_c[0]] {
        let asked = parked.skip(event.event_id, "ann", "nobody can take it").await.unwrap();
        assert_eq!(asked, Asked::Done { queues: 1 });
    }
    // The rest of its key goes on.
    until_landed(&broker, &sized, "c", &["c2"]).await;
    until_parked(&parked, &sized, 0).await;
    assert_eq!(parked.count(&Filter::all()).await.unwrap().events, 0);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// Asks until none of `which` is left: what the sink knows of a topic may be some seconds old.
async fn retried<DB: TestEngine + OutboxSql>(parked: &Parked<DB>, what: &Retry<'_>, which: &Filter) {
    let comes = async {
        while parked.count(which).await.unwrap().events > 0 {
            let _ = parked.retry(what, "ann", "mended").await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let came = tokio::time::timeout(PATIENCE, comes).await;
    assert!(came.is_ok(), "never sent though mended: {:?}", parked.list(which, None, 10).await);
}
