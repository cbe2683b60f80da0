//! Strict mode.

use leastlock_core::{ErrorClass, Statement};
use leastlock_outbox::{Error, Event, Outbox, OutboxSql};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Connection, Transaction};

use crate::doubles::{AsTheyCome, Locking, NoLock, Strict};
use crate::leaving::{PATIENCE, begin, leaving, tables, until_one_waits, values};

async fn run<DB: TestEngine>(tx: &mut Transaction<'_, DB>, sql: &'static str) -> Result<u64, sqlx::Error> {
    Statement::new(sql).execute::<DB>(tx).await
}

const LOCK_ITEM: &str = "UPDATE item SET moves = moves + 1 WHERE code = 'k'";

async fn item<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("CREATE TABLE item (code varchar(10) PRIMARY KEY, moves bigint NOT NULL)").await;
    database.execute("INSERT INTO item VALUES ('k', 0)").await;
}

/// Locks the item, and answers the how-manieth to do so: that is the order of the commits.
async fn lock_item<DB: TestEngine>(tx: &mut Transaction<'_, DB>) -> i64 {
    run::<DB>(tx, LOCK_ITEM).await.expect("the item's lock");
    let moves = Statement::new("SELECT moves FROM item").fetch_one::<DB>(tx).await.expect("the item");
    moves.int(0).expect("a number")
}

/// Both writers append before they lock the item, and the first to append goes on once the second has gone as far as it can.
/// Answers the order of the commits, and the order in which the events leave.
async fn two_who_append_before_they_lock<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    how: impl Locking,
) -> (Vec<&'static str>, Vec<String>) {
    let (database, outbox) = tables(database).await;
    item(&database).await;
    let outbox = how.of(outbox);
    let mut first = begin(&database).await;
    outbox.append(&mut first, Event::new("t", "k").bytes("first")).await.expect("it is appended");
    let second = tokio::spawn({
        let (outbox, mut tx) = (outbox.clone(), begin(&database).await);
        async move {
            outbox.append(&mut tx, Event::new("t", "k").bytes("second")).await.expect("it is appended");
            let place = lock_item(&mut tx).await;
            tx.commit().await.expect("the commit");
            place
        }
    });
    until_one_waits(&database, || second.is_finished()).await;
    let place = lock_item(&mut first).await;
    first.commit().await.expect("the commit");
    let mut committed = [(place, "first"), (second.await.expect("no panic"), "second")];
    committed.sort_unstable();
    let left = leaving(&database, 2).await;
    (committed.map(|(_, name)| name).into(), values(&left).into_iter().map(str::to_owned).collect())
}

pub(crate) async fn b12_event_appended_before_the_lock_keeps_its_place_in_strict_mode<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (committed, left) = two_who_append_before_they_lock(database, Strict).await;
    assert_eq!((&committed[..], &left[..]), (&["first", "second"][..], &["first".to_owned(), "second".to_owned()][..]));

    // The double is the default mode, used as its docs say that it must not be.
    let (committed, left) = two_who_append_before_they_lock(TestDatabase::<DB>::create().await, NoLock).await;
    assert_eq!(committed, ["second", "first"]);
    assert_eq!(left, ["first", "second"], "the double must be seen to invert the key");
}

/// One locks the item and appends, the other appends and locks the item.
pub(crate) async fn writers_that_lock_in_other_orders_end_in_a_retryable_error<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    item(&database).await;
    let outbox = outbox.strict();
    let (mut one, mut other) = (begin(&database).await, begin(&database).await);
    outbox.append(&mut one, Event::new("t", "k").bytes("one")).await.expect("it is appended");
    run::<DB>(&mut other, LOCK_ITEM).await.expect("the item's lock");
    let one = async move {
        run::<DB>(&mut one, LOCK_ITEM).await.map_err(|error| leastlock_core::classify::<DB>(&error))?;
        one.commit().await.expect("the commit");
        Ok("one")
    };
    let other = async {
        match outbox.append(&mut other, Event::new("t", "k").bytes("other")).await {
            Ok(_) => {
                other.commit().await.expect("the commit");
                Ok("other")
            }
            Err(error) => {
                assert!(error.is_retryable(), "{error:?}");
                let Error::Database { class, .. } = error else { panic!("{error:?}") };
                // Ends it, so that the other goes on.
                other.rollback().await.expect("the rollback");
                Err(class)
            }
        }
    };
    let (one, other): (Result<_, ErrorClass>, Result<_, ErrorClass>) =
        tokio::time::timeout(PATIENCE, async { tokio::join!(one, other) }).await.expect("the deadlock is broken");
    let kept = match (one, other) {
        (Ok(kept), Err(ErrorClass::Deadlock)) | (Err(ErrorClass::Deadlock), Ok(kept)) => kept,
        ends => panic!("one of them must be ended by the deadlock: {ends:?}"),
    };
    assert_eq!(values(&leaving(&database, 1).await), [kept]);
}

/// Batches over the same keys, in orders that are turned round; answers how many of them a deadlock ended.
async fn deadlocks<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>, how: impl Locking, rounds: usize) -> usize {
    const WRITERS: usize = 4;

    let (database, outbox) = tables(database).await;
    let outbox = how.of(outbox);
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(WRITERS));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (outbox, pool, barrier) = (outbox.clone(), database.pool.clone(), barrier.clone());
            tokio::spawn(async move {
                let mut ended = 0;
                for _ in 0..rounds {
                    barrier.wait().await;
                    let mut events: Vec<_> = (0..12).map(|key| Event::new("t", format!("k{key}")).bytes("v")).collect();
                    if writer % 2 == 0 {
                        events.reverse();
                    }
                    let mut tx = leastlock_core::begin(&pool).await.expect("a transaction");
                    match how.append::<DB>(&outbox, &mut tx, &events).await {
                        Ok(()) => tx.commit().await.expect("the commit"),
                        Err(Error::Database { class: ErrorClass::Deadlock, .. }) => {
                            ended += 1;
                            tx.rollback().await.expect("the rollback");
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                }
                ended
            })
        })
        .collect();
    let mut ended = 0;
    for writer in writers {
        ended += tokio::time::timeout(4 * PATIENCE, writer).await.expect("it ends").expect("no panic");
    }
    ended
}

pub(crate) async fn batches_over_the_same_keys_do_not_deadlock<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    assert_eq!(deadlocks(database, Strict, 40).await, 0);
    assert!(
        deadlocks(TestDatabase::<DB>::create().await, AsTheyCome, 3).await > 0,
        "the double must be seen to deadlock"
    );
}

pub(crate) async fn strict_mode_locks_a_bounded_number_of_keys<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    let events = |keys: usize| -> Vec<_> {
        (0..3_000).map(|number| Event::new("t", format!("k{}", number % keys)).bytes(number.to_string())).collect()
    };
    let mut tx = begin(&database).await;
    let refused = outbox.clone().strict().append_all(&mut tx, &events(1_001)).await;
    assert!(matches!(refused, Err(Error::TooManyKeys { keys: 1_001, limit: 1_000 })), "{refused:?}");
    // Nothing has run, so the transaction is usable; events without a key take no lock.
    let without_key: Vec<_> = (0..1_001).map(|_| Event::without_key("t").bytes("v")).collect();
    let strict = outbox.strict();
    strict.append_all(&mut tx, &events(1_000)).await.expect("they are appended");
    strict.append_all(&mut tx, &without_key).await.expect("they are appended");
    tx.commit().await.expect("the commit");
    assert_eq!(database.int("SELECT count(*) FROM leastlock_outbox").await, 4_001);
}

/// Whether another writer of the key gets through while `tx` is open.
async fn is_free<DB: TestEngine + OutboxSql>(database: &TestDatabase<DB>, outbox: &Outbox) -> bool {
    let mut tx = begin(database).await;
    let bound = leastlock_testkit::database::sql::<DB>(
        "SET LOCAL lock_timeout = '1s'",
        "SET SESSION innodb_lock_wait_timeout = 1",
    );
    run::<DB>(&mut tx, bound).await.expect("the bound on the wait");
    match outbox.append(&mut tx, Event::new("t", "k").bytes("other")).await {
        Ok(_) => true,
        Err(Error::Database { class: ErrorClass::LockTimeout, .. }) => false,
        Err(error) => panic!("{error:?}"),
    }
}

pub(crate) async fn locks_of_a_savepoint_go_with_it<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    let outbox = outbox.strict();
    let mut tx = begin(&database).await;
    let mut savepoint = tx.begin().await.expect("a savepoint");
    outbox.append(&mut savepoint, Event::new("t", "k").bytes("lost")).await.expect("it is appended");
    assert!(!is_free(&database, &outbox).await, "while the savepoint is there");
    savepoint.rollback().await.expect("the savepoint's rollback");
    // InnoDB keeps a savepoint's row locks, which costs time, never order.
    if DB::ENGINE == leastlock_core::Engine::Postgres {
        assert!(is_free(&database, &outbox).await, "once the savepoint is gone");
    }
    tx.rollback().await.expect("the rollback");
    assert!(is_free(&database, &outbox).await, "once the transaction is gone");
}
