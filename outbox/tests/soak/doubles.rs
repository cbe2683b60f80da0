//! Hand-written readers, each with one mistake that has been made in public.

use std::time::Duration;

use leastlock_outbox::sink::EVENT_ID_HEADER;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};

const IDLE: Duration = Duration::from_millis(5);
/// Between what a double reads and the first event that it publishes of it: what a busy machine does by itself now and then.
const PAUSE: Duration = Duration::from_millis(50);

/// Deletes a page and publishes it then: what it has not published when it is killed is lost.
pub(crate) async fn notes_first(pool: &PgPool, config: &ClientConfig) {
    let take = "DELETE FROM leastlock_outbox WHERE (shard, id) IN (SELECT shard, id FROM leastlock_outbox \
        ORDER BY id LIMIT 50 FOR UPDATE SKIP LOCKED) RETURNING id, event_id::text, topic, key, value";
    let producer = producer(config);
    loop {
        let mut rows = sqlx::query(take).fetch_all(pool).await.expect("it reads");
        rows.sort_by_key(|row| row.get::<i64, _>(0));
        tokio::time::sleep(if rows.is_empty() { IDLE } else { PAUSE }).await;
        publish(&producer, &rows).await;
    }
}

/// Several take turns at rows instead of keys: a key's later event overtakes an earlier one that another has locked.
pub(crate) async fn skips_locked(pool: &PgPool, config: &ClientConfig) {
    let read = "SELECT id, event_id::text, topic, key, value, shard FROM leastlock_outbox ORDER BY id LIMIT 20 \
        FOR UPDATE SKIP LOCKED";
    let delete = "DELETE FROM leastlock_outbox WHERE id = ANY ($1)";
    let producer = producer(config);
    loop {
        let mut tx = pool.begin().await.expect("a transaction");
        let rows = sqlx::query(read).fetch_all(&mut *tx).await.expect("it reads");
        tokio::time::sleep(if rows.is_empty() { IDLE } else { PAUSE }).await;
        publish(&producer, &rows).await;
        let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        sqlx::query(delete).bind(ids).execute(&mut *tx).await.expect("it deletes");
        tx.commit().await.expect("it commits");
    }
}

/// Keeps its place in memory: whoever follows it begins anew.
pub(crate) async fn never_notes(pool: &PgPool, config: &ClientConfig) {
    let read = "SELECT id, event_id::text, topic, key, value FROM leastlock_outbox WHERE id > $1 ORDER BY id LIMIT 200";
    let (producer, mut last) = (producer(config), 0_i64);
    loop {
        let rows = sqlx::query(read).bind(last).fetch_all(pool).await.expect("it reads");
        publish(&producer, &rows).await;
        match rows.last() {
            Some(row) => last = row.get(0),
            None => tokio::time::sleep(IDLE).await,
        }
    }
}

fn producer(config: &ClientConfig) -> FutureProducer {
    let mut config = config.clone();
    config.set("enable.idempotence", "true").set("linger.ms", "1").create().expect("a producer")
}

async fn publish(producer: &FutureProducer, rows: &[PgRow]) {
    let mut sent = Vec::with_capacity(rows.len());
    for row in rows {
        let (id, topic) = (row.get::<&str, _>(1), row.get::<&str, _>(2));
        let headers = OwnedHeaders::new().insert(Header { key: EVENT_ID_HEADER, value: Some(id) });
        let (key, value) = (row.get::<&[u8], _>(3), row.get::<&[u8], _>(4));
        let record = FutureRecord::to(topic).key(key).payload(value).headers(headers);
        sent.push(producer.send_result(record).map_err(|(error, _)| error).expect("there is room"));
    }
    for report in sent {
        report.await.expect("the producer lives").map_err(|(error, _)| error).expect("it is published");
    }
}
