//! What takes a server of the test's own: a log that is cut off, a crash, prepared transactions.

use std::time::Duration;

use leastlock_outbox::wal::{Danger, WalError, WalStatus};
use leastlock_outbox::{Error, Event, MemorySink, WalOutbox};
use leastlock_testkit::cluster::PostgresCluster;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{PgPool, Postgres};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::value_of;
use crate::readers::{LEASE, PATIENCE};

/// A server that decodes, and the outbox `shop` in it.
async fn shop(settings: &[&str]) -> (PostgresCluster, PgPool, WalOutbox) {
    let cluster = PostgresCluster::start_with(&[&["wal_level=logical"], settings].concat()).await;
    let pool = Postgres::connect(&cluster.url).await;
    let outbox = WalOutbox::new("shop").unwrap();
    outbox.setup(&pool).await.unwrap();
    (cluster, pool, outbox)
}

fn relay(outbox: &WalOutbox, pool: &PgPool) -> (MemorySink, JoinHandle<()>) {
    let sink = MemorySink::default();
    let relay = outbox.relay(pool, sink.clone()).lease(LEASE).build().unwrap();
    let running = tokio::spawn(async move {
        relay.run(CancellationToken::new()).await.unwrap();
    });
    (sink, running)
}

async fn commit(outbox: &WalOutbox, pool: &PgPool, value: &str) -> Result<(), Error> {
    let mut tx = pool.begin().await.unwrap();
    outbox.append(&mut tx, Event::new("moves", "k").bytes(value)).await?;
    tx.commit().await.unwrap();
    Ok(())
}

async fn published(sink: &MemorySink, value: &str) -> Vec<String> {
    let values = || sink.events().iter().map(value_of).collect::<Vec<_>>();
    let waiting = async {
        while !values().iter().any(|other| other == value) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{value} does not leave: {:?}", values()));
    values()
}

pub(crate) async fn slot_that_the_server_cut_off_stops_the_relay_and_the_producers(_: TestDatabase<Postgres>) {
    let small = ["max_slot_wal_keep_size=16MB", "min_wal_size=32MB", "max_wal_size=32MB", "wal_keep_size=0"];
    let (_cluster, pool, outbox) = shop(&small).await;
    let lag = outbox.lag(&pool).await.unwrap();
    assert_eq!((lag.status, lag.keep_limit_bytes), (WalStatus::Reserved, Some(16 << 20)));
    assert!(matches!(lag.dangers()[..], [Danger::EventsMayBeLost { .. }]), "{lag:?}");
    commit(&outbox, &pool, "1").await.unwrap();
    sqlx::raw_sql("CREATE TABLE other (text text)").execute(&pool).await.unwrap();
    // No relay runs, and more is written than the server may keep.
    let mut seen = Vec::new();
    let cut_off = async {
        loop {
            let lag = outbox.lag(&pool).await.unwrap();
            seen.push(lag.status);
            if lag.status == WalStatus::Lost {
                return lag;
            }
            let write = "INSERT INTO other SELECT repeat(md5(i::text), 30) FROM generate_series(1, 6000) AS i";
            sqlx::raw_sql(write).execute(&pool).await.unwrap();
            if lag.status == WalStatus::Unreserved {
                assert_eq!(lag.dangers(), [Danger::AboutToBeLost]);
                sqlx::raw_sql("CHECKPOINT").execute(&pool).await.unwrap();
            }
        }
    };
    let lag = tokio::time::timeout(PATIENCE, cut_off).await.expect("the server cuts it off");
    assert_eq!(lag.dangers(), [Danger::Lost]);
    assert!(seen.contains(&WalStatus::Reserved), "{seen:?}");

    let stopped = outbox.relay(&pool, MemorySink::default()).build().unwrap().run(CancellationToken::new()).await;
    assert!(matches!(stopped, Err(Error::Wal(WalError::Lost { .. }))), "{stopped:?}");
    let refused = commit(&outbox, &pool, "2").await;
    assert!(matches!(refused, Err(Error::Wal(WalError::Missing { .. }))), "{refused:?}");
    let refused = outbox.setup(&pool).await;
    assert!(matches!(refused, Err(Error::Wal(WalError::Lost { .. }))), "{refused:?}");
    // Somebody has looked at what is lost, and begins anew.
    outbox.teardown(&pool).await.unwrap();
    outbox.setup(&pool).await.unwrap();
    commit(&outbox, &pool, "3").await.unwrap();
    let (sink, running) = relay(&outbox, &pool);
    assert_eq!(published(&sink, "3").await, ["3"]);
    running.abort();
}

pub(crate) async fn server_crash_loses_and_turns_round_nothing(_: TestDatabase<Postgres>) {
    let (mut cluster, pool, outbox) = shop(&[]).await;
    let (sink, running) = relay(&outbox, &pool);
    for number in 0..40 {
        commit(&outbox, &pool, &number.to_string()).await.unwrap();
    }
    published(&sink, "39").await;
    cluster.crash().await;
    // The pool's connections are gone with the server.
    let pool = Postgres::connect(&cluster.url).await;
    for number in 40..50 {
        commit(&outbox, &pool, &number.to_string()).await.unwrap();
    }
    let values = published(&sink, "49").await;
    let mut first: Vec<String> = Vec::new();
    for value in values {
        if !first.contains(&value) {
            first.push(value);
        }
    }
    assert_eq!(first, (0..50).map(|number| number.to_string()).collect::<Vec<_>>());
    running.abort();
}

pub(crate) async fn prepared_transaction_leaves_when_it_is_committed(_: TestDatabase<Postgres>) {
    let (_cluster, pool, outbox) = shop(&["max_prepared_transactions=2"]).await;
    let (sink, running) = relay(&outbox, &pool);
    for (value, name) in [("rolled back", "a"), ("committed", "b")] {
        let mut connection = pool.acquire().await.unwrap();
        let mut tx = sqlx::Connection::begin(&mut *connection).await.unwrap();
        outbox.append(&mut tx, Event::new("moves", "k").bytes(value)).await.unwrap();
        let prepare = sqlx::AssertSqlSafe(format!("PREPARE TRANSACTION '{name}'"));
        sqlx::raw_sql(prepare).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }
    commit(&outbox, &pool, "later").await.unwrap();
    assert_eq!(published(&sink, "later").await, ["later"]);
    sqlx::raw_sql("ROLLBACK PREPARED 'a'").execute(&pool).await.unwrap();
    sqlx::raw_sql("COMMIT PREPARED 'b'").execute(&pool).await.unwrap();
    assert_eq!(published(&sink, "committed").await, ["later", "committed"]);
    commit(&outbox, &pool, "end").await.unwrap();
    assert_eq!(published(&sink, "end").await, ["later", "committed", "end"]);
    running.abort();
}

pub(crate) async fn server_that_does_not_decode_is_named(_: TestDatabase<Postgres>) {
    let cluster = PostgresCluster::start().await;
    let pool = Postgres::connect(&cluster.url).await;
    let refused = WalOutbox::new("shop").unwrap().setup(&pool).await;
    assert!(matches!(&refused, Err(Error::Wal(WalError::WalLevel { found })) if found == "replica"), "{refused:?}");
    let (cluster, pool, _) = shop(&["max_replication_slots=1"]).await;
    let refused = WalOutbox::new("another").unwrap().setup(&pool).await;
    assert!(matches!(refused, Err(Error::Wal(WalError::NoSlotLeft { limit: 1 }))), "{refused:?}");
    drop(cluster);
}
