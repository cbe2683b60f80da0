//! The guarantees of the outbox.

use std::sync::{Arc, Mutex};

use leastlock_core::Statement;
use leastlock_outbox::{Error, Event, LoggedEvent, OutboxSql, Relay, SendError, Sink};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Connection;
use tokio_util::sync::CancellationToken;

use crate::doubles;
use crate::readers::{PATIENCE, Reading, append, commit, tables};

#[cfg(feature = "postgres")]
pub(crate) use crate::random::b1_b2_b3_hold_under_random_transactions;
#[cfg(feature = "postgres")]
pub(crate) use postgres::*;

pub(crate) async fn b13_rolled_back_events_never_leave<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    append(&outbox, &mut tx, "k", "rolled back").await;
    tx.rollback().await.unwrap();

    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    append(&outbox, &mut tx, "k", "kept").await;
    let mut savepoint = tx.begin().await.unwrap();
    outbox.append(&mut savepoint, Event::new("moves", "k").bytes("in a lost savepoint")).await.unwrap();
    savepoint.rollback().await.unwrap();
    tx.commit().await.unwrap();
    commit(&outbox, &database.pool, "k", "marker").await;

    let reading = Reading::product(&database.pool);
    assert!(reading.delivers("marker", PATIENCE).await);
    assert_eq!(reading.values(), ["kept", "marker"]);

    // The double: an append beside the transaction outlives its rollback.
    doubles::append_beside(&outbox, &database.pool, "rolled back").await;
    assert!(reading.delivers("rolled back", PATIENCE).await, "the double's event must be seen to leave");
}

pub(crate) async fn pages_smaller_than_the_backlog_lose_and_double_nothing<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let mut expected = Vec::new();
    for number in 0..60 {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        for key in ["a", "b", "c"] {
            let value = format!("{key}{number:02}");
            append(&outbox, &mut tx, key, &value).await;
            expected.push(value);
        }
        tx.commit().await.unwrap();
    }
    // Pages of one event are the hardest: each is a window of its own.
    for page in [1, 7, 200] {
        database.execute("UPDATE leastlock_outbox_shard SET last_id = 0").await;
        if DB::SHARDED {
            database
                .execute("UPDATE leastlock_outbox_shard SET done = '1:1:', target = NULL, lease_until = NULL")
                .await;
        }
        let reading = Reading::relay(&database.pool, page);
        commit(&outbox, &database.pool, "d", &format!("marker{page}")).await;
        let marker = format!("marker{page}");
        assert!(reading.comes_to(PATIENCE, |values| values.len() > expected.len()).await, "page {page}");
        assert!(reading.delivers(&marker, PATIENCE).await);
        let values = reading.crash().await;
        for key in ["a", "b", "c"] {
            let of_key = |values: &[String]| -> Vec<String> {
                values.iter().filter(|value| value.starts_with(key)).cloned().collect()
            };
            assert_eq!(of_key(&values), of_key(&expected), "page {page}");
        }
        database.execute("UPDATE leastlock_outbox_shard SET lease_until = NULL, epoch = epoch + 1").await;
    }
}

pub(crate) async fn crashed_relay_is_followed_by_another_once_its_lease_is_over<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    commit(&outbox, &database.pool, "k", "1").await;
    let first = Reading::product(&database.pool);
    assert!(first.delivers("1", PATIENCE).await);
    let second = Reading::product(&database.pool);
    commit(&outbox, &database.pool, "k", "2").await;
    assert!(first.delivers("2", PATIENCE).await);
    assert_eq!(second.values(), Vec::<String>::new(), "a shard has one reader");
    first.crash().await;
    commit(&outbox, &database.pool, "k", "3").await;
    assert!(second.delivers("3", PATIENCE).await);
    assert!(!second.values().contains(&"1".to_owned()), "what was noted as published is not repeated");
}

pub(crate) async fn fenced_relay_moves_no_cursor<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    commit(&outbox, &database.pool, "k", "1").await;
    // Another relay takes the shards while this one's sink is at work.
    let stolen = TakenOver { pool: database.pool.clone(), published: Arc::default() };
    let published = stolen.published.clone();
    let relay = Relay::builder(&database.pool, stolen).build().unwrap();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let patience = tokio::time::timeout(PATIENCE, async {
        while published.lock().unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    patience.await.expect("the event reaches the sink");
    shutdown.cancel();
    let summary = running.await.unwrap().unwrap();
    // It published, but what it published is not noted as done: the new owner publishes it again.
    assert_eq!(summary.published, 1);
    let moved = if DB::SHARDED {
        "SELECT count(*) FROM leastlock_outbox_shard WHERE done::text <> '1:1:' OR last_id <> 0"
    } else {
        "SELECT count(*) FROM leastlock_outbox_shard WHERE last_id <> 0"
    };
    assert_eq!(database.int(moved).await, 0);
}

/// A sink in whose `publish` another relay takes every shard over.
struct TakenOver<DB: TestEngine> {
    pool: sqlx::Pool<DB>,
    published: Arc<Mutex<Vec<LoggedEvent>>>,
}

impl<DB: TestEngine> Sink for TakenOver<DB> {
    async fn publish(&self, events: &[LoggedEvent]) -> Vec<Result<(), SendError>> {
        let mut connection = self.pool.acquire().await.unwrap();
        let take = "UPDATE leastlock_outbox_shard SET owner = 'another', epoch = epoch + 1";
        Statement::new(take).execute::<DB>(&mut connection).await.unwrap();
        self.published.lock().unwrap().extend_from_slice(events);
        events.iter().map(|_| Ok(())).collect()
    }

    fn abandon(&self) {}
}

/// A sink that refuses the value `bad` for good.
#[derive(Clone, Default)]
struct Refusing(Arc<Mutex<Vec<String>>>);

impl Sink for Refusing {
    async fn publish(&self, events: &[LoggedEvent]) -> Vec<Result<(), SendError>> {
        let mut refused = false;
        let mut publish = |event: &LoggedEvent| {
            let value = String::from_utf8(event.value.clone().unwrap()).unwrap();
            refused |= value == "bad";
            if refused {
                return Err(SendError::Permanent { reason: "it is bad".into() });
            }
            self.0.lock().unwrap().push(value);
            Ok(())
        };
        events.iter().map(&mut publish).collect()
    }

    fn abandon(&self) {}
}

pub(crate) async fn refused_event_stops_the_relay_before_it<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    for value in ["1", "2", "bad", "4"] {
        commit(&outbox, &database.pool, "k", value).await;
    }
    let sink = Refusing::default();
    let run = || Relay::builder(&database.pool, sink.clone()).build().unwrap().run(CancellationToken::new());
    assert!(matches!(run().await, Err(Error::Refused { .. })));
    // Started again it goes on at the refused event: the prefix was noted, and the shards were given back.
    assert!(matches!(run().await, Err(Error::Refused { .. })));
    assert_eq!(*sink.0.lock().unwrap(), ["1", "2"]);
}

pub(crate) async fn event_over_the_limit_is_refused_before_any_sql<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let outbox = outbox.max_event_bytes(10);
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    let large = outbox.append(&mut tx, Event::new("moves", "k").bytes([0; 10])).await;
    assert!(matches!(large, Err(Error::EventTooLarge { bytes: 11, limit: 10 })), "{large:?}");
    let nowhere = outbox.append(&mut tx, Event::new("stock moves", "k")).await;
    assert!(matches!(nowhere, Err(Error::Topic { .. })), "{nowhere:?}");
    append(&outbox, &mut tx, "k", "fits").await;
    tx.commit().await.unwrap();
}

#[cfg(feature = "postgres")]
mod postgres {
    use leastlock_outbox::{Error, MemorySink, Relay};
    use leastlock_testkit::TestDatabase;
    use sqlx::Postgres;
    use tokio_util::sync::CancellationToken;

    use crate::doubles::{by_id_cursor, by_visible_horizon, by_xid_order};
    use crate::readers::{PATIENCE, Reading, append, commit, tables};

    /// How long a delivery that a double withholds is waited for; only the double's proof depends on it.
    const DOUBLES_CHANCE: std::time::Duration = std::time::Duration::from_secs(1);

    pub(crate) async fn b1_lower_id_that_commits_later_is_delivered(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        let (product, double) = (Reading::product(&database.pool), by_id_cursor(&database.pool));
        let mut late = database.pool.begin().await.unwrap();
        append(&outbox, &mut late, "k", "low").await;
        commit(&outbox, &database.pool, "k", "high").await;
        assert!(product.delivers("high", PATIENCE).await && double.delivers("high", PATIENCE).await);
        late.commit().await.unwrap();
        assert!(product.delivers("low", PATIENCE).await);
        assert!(!double.delivers("low", DOUBLES_CHANCE).await, "the double must be seen to lose it");
    }

    pub(crate) async fn b2_open_writer_elsewhere_stalls_nothing(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        let (product, double) = (Reading::product(&database.pool), by_visible_horizon(&database.pool));
        let mut open = database.pool.begin().await.unwrap();
        append(&outbox, &mut open, "other", "held").await;
        commit(&outbox, &database.pool, "k", "free").await;
        assert!(product.delivers("free", PATIENCE).await, "while the other transaction is open");
        assert!(!double.delivers("free", DOUBLES_CHANCE).await, "the double must be seen to stall");
        open.commit().await.unwrap();
        assert!(product.delivers("held", PATIENCE).await && double.delivers("free", PATIENCE).await);
    }

    pub(crate) async fn b3_events_of_a_key_leave_in_commit_order_whatever_their_xid(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        database.execute("CREATE TABLE item (key text PRIMARY KEY, moves bigint NOT NULL)").await;
        database.execute("INSERT INTO item VALUES ('k', 0)").await;
        let lock = "UPDATE item SET moves = moves + 1 WHERE key = 'k'";
        // The older transaction has its id first and takes the key's lock last.
        let mut older = database.pool.begin().await.unwrap();
        sqlx::query("SELECT pg_current_xact_id()::text").execute(&mut *older).await.unwrap();
        let mut younger = database.pool.begin().await.unwrap();
        sqlx::query(lock).execute(&mut *younger).await.unwrap();
        append(&outbox, &mut younger, "k", "first").await;
        younger.commit().await.unwrap();
        sqlx::query(lock).execute(&mut *older).await.unwrap();
        append(&outbox, &mut older, "k", "second").await;
        older.commit().await.unwrap();
        // Both are in one window: only the order inside it tells them apart.
        for (reading, order) in [
            (Reading::product(&database.pool), ["first", "second"]),
            (by_xid_order(&database.pool), ["second", "first"]),
        ] {
            assert!(reading.comes_to(PATIENCE, |values| values.len() == 2).await);
            assert_eq!(reading.values(), order);
        }
    }

    pub(crate) async fn b14_row_that_a_trigger_hides_is_delivered_when_it_commits(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        // The row's id is drawn before the trigger runs, and the trigger waits.
        let function = "CREATE FUNCTION wait_for_lock() RETURNS trigger LANGUAGE plpgsql AS \
            $$ BEGIN IF NEW.value = 'slow' THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN NEW; END $$";
        database.execute(function).await;
        let trigger =
            "CREATE TRIGGER slow BEFORE INSERT ON leastlock_outbox FOR EACH ROW EXECUTE FUNCTION wait_for_lock()";
        database.execute(trigger).await;
        let (product, double) = (Reading::product(&database.pool), by_id_cursor(&database.pool));
        let mut gate = database.pool.begin().await.unwrap();
        sqlx::query("SELECT pg_advisory_xact_lock(7)").execute(&mut *gate).await.unwrap();
        let slow = tokio::spawn({
            let (outbox, pool) = (outbox.clone(), database.pool.clone());
            async move { commit(&outbox, &pool, "k", "slow").await }
        });
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let patience = tokio::time::timeout(PATIENCE, async {
            while database.int(waiting).await == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        patience.await.expect("the insert waits in its trigger");
        commit(&outbox, &database.pool, "k", "later").await;
        assert!(product.delivers("later", PATIENCE).await && double.delivers("later", PATIENCE).await);
        gate.rollback().await.unwrap();
        slow.await.unwrap();
        assert!(product.delivers("slow", PATIENCE).await);
        assert!(!double.delivers("slow", DOUBLES_CHANCE).await, "the double must be seen to lose it");
    }

    pub(crate) async fn cursor_ahead_of_the_database_stops_with_an_error(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        commit(&outbox, &database.pool, "k", "1").await;
        let ahead = "UPDATE leastlock_outbox_shard SET done = '4000000000000:4000000000000:'";
        database.execute(ahead).await;
        let relay = Relay::builder(&database.pool, MemorySink::default()).build().unwrap();
        let stopped = relay.run(CancellationToken::new()).await;
        assert!(matches!(stopped, Err(Error::CursorAhead { .. })), "{stopped:?}");
    }
}
