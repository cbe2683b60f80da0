//! The slot itself: making and dropping it, its lag, and what is wrong with one that cannot be read.

use std::time::Duration;

use leastlock_outbox::wal::{Danger, Lsn, WalError, WalStatus};
use leastlock_outbox::{Error, MemorySink, WalOutbox};
use leastlock_testkit::TestDatabase;
use sqlx::Postgres;
use sqlx::postgres::PgPoolOptions;
use tokio_util::sync::CancellationToken;

use super::{Shop, doubles, value_of};
use crate::readers::PATIENCE;

pub(crate) async fn quiet_log_does_not_pile_up(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let product = shop.product();
    shop.commit("k", "1").await;
    assert!(product.delivers("1", PATIENCE).await && shop.catches_up().await);
    // Writes without events, also of messages that are somebody else's.
    shop.database.execute("CREATE TABLE other (number int)").await;
    shop.database.execute("INSERT INTO other SELECT generate_series(1, 1000)").await;
    shop.database.execute("SELECT pg_logical_emit_message(true, 'other', 'not ours')").await;
    assert!(shop.catches_up().await, "the slot moves over them");
    assert_eq!(product.values(), ["1"]);
}

pub(crate) async fn setup_and_teardown_can_be_repeated(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let there = "SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = current_database()) \
        + (SELECT count(*) FROM pg_publication)";
    shop.commit("k", "1").await;
    shop.outbox.setup(shop.pool()).await.unwrap();
    assert_eq!(shop.database.int(there).await, 2);
    let product = shop.product();
    assert!(product.delivers("1", PATIENCE).await, "the slot is the one that was there");
    product.crash().await;
    assert!(shop.comes_to("NOT active").await);
    shop.outbox.teardown(shop.pool()).await.unwrap();
    shop.outbox.teardown(shop.pool()).await.unwrap();
    assert_eq!(shop.database.int(there).await, 0);
}

async fn stops(outbox: &WalOutbox, shop: &Shop) -> Error {
    let relay = outbox.relay(shop.pool(), MemorySink::default()).build().unwrap();
    let run = tokio::time::timeout(PATIENCE, relay.run(CancellationToken::new())).await;
    run.expect("it does not go on").expect_err("it stops with an error")
}

pub(crate) async fn slot_that_cannot_be_read_stops_the_relay(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    // The publication is dropped while the slot is in use, and made again.
    shop.commit("k", "1").await;
    shop.database.execute("CREATE TABLE item (number int)").await;
    for statement in [shop.outbox_publication("DROP"), shop.outbox_publication("CREATE")] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(shop.pool()).await.unwrap();
        let relay = shop.outbox.relay(shop.pool(), MemorySink::default()).build().unwrap();
        shop.database.execute("INSERT INTO item VALUES (1)").await;
        let stopped = tokio::time::timeout(PATIENCE, relay.run(CancellationToken::new())).await.unwrap();
        assert!(matches!(stopped, Err(Error::Wal(WalError::Publication { .. }))), "{stopped:?}");
    }
    // The slot is dropped under a relay that has it.
    shop.outbox.teardown(shop.pool()).await.unwrap();
    shop.outbox.setup(shop.pool()).await.unwrap();
    let sink = MemorySink::default();
    let running =
        tokio::spawn(shop.outbox.relay(shop.pool(), sink.clone()).build().unwrap().run(CancellationToken::new()));
    shop.commit("k", "2").await;
    tokio::time::timeout(PATIENCE, sink.wait_for(1)).await.unwrap();
    shop.dropped().await;
    shop.database.execute("INSERT INTO item VALUES (2)").await;
    let stopped = tokio::time::timeout(PATIENCE, running).await.expect("it notices").unwrap();
    assert!(matches!(stopped, Err(Error::Wal(WalError::Missing { .. }))), "{stopped:?}");
    let stopped = stops(&shop.outbox, &shop).await;
    assert!(matches!(stopped, Error::Wal(WalError::Missing { .. })) && !stopped.is_retryable(), "{stopped:?}");
    // Somebody else's slot bears the name.
    let other = "SELECT pg_create_logical_replication_slot(current_database()::text::name, 'test_decoding')::text";
    shop.database.execute(other).await;
    let stopped = stops(&shop.outbox, &shop).await;
    assert!(
        matches!(&stopped, Error::Wal(WalError::Foreign { plugin, .. }) if plugin == "test_decoding"),
        "{stopped:?}"
    );
    let refused = shop.outbox.setup(shop.pool()).await;
    assert!(matches!(refused, Err(Error::Wal(WalError::Foreign { .. }))), "{refused:?}");
}

impl Shop {
    fn outbox_publication(&self, action: &str) -> String {
        format!("{action} PUBLICATION \"{}\"", self.name)
    }

    async fn dropped(&self) {
        let drop = "SELECT pg_drop_replication_slot($1)";
        let dropping = async {
            // A relay that is reading it just now is waited for.
            while sqlx::query(drop).bind(&self.name).execute(self.pool()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, dropping).await.expect("it is dropped");
    }
}

pub(crate) async fn message_that_is_no_event_stops_the_relay_behind_what_came_before(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let mut tx = shop.pool().begin().await.unwrap();
    shop.append(&mut tx, "k", "1").await;
    let emit = "SELECT pg_logical_emit_message(true, $1, 'no event')::text";
    let at: String = sqlx::query_scalar(emit).bind(&shop.name).fetch_one(&mut *tx).await.unwrap();
    let at = Lsn::parse(&at).unwrap();
    shop.append(&mut tx, "k", "2").await;
    tx.commit().await.unwrap();
    shop.commit("k", "3").await;
    let sink = MemorySink::default();
    for _ in 0..2 {
        let relay = shop.outbox.relay(shop.pool(), sink.clone()).build().unwrap();
        let stopped = relay.run(CancellationToken::new()).await;
        assert!(
            matches!(stopped, Err(Error::Wal(WalError::Malformed { at: place, .. })) if place == at),
            "{stopped:?}"
        );
    }
    // The transaction is not published as a whole, so what came before is repeated.
    assert_eq!(sink.events().iter().map(value_of).collect::<Vec<_>>(), ["1", "1"]);
    let running = shop.outbox.clone().skipping([at]).relay(shop.pool(), sink.clone()).build().unwrap();
    let running = tokio::spawn(running.run(CancellationToken::new()));
    let published = tokio::time::timeout(PATIENCE, sink.wait_for(5)).await.unwrap();
    assert_eq!(published[2..].iter().map(value_of).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert!(shop.catches_up().await);
    running.abort();
}

pub(crate) async fn lag_says_how_far_behind_and_in_which_danger(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let idle = shop.outbox.lag(shop.pool()).await.unwrap();
    assert!(!idle.has_relay);
    assert_eq!(idle.status, WalStatus::Reserved);
    let limit = idle.dangers()[0].clone();
    match idle.keep_limit_bytes {
        None => assert_eq!(limit, Danger::DiskMayFill),
        Some(_) => assert!(matches!(limit, Danger::EventsMayBeLost { .. }), "{limit:?}"),
    }
    doubles::commit(&shop, &"x".repeat(100_000)).await;
    let behind = shop.outbox.lag(shop.pool()).await.unwrap();
    assert!(behind.unpublished_bytes >= idle.unpublished_bytes + 100_000, "{idle:?} {behind:?}");
    assert!(behind.retained_bytes >= behind.unpublished_bytes);
    let mut writer = shop.pool().begin().await.unwrap();
    sqlx::query("SELECT pg_current_xact_id()::text").execute(&mut *writer).await.unwrap();
    assert!(shop.outbox.lag(shop.pool()).await.unwrap().oldest_writer.is_some());
    writer.rollback().await.unwrap();

    let product = shop.product();
    assert!(product.comes_to(PATIENCE, |values| values.len() == 1).await && shop.catches_up().await);
    let caught_up = shop.outbox.lag(shop.pool()).await.unwrap();
    assert!(caught_up.has_relay);
}

pub(crate) async fn pool_of_one_connection_is_refused_and_of_two_is_enough(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let pool =
        |connections| PgPoolOptions::new().max_connections(connections).connect_lazy(&shop.database.url).unwrap();
    let refused = shop.outbox.relay(&pool(1), MemorySink::default()).build().unwrap_err();
    assert_eq!(refused.setting, "max_connections of the relay's pool");
    let reading = shop.reading(&pool(2), 5);
    let expected: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    for value in &expected {
        shop.commit("k", value).await;
    }
    assert!(reading.comes_to(PATIENCE, |values| values.len() >= expected.len()).await);
    assert_eq!(reading.values(), expected, "every page is noted, so none is published twice");
}
