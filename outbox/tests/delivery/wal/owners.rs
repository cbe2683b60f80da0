//! Several relays, of which one is the reader, and what becomes of the others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_outbox::{Batch, LoggedEvent, Refusal, Sink, WalOutbox};
use leastlock_testkit::process::{Child, child_role, speak};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{PgPool, Postgres};
use tokio_util::sync::CancellationToken;

use super::{Shop, doubles, value_of};
use crate::readers::{LEASE, PATIENCE};

const RELAY: &str = "wal::owners::relay_to_stdout";

pub(crate) async fn crashed_relay_is_followed_by_another_at_once(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    shop.commit("k", "1").await;
    let first = shop.product();
    assert!(first.delivers("1", PATIENCE).await);
    let second = shop.product();
    shop.commit("k", "2").await;
    assert!(first.delivers("2", PATIENCE).await);
    assert_eq!(second.values(), Vec::<String>::new(), "a slot has one reader");
    assert!(shop.catches_up().await, "what was published is noted");
    first.crash().await;
    shop.commit("k", "3").await;
    assert!(second.delivers("3", PATIENCE).await);
    assert_eq!(second.values(), ["3"], "what was noted as published is not repeated");
}

/// Says each event that it is given, and then acknowledges it.
struct Stdout;

impl Sink for Stdout {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        for event in batch.events() {
            speak(format_args!("event {}", value_of(event)));
        }
        batch.published();
    }

    fn abandon(&self) {
        speak("abandoned");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_to_stdout() {
    if !child_role(RELAY) {
        return;
    }
    let (url, name) = (std::env::var("URL").expect("a URL"), std::env::var("SLOT").expect("a slot"));
    let outbox = WalOutbox::new(&name).expect("a name");
    let relay = outbox.relay(&Postgres::connect(&url).await, Stdout).lease(LEASE).build().expect("valid settings");
    relay.run(CancellationToken::new()).await.expect("the relay runs");
}

pub(crate) async fn b4_stopped_relay_is_followed_within_its_lease_and_only_repeats(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let mut stopped = Child::rerun(RELAY, &[("URL", &shop.database.url), ("SLOT", &shop.name)]);
    shop.commit("k", "1").await;
    stopped.line_containing("event 1", PATIENCE);
    stopped.stop();
    let second = shop.product();
    for value in ["2", "3"] {
        shop.commit("k", value).await;
    }
    assert!(second.delivers("3", PATIENCE).await, "the server ends the stopped relay's session");
    stopped.resume();
    stopped.line_containing("abandoned", PATIENCE);
    shop.commit("k", "4").await;
    assert!(second.delivers("4", PATIENCE).await, "the resumed relay takes nothing away");
    // The first one may have been acknowledged and not yet noted when the relay was stopped; and on a busy machine the second
    // relay may lose its own session, and repeat.
    let mut values = Vec::new();
    for value in second.values().into_iter().filter(|value| value != "1") {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    assert_eq!(values, ["2", "3", "4"]);
    assert!(shop.catches_up().await);
    stopped.kill();
    second.crash().await;

    // The double's session may be silent for ever, and nobody follows it.
    let double = doubles::claim_without_a_limit(shop.pool(), &shop.name).await;
    let third = shop.product();
    shop.commit("k", "5").await;
    assert!(!third.delivers("5", LEASE * 2).await, "the double must be seen to keep the slot");
    drop(double);
    assert!(third.delivers("5", PATIENCE).await);
}

pub(crate) async fn session_left_over_from_another_relay_is_ended(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let mut left_over = shop.pool().acquire().await.unwrap().detach();
    let called = "SELECT set_config('application_name', 'leastlock_wal ' || current_database(), false)";
    sqlx::query(called).execute(&mut left_over).await.unwrap();
    let reads_for_ever = "DO $$ BEGIN LOOP \
            BEGIN \
                PERFORM pg_logical_slot_peek_binary_changes(current_database()::text::name, NULL, NULL, \
                    'proto_version', '1', 'publication_names', current_database()::text, 'messages', 'true'); \
            EXCEPTION WHEN object_in_use THEN NULL; \
            END; \
        END LOOP; END $$";
    let reading = tokio::spawn(async move { sqlx::raw_sql(reads_for_ever).execute(&mut left_over).await });
    assert!(shop.comes_to("active").await);
    let product = shop.product();
    // It meets the other session sooner or later: the slot is free between two of its reads.
    let ended = async {
        let mut number = 0;
        while !reading.is_finished() {
            number += 1;
            shop.commit("k", &number.to_string()).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("the other session is ended");
    let error = reading.await.unwrap().expect_err("it would read for ever");
    assert_eq!(
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref(),
        Some("57P01"),
        "{error}"
    );
    shop.commit("k", "end").await;
    assert!(product.delivers("end", PATIENCE).await);
}

/// A sink in whose `send` the relay's lock is lost, as to another relay.
struct Robbed {
    pool: PgPool,
    name: String,
    published: Arc<Mutex<Vec<String>>>,
}

impl Sink for Robbed {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        self.published.lock().unwrap().extend(batch.events().iter().map(value_of));
        let end = "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_locks WHERE locktype = 'advisory' \
            AND classid = 1819505783 AND objid = hashtext($1)::oid \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let ended: i64 = sqlx::query_scalar(end).bind(&self.name).fetch_one(&self.pool).await.unwrap();
        assert_eq!(ended, 1);
        batch.published();
    }

    fn abandon(&self) {}
}

pub(crate) async fn relay_that_lost_its_lock_moves_no_slot(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    shop.commit("k", "1").await;
    let published = Arc::new(Mutex::new(Vec::new()));
    let robbed = Robbed { pool: shop.pool().clone(), name: shop.name.clone(), published: published.clone() };
    let shutdown = CancellationToken::new();
    let relay = shop.outbox.relay(shop.pool(), robbed).lease(LEASE).build().unwrap();
    let running = tokio::spawn(relay.run(shutdown.clone()));
    // It claims again, and publishes again: so the note of the first time is over.
    let again = tokio::time::timeout(PATIENCE, async {
        while published.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    again.await.expect("it claims again");
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let next = shop.product();
    assert!(next.delivers("1", PATIENCE).await, "what was published without the lock is not noted");
}

pub(crate) async fn position_that_was_passed_is_no_error(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    shop.commit("k", "1").await;
    // Somebody moves the slot while the event is published.
    let moved = Moved(shop.pool().clone(), shop.name.clone());
    let relay = shop.outbox.relay(shop.pool(), moved).build().unwrap();
    let (stats, shutdown) = (relay.stats(), CancellationToken::new());
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let noted = tokio::time::timeout(PATIENCE, async {
        while stats.published() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    noted.await.expect("it is noted");
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().published, 1);
}

struct Moved(PgPool, String);

impl Sink for Moved {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        let advance = "SELECT pg_replication_slot_advance($1::text::name, pg_current_wal_lsn())::text";
        // The relay may be reading on meanwhile, and one session at a time has a slot.
        let is_in_use = |error: &sqlx::Error| {
            error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("55006"))
        };
        while let Err(error) = sqlx::query(advance).bind(&self.1).execute(&self.0).await {
            assert!(is_in_use(&error), "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        batch.published();
    }

    fn abandon(&self) {}
}
