//! A database whose answers get lost, or that falls silent (the servers, through a proxy: SQLite's statements are calls, not
//! messages).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leastlock_outbox::{MemorySink, OutboxSql, Relay};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::sql;
use leastlock_testkit::proxy::{FaultProxy, Proxied, Then};
use sqlx::Pool;
use sqlx::pool::PoolOptions;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "postgres")]
use crate::doubles::by_owner_name;
use crate::readers::{LEASE, PATIENCE, Reading, commit, tables, until_it_counts};

/// A request whose answer gets lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Request {
    Claim,
    Renewal,
    Note,
    Read,
}

impl Request {
    const ALL: [Self; 4] = [Self::Claim, Self::Renewal, Self::Note, Self::Read];

    /// What tells its statement from the others.
    const fn mark<DB: Proxied>(self) -> &'static str {
        match self {
            Self::Claim => sql::<DB>("epoch = s.epoch + 1", "INTO @leastlock_free"),
            Self::Renewal => sql::<DB>("SET lease_until", "SET own.lease_until"),
            Self::Note => sql::<DB>("SET done", "DELETE event"),
            Self::Read => sql::<DB>("pg_current_snapshot() AS snapshot", "shard = ? AND id > ?"),
        }
    }
}

/// How long a delivery that the double withholds is waited for: several of its leases.
#[cfg(feature = "postgres")]
const DOUBLES_CHANCE: Duration = Duration::from_millis(2500);
#[cfg(feature = "postgres")]
const DOUBLES_LEASE: Duration = Duration::from_millis(500);

async fn through_proxy<DB: Proxied>(database: &TestDatabase<DB>) -> (FaultProxy, Pool<DB>) {
    let proxy = DB::proxy(&database.url).await;
    let pool = DB::connect(&DB::through(&proxy, &database.url)).await;
    (proxy, pool)
}

/// Remembers the database's time.
async fn remember_firing<DB: Proxied>(database: &TestDatabase<DB>) {
    let remember = sql::<DB>(
        "CREATE TABLE fired AS SELECT clock_timestamp() AS at",
        "CREATE TABLE fired AS SELECT UTC_TIMESTAMP(6) AS at",
    );
    database.execute(remember).await;
}

/// The first replies to a statement are lost, as many as end a lease; answers whether an event that is committed after that is
/// delivered within `limit`.
async fn recovers<DB: Proxied + OutboxSql>(
    lost: Request,
    then: Then,
    start: impl Fn(&Pool<DB>) -> Reading,
    limit: Duration,
) -> bool {
    let (database, outbox) = tables(TestDatabase::<DB>::create().await).await;
    let (proxy, pool) = through_proxy(&database).await;
    // Two lost renewals end no lease.
    let times = if lost == Request::Renewal { 3 } else { 1 };
    // One that the relay gives up before it is answered is no lost answer: they are lost until there were enough.
    let enough = Arc::new(AtomicBool::new(false));
    let were_enough = Arc::clone(&enough);
    let is_lost = move |sql: &str| sql.contains(lost.mark::<DB>()) && !were_enough.load(Ordering::SeqCst);
    proxy.swallow_reply_to(is_lost, then);
    let reading = start(&pool);
    commit(&outbox, &database.pool, "k", "1").await;
    proxy.fired(times, PATIENCE).await;
    enough.store(true, Ordering::SeqCst);
    if lost == Request::Renewal {
        // The deadline that was not prolonged has to pass.
        remember_firing(&database).await;
        let past = sql::<DB>(
            "SELECT count(*) FROM fired WHERE clock_timestamp() > at + interval '1500 milliseconds'",
            "SELECT count(*) FROM fired WHERE UTC_TIMESTAMP(6) > at + INTERVAL 1500000 MICROSECOND",
        );
        until_it_counts(&database, past, 1).await;
    }
    commit(&outbox, &database.pool, "k", "2").await;
    reading.delivers("2", limit).await
}

async fn product_recovers<DB: Proxied + OutboxSql>(lost: Request) {
    for then in [Then::Cut, Then::Hang] {
        assert!(recovers(lost, then, Reading::product::<DB>, PATIENCE).await, "{lost:?}, {then:?}");
    }
}

pub(crate) async fn lost_claim_stalls_no_event<DB: Proxied + OutboxSql>(_database: TestDatabase<DB>) {
    product_recovers::<DB>(Request::Claim).await;
}

pub(crate) async fn lost_renewal_stalls_no_event<DB: Proxied + OutboxSql>(_database: TestDatabase<DB>) {
    product_recovers::<DB>(Request::Renewal).await;
}

pub(crate) async fn lost_note_stalls_no_event<DB: Proxied + OutboxSql>(_database: TestDatabase<DB>) {
    product_recovers::<DB>(Request::Note).await;
}

#[cfg(feature = "postgres")]
pub(crate) async fn relay_that_keeps_renewing_its_name_is_seen_to_stall(database: TestDatabase<sqlx::Postgres>) {
    let start = |pool: &sqlx::PgPool| by_owner_name(pool, DOUBLES_LEASE);
    for lost in [Request::Claim, Request::Renewal, Request::Note] {
        assert!(!recovers(lost, Then::Hang, start, DOUBLES_CHANCE).await, "the double must be seen to stall: {lost:?}");
    }
    let (database, outbox) = tables(database).await;
    let left_alone = start(&database.pool);
    commit(&outbox, &database.pool, "k", "1").await;
    assert!(left_alone.delivers("1", PATIENCE).await);
}

pub(crate) async fn two_lost_renewals_end_no_lease<DB: Proxied + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    let (proxy, pool) = through_proxy(&database).await;
    // A sixth of it has to suffice for a renewal on a busy machine.
    let lease = Duration::from_secs(4);
    let sink = MemorySink::default();
    let relay = Relay::builder(&pool, sink.clone()).lease(lease).build().unwrap();
    let shutdown = CancellationToken::new();
    let mut renewals = 0;
    let is_lost = move |sql: &str| {
        let is_it = sql.contains(Request::Renewal.mark::<DB>());
        renewals += u32::from(is_it);
        is_it && (2..=3).contains(&renewals)
    };
    proxy.swallow_reply_to(is_lost, Then::Hang);
    let running = tokio::spawn(relay.run(shutdown.clone()));
    proxy.fired(2, PATIENCE).await;
    remember_firing(&database).await;
    let long_since = sql::<DB>(
        "SELECT count(*) FROM fired WHERE clock_timestamp() > at + interval '5 seconds'",
        "SELECT count(*) FROM fired WHERE UTC_TIMESTAMP(6) > at + INTERVAL 5 SECOND",
    );
    until_it_counts(&database, long_since, 1).await;
    commit(&outbox, &database.pool, "k", "1").await;
    tokio::time::timeout(PATIENCE, sink.wait_for(1)).await.expect("it is delivered");
    let claims = database.int("SELECT max(epoch) FROM leastlock_outbox_shard").await;
    assert_eq!(claims, 1, "the shards were held all the time");
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

pub(crate) async fn read_without_an_answer_is_read_anew<DB: Proxied + OutboxSql>(_database: TestDatabase<DB>) {
    product_recovers::<DB>(Request::Read).await;
}

pub(crate) async fn database_that_is_silent_for_a_while_is_waited_for<DB: Proxied + OutboxSql>(
    database: TestDatabase<DB>,
) {
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

pub(crate) async fn shutdown_is_served_while_the_database_is_silent<DB: Proxied + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    for silent_at in Request::ALL {
        let (proxy, pool) = through_proxy(&database).await;
        let relay = Relay::builder(&pool, MemorySink::default()).lease(LEASE).build().unwrap();
        let shutdown = CancellationToken::new();
        proxy.swallow_reply_to(move |sql| sql.contains(silent_at.mark::<DB>()), Then::Hang);
        let running = tokio::spawn(relay.run(shutdown.clone()));
        commit(&outbox, &database.pool, "k", "1").await;
        proxy.fired(1, PATIENCE).await;
        proxy.black_hole();
        shutdown.cancel();
        let ended = tokio::time::timeout(PATIENCE, running).await;
        ended.unwrap_or_else(|_| panic!("{silent_at:?}: shutdown is ignored")).unwrap().unwrap();
    }
}

pub(crate) async fn pool_of_one_connection_is_refused_and_of_two_is_enough<DB: Proxied + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let pool = |connections| PoolOptions::<DB>::new().max_connections(connections).connect_lazy(&database.url).unwrap();
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
