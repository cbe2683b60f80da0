//! A database whose answers get lost, or that falls silent (PostgreSQL, through a proxy: SQLite's statements are calls, not
//! messages).

use std::time::Duration;

use leastlock_outbox::{MemorySink, Relay};
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres};
use tokio_util::sync::CancellationToken;

use crate::doubles::by_owner_name;
use crate::readers::{LEASE, PATIENCE, Reading, commit, tables};

// What tells the statements apart.
const CLAIM: &str = "epoch = s.epoch + 1";
const RENEWAL: &str = "SET lease_until";
const NOTE: &str = "SET done";
const READ: &str = "pg_current_snapshot() AS snapshot";

/// How long a delivery that the double withholds is waited for: several of its leases.
const DOUBLES_CHANCE: Duration = Duration::from_millis(2500);
const DOUBLES_LEASE: Duration = Duration::from_millis(500);

async fn through_proxy(database: &TestDatabase<Postgres>) -> (FaultProxy, PgPool) {
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let pool = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
    (proxy, pool)
}

/// The first replies to a statement are lost, as many as end a lease; answers whether an event that is committed after that is
/// delivered within `limit`.
async fn recovers(lost: &'static str, then: Then, start: impl Fn(&PgPool) -> Reading, limit: Duration) -> bool {
    let (database, outbox) = tables(TestDatabase::create().await).await;
    let (proxy, pool) = through_proxy(&database).await;
    // Two lost renewals end no lease.
    let times = if lost == RENEWAL { 3 } else { 1 };
    let mut seen = 0;
    let is_lost = move |sql: &str| {
        seen += u64::from(sql.contains(lost));
        sql.contains(lost) && seen <= times
    };
    proxy.swallow_reply_to(is_lost, then);
    let reading = start(&pool);
    commit(&outbox, &database.pool, "k", "1").await;
    proxy.fired(times, PATIENCE).await;
    if lost == RENEWAL {
        // The deadline that was not prolonged has to pass.
        database.execute("CREATE TABLE fired AS SELECT clock_timestamp() AS at").await;
        let past = "SELECT count(*) FROM fired WHERE clock_timestamp() > at + interval '1500 milliseconds'";
        until(&database, past, 1).await;
    }
    commit(&outbox, &database.pool, "k", "2").await;
    reading.delivers("2", limit).await
}

async fn until(database: &TestDatabase<Postgres>, sql: &'static str, count: i64) {
    let holds = async {
        while database.int(sql).await != count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, holds).await.unwrap_or_else(|_| panic!("{sql} never came to {count}"));
}

async fn product_recovers(lost: &'static str) {
    for then in [Then::Cut, Then::Hang] {
        assert!(recovers(lost, then, Reading::product::<Postgres>, PATIENCE).await, "{lost}, {then:?}");
    }
}

pub(crate) async fn lost_claim_stalls_no_event(_database: TestDatabase<Postgres>) {
    product_recovers(CLAIM).await;
}

pub(crate) async fn lost_renewal_stalls_no_event(_database: TestDatabase<Postgres>) {
    product_recovers(RENEWAL).await;
}

pub(crate) async fn lost_note_stalls_no_event(_database: TestDatabase<Postgres>) {
    product_recovers(NOTE).await;
}

pub(crate) async fn relay_that_keeps_renewing_its_name_is_seen_to_stall(database: TestDatabase<Postgres>) {
    let start = |pool: &PgPool| by_owner_name(pool, DOUBLES_LEASE);
    for lost in [CLAIM, RENEWAL, NOTE] {
        assert!(!recovers(lost, Then::Hang, start, DOUBLES_CHANCE).await, "the double must be seen to stall: {lost}");
    }
    let (database, outbox) = tables(database).await;
    let left_alone = start(&database.pool);
    commit(&outbox, &database.pool, "k", "1").await;
    assert!(left_alone.delivers("1", PATIENCE).await);
}

pub(crate) async fn two_lost_renewals_end_no_lease(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let (proxy, pool) = through_proxy(&database).await;
    // A sixth of it has to suffice for a renewal on a busy machine.
    let lease = Duration::from_secs(4);
    let sink = MemorySink::default();
    let relay = Relay::builder(&pool, sink.clone()).lease(lease).build().unwrap();
    let shutdown = CancellationToken::new();
    let mut renewals = 0;
    let is_lost = move |sql: &str| {
        renewals += u32::from(sql.contains(RENEWAL));
        sql.contains(RENEWAL) && (2..=3).contains(&renewals)
    };
    proxy.swallow_reply_to(is_lost, Then::Hang);
    let running = tokio::spawn(relay.run(shutdown.clone()));
    proxy.fired(2, PATIENCE).await;
    database.execute("CREATE TABLE fired AS SELECT clock_timestamp() AS at").await;
    let long_since = "SELECT count(*) FROM fired WHERE clock_timestamp() > at + interval '5 seconds'";
    until(&database, long_since, 1).await;
    commit(&outbox, &database.pool, "k", "1").await;
    tokio::time::timeout(PATIENCE, sink.wait_for(1)).await.expect("it is delivered");
    let claims = database.int("SELECT max(epoch) FROM leastlock_outbox_shard").await;
    assert_eq!(claims, 1, "the shards were held all the time");
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

pub(crate) async fn read_without_an_answer_is_read_anew(_database: TestDatabase<Postgres>) {
    product_recovers(READ).await;
}

pub(crate) async fn database_that_is_silent_for_a_while_is_waited_for(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let (proxy, pool) = through_proxy(&database).await;
    let reading = Reading::product(&pool);
    commit(&outbox, &database.pool, "k", "1").await;
    assert!(reading.delivers("1", PATIENCE).await);
    proxy.black_hole();
    commit(&outbox, &database.pool, "k", "2").await;
    // It gives up on its connection and tries others, in vain.
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
    let (database, outbox) = tables(database).await;
    for silent_at in [CLAIM, READ, NOTE, RENEWAL] {
        let (proxy, pool) = through_proxy(&database).await;
        let relay = Relay::builder(&pool, MemorySink::default()).lease(LEASE).build().unwrap();
        let shutdown = CancellationToken::new();
        proxy.swallow_reply_to(move |sql| sql.contains(silent_at), Then::Hang);
        let running = tokio::spawn(relay.run(shutdown.clone()));
        commit(&outbox, &database.pool, "k", silent_at).await;
        proxy.fired(1, PATIENCE).await;
        proxy.black_hole();
        shutdown.cancel();
        let ended = tokio::time::timeout(PATIENCE, running).await;
        ended.unwrap_or_else(|_| panic!("{silent_at}: shutdown is ignored")).unwrap().unwrap();
    }
}

pub(crate) async fn pool_of_one_connection_is_refused_and_of_two_is_enough(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let pool = |connections| PgPoolOptions::new().max_connections(connections).connect_lazy(&database.url).unwrap();
    let refused = Relay::builder(&pool(1), MemorySink::default()).build().unwrap_err();
    assert_eq!(refused.setting, "max_connections of the relay's pool");

    let reading = Reading::relay(&pool(2), 5);
    let expected: Vec<String> = (0..40).map(|number| number.to_string()).collect();
    for value in &expected {
        commit(&outbox, &database.pool, "k", value).await;
    }
    assert!(reading.comes_to(PATIENCE, |values| values.len() >= expected.len()).await);
    assert_eq!(reading.values(), expected, "every page is noted, so none is published twice");
}
