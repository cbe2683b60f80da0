use std::error::Error;

use leastlock_core::{begin, commit};
use leastlock_outbox::{Event, MIGRATIONS, Outbox, Relay, Sink};
use sqlx::SqlitePool;
use tokio_util::sync::CancellationToken;

async fn shop(pool: SqlitePool, sink: impl Sink, stop: CancellationToken) -> Result<(), Box<dyn Error + Send + Sync>> {
    MIGRATIONS.run(&pool).await?;
    let outbox = Outbox::open(&pool).await?;

    let relay = Relay::builder(&pool, sink).woken_by(outbox.wake()).build()?;
    let stats = relay.stats(); // before `run`, which takes the relay
    let mut relay = tokio::spawn(relay.run(stop.clone())); // keep the handle: what ends the relay comes out of it

    let sold = tokio::select! {
        sold = sell(&pool, &outbox) => sold,
        ended = &mut relay => return Ok(ended?.map(drop)?), // nothing is published any more: say so, and act
    };
    stop.cancel();
    relay.await??; // what is under way is finished and noted
    println!("{} events published, {} parked", stats.published(), stats.parked());
    sold
}

async fn sell(pool: &SqlitePool, outbox: &Outbox) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut tx = begin(pool).await?;
    sqlx::query("UPDATE stock SET units = units - 3 WHERE code = '85123A'").execute(&mut *tx).await?;
    outbox.append(&mut tx, Event::new("stock-moves", "85123A").json(&-3)?).await?; // after the UPDATE, for the order
    commit(tx).await?;
    outbox.wake().notify(); // optional: a relay of this process need not wait for its next poll
    Ok(())
}

// Runs what the guide shows.

#[tokio::test(flavor = "multi_thread")]
async fn what_is_sold_is_published_before_the_relay_ends() {
    use std::time::Duration;

    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.sqlite").display());
    let pool = SqlitePool::connect(&url).await.unwrap();
    let stock =
        "CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER NOT NULL); INSERT INTO stock VALUES ('85123A', 5)";
    sqlx::raw_sql(stock).execute(&pool).await.unwrap();
    let (sink, stop) = (leastlock_outbox::MemorySink::default(), CancellationToken::new());
    shop(pool.clone(), sink.clone(), stop).await.unwrap();

    // The relay may be stopped before it has read the event; then the next one publishes it.
    let stop = CancellationToken::new();
    let relay = tokio::spawn(Relay::builder(&pool, sink.clone()).build().unwrap().run(stop.clone()));
    let published = tokio::time::timeout(Duration::from_mins(1), sink.wait_for(1)).await.expect("it is published");
    stop.cancel();
    relay.await.unwrap().unwrap();
    assert_eq!(published[0].value.as_deref(), Some(&b"-3"[..]));
}
