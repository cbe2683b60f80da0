//! A relay that is stopped while a transaction of its holds shards' rows.

use std::time::Duration;

use leastlock_outbox::{MIGRATIONS, MemorySink, Relay};
use leastlock_testkit::process::{Child, child_role, speak};
use leastlock_testkit::{TestDatabase, TestEngine, until};
use sqlx::Postgres;
use tokio_util::sync::CancellationToken;

const RELAY: &str = "stopped::relay_to_be_stopped";
/// So long that a twelfth of it, which the note of the ids may take, is longer than the server sleeps in it.
const LEASE: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_mins(1);
/// How often it is tried to stop it in time.
const ATTEMPTS: usize = 20;

/// The server sleeps in the statement that notes the ids, before it locks anything; and it is noted when a shard is taken.
const TRIGGERS: [&str; 5] = [
    "CREATE FUNCTION sleeper() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$",
    "CREATE TRIGGER sleeper BEFORE UPDATE OF seen_id ON leastlock_outbox_shard EXECUTE FUNCTION sleeper()",
    "CREATE TABLE taken (at timestamptz NOT NULL DEFAULT clock_timestamp())",
    "CREATE FUNCTION taker() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO taken DEFAULT VALUES; RETURN NULL; END $$",
    "CREATE TRIGGER taker AFTER UPDATE OF owner ON leastlock_outbox_shard FOR EACH ROW \
     WHEN (NEW.owner IS DISTINCT FROM OLD.owner) EXECUTE FUNCTION taker()",
];
const ASLEEP: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
const HOLDS: &str = "SELECT count(*) FROM pg_stat_activity \
    WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE '%SET seen_id%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_to_be_stopped() {
    if !child_role(RELAY) {
        return;
    }
    let pool = <Postgres as TestEngine>::connect(&std::env::var("DATABASE").expect("the parent names it")).await;
    let relay = Relay::builder(&pool, MemorySink::default()).lease(LEASE).build().expect("valid settings");
    speak("relaying");
    relay.run(CancellationToken::new()).await.expect("it runs until it is killed");
}

/// Stops the process while its session holds the rows and waits for its next message.
async fn stop_in_the_transaction(child: &mut Child, database: &TestDatabase<Postgres>) {
    for _ in 0..ATTEMPTS {
        until("the ids are noted", PATIENCE, async || database.int(ASLEEP).await > 0).await;
        child.stop();
        until("the server has slept", PATIENCE, async || database.int(ASLEEP).await == 0).await;
        if database.int(HOLDS).await > 0 {
            return;
        }
        // It was a moment too late, or the server was.
        child.resume();
    }
    panic!("it was stopped in the transaction in none of {ATTEMPTS} attempts");
}

pub(crate) async fn b18_relay_stopped_while_it_holds_rows_is_followed_within_its_lease_and_a_second(
    database: TestDatabase<Postgres>,
) {
    let database = database.with(&MIGRATIONS).await;
    for statement in TRIGGERS {
        database.execute(statement).await;
    }
    let mut child = Child::rerun(RELAY, &[("DATABASE", &database.url)]);
    child.line_containing("relaying", PATIENCE);
    until("it holds all", PATIENCE, async || {
        database.int("SELECT count(*) FROM leastlock_outbox_shard WHERE owner IS NOT NULL").await == 16
    })
    .await;
    stop_in_the_transaction(&mut child, &database).await;
    database
        .execute(
            "CREATE TABLE stopped AS SELECT clock_timestamp() AS at, max(owner) AS owner FROM leastlock_outbox_shard",
        )
        .await;
    let relay = Relay::builder(&database.pool, MemorySink::default()).lease(LEASE).build().expect("valid settings");
    let successor = tokio::spawn(relay.run(CancellationToken::new()));
    let left = "SELECT count(*) FROM leastlock_outbox_shard AS s JOIN stopped USING (owner)";
    until("another has all", PATIENCE, async || database.int(left).await == 0).await;
    let after =
        "SELECT (extract(epoch FROM max(taken.at) - max(stopped.at)) * 1000)::bigint FROM taken CROSS JOIN stopped";
    let (after, limit) = (database.int(after).await, i64::try_from(LEASE.as_millis()).unwrap() + 1_000);
    assert!(after <= limit, "taken over after {after} ms");
    successor.abort();
}
