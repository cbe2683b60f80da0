//! Where keys land.

use std::collections::BTreeMap;

use leastlock_outbox::{MIGRATIONS, Outbox, OutboxSql};
use leastlock_testkit::broker::Broker;
use leastlock_testkit::{TestDatabase, TestEngine};
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::suite::{PATIENCE, commit, publish_all, sink};

/// Keys and what Kafka's own tests say that the Java client's murmur2 makes of them (`UtilsTest.testMurmur2`).
const HASHES: [(&str, i32); 6] = [
    ("21", -973_932_308),
    ("foobar", -790_332_482),
    ("a-little-bit-long-string", -985_981_536),
    ("a-little-bit-longer-string", -1_486_304_829),
    ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
    ("abc", 479_470_107),
];
const PARTITIONS: i32 = 12;

pub(crate) async fn keys_land_where_java_producers_put_them<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
) {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let topic = broker.topic(PARTITIONS).await;
    for (key, _) in HASHES {
        commit(&outbox, &database.pool, &topic, key, "v").await;
    }
    publish_all(&database.pool, sink(&broker), HASHES.len() as u64).await;
    // Java clears the sign rather than taking the absolute value.
    let expected: BTreeMap<String, i32> =
        HASHES.iter().map(|(key, hash)| ((*key).to_owned(), (hash & 0x7fff_ffff) % PARTITIONS)).collect();
    assert_eq!(placed(&broker, &topic).await, expected);

    // The double: librdkafka's own default.
    let topic = broker.topic(PARTITIONS).await;
    let mut config = ClientConfig::new();
    let producer: FutureProducer = config.set("bootstrap.servers", broker.bootstrap()).create().unwrap();
    for (key, _) in HASHES {
        producer.send(FutureRecord::to(&topic).key(key).payload("v"), PATIENCE).await.unwrap();
    }
    assert_ne!(placed(&broker, &topic).await, expected, "the double must be seen to put keys elsewhere");
}

async fn placed(broker: &Broker, topic: &str) -> BTreeMap<String, i32> {
    let records = broker.read_all(topic, PATIENCE).await;
    records.iter().map(|record| (record.key_text().to_owned(), record.partition)).collect()
}
