//! A database whose answers get lost.

use std::time::Duration;

use leastlock_outbox::MemorySink;
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{PgPool, Postgres};
use tokio_util::sync::CancellationToken;

use super::Shop;
use crate::readers::{LEASE, PATIENCE};

// What tells the statements apart.
const STATEMENTS: [&str; 8] = [
    "pg_try_advisory_lock",
    "client_connection_check_interval",
    "pg_current_wal_flush_lsn",
    "DECLARE leastlock_wal",
    "FETCH FORWARD",
    "CLOSE leastlock_wal",
    "pg_replication_slot_advance",
    // The renewal: nothing else asks for this alone.
    "prolongs the lease",
];

pub(crate) async fn lost_answers_stall_no_event(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let mut number = 0;
    for lost in STATEMENTS {
        for then in [Then::Cut, Then::Hang] {
            let (proxy, pool) = shop.through_proxy().await;
            let mut is_first = true;
            proxy.swallow_reply_to(move |sql| sql.contains(lost) && std::mem::take(&mut is_first), then);
            let reading = shop.reading(&pool, 200);
            number += 1;
            shop.commit("k", &format!("{number} before")).await;
            proxy.fired(1, PATIENCE).await;
            shop.commit("k", &format!("{number} after")).await;
            assert!(reading.delivers(&format!("{number} after"), PATIENCE).await, "{lost}, {then:?}");
            let values = reading.crash().await;
            let first = |value: &str| values.iter().position(|other| other == value);
            let (before, after) = (first(&format!("{number} before")), first(&format!("{number} after")));
            assert!(before.is_some() && before < after, "{lost}, {then:?}: {values:?}");
        }
    }
}

pub(crate) async fn database_that_is_silent_for_a_while_is_waited_for(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let (proxy, pool) = shop.through_proxy().await;
    let reading = shop.reading(&pool, 200);
    shop.commit("k", "1").await;
    assert!(reading.delivers("1", PATIENCE).await);
    proxy.black_hole();
    shop.commit("k", "2").await;
    // It gives up on its connections and tries others, in vain.
    let tried = proxy.connections() + 3;
    let gives_up = tokio::time::timeout(PATIENCE, async {
        while proxy.connections() < tried {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    gives_up.await.expect("it tries new connections");
    assert!(!reading.values().contains(&"2".to_owned()));
    proxy.heal();
    assert!(reading.delivers("2", PATIENCE).await);
}

pub(crate) async fn shutdown_is_served_while_the_database_is_silent(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    for silent_at in STATEMENTS {
        let (proxy, pool) = shop.through_proxy().await;
        let relay = shop.outbox.relay(&pool, MemorySink::default()).lease(LEASE).build().unwrap();
        let shutdown = CancellationToken::new();
        proxy.swallow_reply_to(move |sql| sql.contains(silent_at), Then::Hang);
        let running = tokio::spawn(relay.run(shutdown.clone()));
        shop.commit("k", silent_at).await;
        proxy.fired(1, PATIENCE).await;
        proxy.black_hole();
        shutdown.cancel();
        let ended = tokio::time::timeout(PATIENCE, running).await;
        ended.unwrap_or_else(|_| panic!("{silent_at}: shutdown is ignored")).unwrap().unwrap();
    }
}

impl Shop {
    async fn through_proxy(&self) -> (FaultProxy, PgPool) {
        let proxy = FaultProxy::to_postgres(&self.database.url).await;
        let pool = Postgres::connect(&postgres::through(&proxy, &self.database.url)).await;
        (proxy, pool)
    }
}
