use std::error::Error;

use leastlock::outbox::{Event, KafkaSink, Outbox, Relay};
use rdkafka::ClientConfig;
use sqlx::SqlitePool;
use tokio_util::sync::CancellationToken;

// `outbox` is from `Outbox::open(&pool)`, once.
async fn move_stock(pool: &SqlitePool, outbox: &Outbox, topic: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut tx = pool.begin().await?;
    sqlx::query("UPDATE stock SET units = units - 3 WHERE code = '85123A'").execute(&mut *tx).await?;
    outbox.append(&mut tx, Event::new(topic, "85123A").json(&-3)?).await?;
    tx.commit().await?;
    outbox.wake().notify(); // optional: a relay of this process need not wait for its next poll
    Ok(())
}

// `kafka` needs `bootstrap.servers`.
async fn publish(
    pool: SqlitePool,
    outbox: &Outbox,
    kafka: ClientConfig,
    stop: CancellationToken,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let relay = Relay::builder(&pool, KafkaSink::new(kafka)?).woken_by(outbox.wake()).build()?;
    relay.run(stop).await?;
    Ok(())
}

// Runs what the README shows.

#[tokio::test(flavor = "multi_thread")]
async fn event_arrives() {
    use std::time::Duration;

    use leastlock_testkit::broker::Broker;

    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.sqlite").display());
    let pool = SqlitePool::connect(&url).await.unwrap();
    leastlock::outbox::MIGRATIONS.run(&pool).await.unwrap();
    let stock =
        "CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER NOT NULL); INSERT INTO stock VALUES ('85123A', 5)";
    sqlx::raw_sql(stock).execute(&pool).await.unwrap();
    let broker = Broker::mock();
    let topic = broker.topic(1).await;
    let outbox = Outbox::open(&pool).await.unwrap();
    move_stock(&pool, &outbox, &topic).await.unwrap();

    let (mut kafka, shutdown) = (ClientConfig::new(), CancellationToken::new());
    kafka.set("bootstrap.servers", broker.bootstrap());
    let relay = publish(pool, &outbox, kafka, shutdown.clone());
    let reader = async {
        while broker.read_all(&topic, Duration::from_secs(30)).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        shutdown.cancel();
    };
    let limit = tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(relay, reader) });
    let (relayed, ()) = limit.await.expect("the event arrives");
    relayed.unwrap();
}
