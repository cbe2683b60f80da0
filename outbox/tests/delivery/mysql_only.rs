//! The guarantees of the outbox on MariaDB and MySQL, where many write at a time and no function tells what a snapshot sees.

use std::time::Duration;

use leastlock_core::Dialect;
use leastlock_outbox::{Event, MemorySink, Outbox, Relay};
use leastlock_testkit::TestDatabase;
use sqlx::{Connection, MySql, MySqlPool};
use tokio_util::sync::CancellationToken;

use crate::mysql_doubles::{by_event_id, by_id_cursor, by_locking_read, close_gate, delete_range, gated, open_gate};
use crate::readers::{PATIENCE, Reading, append, commit, tables, until_it_counts};

/// How long a delivery that a double withholds is waited for; only the double's proof depends on it.
const DOUBLES_CHANCE: Duration = Duration::from_secs(1);

const WAITS_AT_THE_GATE: &str =
    "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User lock'";

pub(crate) async fn b1_lower_id_that_commits_later_is_delivered_from_a_log_that_is_deleted(
    database: TestDatabase<MySql>,
) {
    let (database, outbox) = tables(database).await;
    let double = by_id_cursor(&database.pool);
    let mut late = database.pool.begin().await.unwrap();
    append(&outbox, &mut late, "k", "low").await;
    commit(&outbox, &database.pool, "k", "high").await;
    // The double first: the product deletes what it has published.
    assert!(double.delivers("high", PATIENCE).await);
    let product = Reading::product(&database.pool);
    assert!(product.delivers("high", PATIENCE).await);
    left_in_the_log(&database, 0).await;
    late.commit().await.unwrap();
    assert!(product.delivers("low", PATIENCE).await);
    assert!(!double.delivers("low", DOUBLES_CHANCE).await, "the double must be seen to lose it");
}

pub(crate) async fn b2_open_writer_elsewhere_stalls_no_plain_read(database: TestDatabase<MySql>) {
    let (database, outbox) = tables(database).await;
    let mut open = database.pool.begin().await.unwrap();
    append(&outbox, &mut open, "other", "held").await;
    commit(&outbox, &database.pool, "k", "free").await;
    let double = by_locking_read(&database.pool);
    assert!(!double.delivers("free", DOUBLES_CHANCE).await, "the double must be seen to stall");
    let product = Reading::product(&database.pool);
    assert!(product.delivers("free", PATIENCE).await, "while the other transaction is open");
    open.commit().await.unwrap();
    assert!(product.delivers("held", PATIENCE).await);
}

pub(crate) async fn b3_events_of_a_key_leave_in_the_order_of_its_lock(database: TestDatabase<MySql>) {
    let (database, outbox) = tables(database).await;
    database.execute("CREATE TABLE item (code VARBINARY(20) PRIMARY KEY, moves BIGINT NOT NULL)").await;
    database.execute("INSERT INTO item VALUES ('k', 0)").await;
    let lock = "UPDATE item SET moves = moves + 1 WHERE code = 'k'";
    // The older transaction makes its event first, and takes the key's lock last.
    let mut older = database.pool.begin().await.unwrap();
    let second = Event::new("moves", "k").bytes("second");
    let mut younger = database.pool.begin().await.unwrap();
    sqlx::query(lock).execute(&mut *younger).await.unwrap();
    append(&outbox, &mut younger, "k", "first").await;
    younger.commit().await.unwrap();
    sqlx::query(lock).execute(&mut *older).await.unwrap();
    outbox.append(&mut older, second).await.unwrap();
    older.commit().await.unwrap();
    // Both are in one page: only the order inside it tells them apart. The double first, since the product deletes.
    for (start, order) in [
        (by_event_id as fn(&MySqlPool) -> Reading, ["second", "first"]),
        (Reading::product::<MySql>, ["first", "second"]),
    ] {
        let reading = start(&database.pool);
        assert!(reading.comes_to(PATIENCE, |values| values.len() == 2).await);
        assert_eq!(reading.values(), order);
    }
}

pub(crate) async fn b14_rows_that_a_trigger_hides_are_delivered_when_they_commit(database: TestDatabase<MySql>) {
    let (database, outbox) = tables(database).await;
    // One statement draws the ids of all its rows at the first, and the trigger waits at the second.
    let trigger = gated("slow", "BEFORE INSERT", "NEW.value = 'slow'");
    sqlx::raw_sql(trigger).execute(&database.pool).await.unwrap();
    let mut gate = database.pool.acquire().await.unwrap();
    close_gate(&mut gate).await;
    let hidden = tokio::spawn({
        let (outbox, pool) = (outbox.clone(), database.pool.clone());
        async move {
            let mut tx = pool.begin().await.unwrap();
            let events = [Event::new("moves", "k").bytes("early"), Event::new("moves", "k").bytes("slow")];
            outbox.append_all(&mut tx, &events).await.unwrap();
            tx.commit().await.unwrap();
        }
    });
    until_it_counts(&database, WAITS_AT_THE_GATE, 1).await;
    commit(&outbox, &database.pool, "k", "later").await;
    let double = by_id_cursor(&database.pool);
    assert!(double.delivers("later", PATIENCE).await);
    let product = Reading::product(&database.pool);
    assert!(product.delivers("later", PATIENCE).await);
    open_gate(&mut gate).await;
    hidden.await.unwrap();
    assert!(product.delivers("slow", PATIENCE).await);
    assert_eq!(product.values(), ["later", "early", "slow"]);
    assert!(!double.delivers("slow", DOUBLES_CHANCE).await, "the double must be seen to lose it");
}

/// Whether appends to every shard commit while a deletion of events is held up in the middle of its transaction.
async fn appends_go_on<D, F>(delete: D) -> bool
where
    D: FnOnce(MySqlPool) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let (database, outbox) = tables(TestDatabase::<MySql>::create().await).await;
    for number in 0..40 {
        commit(&outbox, &database.pool, &format!("k{number}"), "old").await;
    }
    // Late in the transaction: what is in the other shards is deleted by then.
    let last = database.int("SELECT max(shard) FROM leastlock_outbox").await;
    let trigger = gated("slow", "AFTER DELETE", &format!("OLD.shard = {last} AND @leastlock_noted IS NOT NULL"));
    sqlx::raw_sql(trigger).execute(&database.pool).await.unwrap();
    let mut gate = database.pool.acquire().await.unwrap();
    close_gate(&mut gate).await;
    let deleting = tokio::spawn(delete(database.pool.clone()));
    until_it_counts(&database, WAITS_AT_THE_GATE, 1).await;
    let mut impatient = database.pool.acquire().await.unwrap();
    sqlx::query("SET innodb_lock_wait_timeout = 1").execute(&mut *impatient).await.unwrap();
    let mut all = true;
    for number in 0..40 {
        let mut tx = impatient.begin_with(MySql::BEGIN_WRITE).await.unwrap();
        let event = Event::new("moves", format!("k{number}")).bytes("new");
        let appended = outbox.append(&mut tx, event).await;
        all &= appended.is_ok();
        if appended.is_err() {
            break;
        }
        tx.commit().await.unwrap();
    }
    open_gate(&mut gate).await;
    deleting.await.unwrap();
    all
}

pub(crate) async fn appends_never_wait_for_a_relay_that_deletes(_database: TestDatabase<MySql>) {
    let relay_until_all_is_gone = |pool: MySqlPool| async move {
        let relay = Relay::builder(&pool, MemorySink::default()).build().unwrap();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(relay.run(shutdown.clone()));
        let old = "SELECT count(*) FROM leastlock_outbox WHERE value = 'old'";
        let gone = async {
            while sqlx::query_scalar::<_, i64>(old).fetch_one(&pool).await.unwrap() > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("the relay deletes what it has published");
        shutdown.cancel();
        running.await.unwrap().unwrap();
    };
    assert!(appends_go_on(relay_until_all_is_gone).await);

    let range = |pool: MySqlPool| async move {
        let mut connection = pool.acquire().await.unwrap();
        delete_range(&mut connection, 40).await.unwrap();
    };
    assert!(!appends_go_on(range).await, "the double must be seen to hold appends up");
}

pub(crate) async fn relay_that_deletes_never_waits_for_an_append(database: TestDatabase<MySql>) {
    let (database, outbox) = tables(database).await;
    let mut open = database.pool.begin().await.unwrap();
    // An open row below, between and above those that are deleted, in every shard.
    for round in 0..3 {
        for number in 0..40 {
            append(&outbox, &mut open, &format!("k{number}"), "held").await;
            commit(&outbox, &database.pool, &format!("k{number}"), &format!("{round}")).await;
        }
    }
    for number in 0..40 {
        append(&outbox, &mut open, &format!("k{number}"), "held").await;
    }
    let mut impatient = database.pool.acquire().await.unwrap();
    sqlx::query("SET innodb_lock_wait_timeout = 1").execute(&mut *impatient).await.unwrap();
    let range = delete_range(&mut impatient, i64::MAX).await;
    assert!(range.is_err(), "the double must be seen to wait");
    drop(impatient);

    let product = Reading::product(&database.pool);
    assert!(product.comes_to(PATIENCE, |values| values.len() == 120).await);
    left_in_the_log(&database, 0).await;
    open.commit().await.unwrap();
    assert!(product.comes_to(PATIENCE, |values| values.len() == 280).await);
    left_in_the_log(&database, 0).await;
}

pub(crate) async fn events_of_repeatable_read_transactions_leave_in_order(database: TestDatabase<MySql>) {
    let (database, outbox) = tables(database).await;
    database.execute("CREATE TABLE item (code VARBINARY(20) PRIMARY KEY, moves BIGINT NOT NULL)").await;
    database.execute("INSERT INTO item VALUES ('k', 0)").await;
    let product = Reading::product(&database.pool);
    let writers = (0..4).map(|_| tokio::spawn(write_at_repeatable_read(outbox.clone(), database.pool.clone())));
    let writers: Vec<_> = writers.collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let expected: Vec<String> = (1..=100).map(|number| number.to_string()).collect();
    assert!(product.comes_to(PATIENCE, |values| values.len() >= expected.len()).await);
    assert_eq!(product.values(), expected);
}

async fn write_at_repeatable_read(outbox: Outbox, pool: MySqlPool) {
    for _ in 0..25 {
        let mut tx = pool.begin_with("START TRANSACTION WITH CONSISTENT SNAPSHOT").await.unwrap();
        let lock = "SELECT moves FROM item WHERE code = 'k' FOR UPDATE";
        let moves: i64 = sqlx::query_scalar(lock).fetch_one(&mut *tx).await.unwrap();
        append(&outbox, &mut tx, "k", &(moves + 1).to_string()).await;
        sqlx::query("UPDATE item SET moves = moves + 1 WHERE code = 'k'").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
    }
}

pub(crate) async fn keys_and_topics_are_bytes(database: TestDatabase<MySql>) {
    let (database, outbox) = tables(database).await;
    let long = vec![0xff_u8; 100_000];
    let keys: [&[u8]; 6] = [b"85123A", b"85123a", b"85123A ", b"85123A\0", "\u{e9}".as_bytes(), &long];
    let mut tx = database.pool.begin().await.unwrap();
    for topic in ["moves", "Moves"] {
        for key in keys {
            let event = Event::new(topic, key).bytes([0x00, 0xc3]).header("caf\u{e9}", "\u{1f980}");
            outbox.append(&mut tx, event).await.unwrap();
        }
    }
    tx.commit().await.unwrap();
    let sink = MemorySink::default();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Relay::builder(&database.pool, sink.clone()).build().unwrap().run(shutdown.clone()));
    let left = tokio::time::timeout(PATIENCE, sink.wait_for(12)).await.expect("all of them leave");
    shutdown.cancel();
    running.await.unwrap().unwrap();
    for topic in ["moves", "Moves"] {
        for key in keys {
            let of_key: Vec<_> =
                left.iter().filter(|event| event.topic == topic && event.key.as_deref() == Some(key)).collect();
            assert_eq!(of_key.len(), 1);
            assert_eq!(of_key[0].value.as_deref(), Some(&[0x00, 0xc3][..]));
            assert_eq!(of_key[0].headers.last("caf\u{e9}"), Some("\u{1f980}".as_bytes()));
        }
    }
}

pub(crate) async fn large_events_are_appended_and_read(database: TestDatabase<MySql>) {
    let (database, outbox) = tables(database).await;
    let packet = database.int("SELECT CAST(@@max_allowed_packet AS SIGNED)").await;
    let packet = usize::try_from(packet).unwrap();
    let outbox = outbox.max_event_bytes(packet * 2);
    // More in all than one message may be, and one that takes most of it.
    let mut events: Vec<_> = (0..20).map(|_| Event::new("moves", "k").bytes(vec![b'x'; packet / 16])).collect();
    events.push(Event::new("moves", "k").bytes(vec![b'y'; packet / 4 * 3]));
    let mut tx = database.pool.begin().await.unwrap();
    outbox.append_all(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    // What the server cannot take is an error, and nothing of its transaction is there.
    let mut tx = database.pool.begin().await.unwrap();
    append(&outbox, &mut tx, "k", "before").await;
    let too_large = outbox.append(&mut tx, Event::new("moves", "k").bytes(vec![b'z'; packet])).await;
    assert!(too_large.is_err());
    drop(tx);

    let sink = MemorySink::default();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(Relay::builder(&database.pool, sink.clone()).build().unwrap().run(shutdown.clone()));
    let left = tokio::time::timeout(PATIENCE, sink.wait_for(21)).await.expect("all of them leave");
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(left.len(), 21);
    assert!(left.iter().zip(&events).all(|(left, appended)| left.value.as_deref() == appended.value()));
    left_in_the_log(&database, 0).await;
}

async fn left_in_the_log(database: &TestDatabase<MySql>, rows: i64) {
    until_it_counts(database, "SELECT count(*) FROM leastlock_outbox", rows).await;
}
