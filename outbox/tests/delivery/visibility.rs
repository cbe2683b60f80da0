//! The guarantees of the outbox where many write at a time.

use leastlock_outbox::{Error, MemorySink, Relay};
use leastlock_testkit::TestDatabase;
use sqlx::Postgres;
use tokio_util::sync::CancellationToken;

use crate::doubles::{UNTIL_OTHERS_END, by_id_cursor, by_visible_horizon, by_xid_order};
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
    assert!(product.delivers("held", PATIENCE).await && double.delivers("free", UNTIL_OTHERS_END).await);
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
    for (reading, order) in
        [(Reading::product(&database.pool), ["first", "second"]), (by_xid_order(&database.pool), ["second", "first"])]
    {
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
    let trigger = "CREATE TRIGGER slow BEFORE INSERT ON leastlock_outbox FOR EACH ROW EXECUTE FUNCTION wait_for_lock()";
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
