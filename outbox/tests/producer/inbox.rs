//! The inbox.

use std::time::Duration;

use leastlock_core::Engine;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use leastlock_core::Statement;
use leastlock_outbox::{Arrival, ConsumerName, EventId, Inbox, InboxSql, MIGRATIONS};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;

use crate::doubles::{Beside, LooksFirst, Marks, Product};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::leaving::until_waiting;
use crate::leaving::{PATIENCE, begin, until_one_waits};

fn ledger() -> ConsumerName {
    ConsumerName::new("ledger").expect("a name")
}

async fn mark<DB: InboxSql>(tx: &mut Transaction<'_, DB>, event_id: EventId) -> Arrival {
    Inbox::default().first_time(tx, &ledger(), event_id).await.expect("an answer")
}

async fn effect<DB: TestEngine>(tx: &mut Transaction<'_, DB>) {
    DB::run_query(tx, sqlx::query("UPDATE effect SET times = times + 1")).await.expect("the effect");
}

async fn tables<DB: TestEngine>(database: TestDatabase<DB>) -> TestDatabase<DB> {
    let database = database.with(&MIGRATIONS).await;
    database.execute("CREATE TABLE effect (times bigint NOT NULL)").await;
    database.execute("INSERT INTO effect VALUES (0)").await;
    database
}

/// Three deliveries of an event; the handler of the first fails. Answers how often it had its effect.
async fn effects_of_a_failure_and_two_repeats<DB: TestEngine + InboxSql>(
    database: TestDatabase<DB>,
    how: impl Marks,
) -> i64 {
    let (database, event_id) = (tables(database).await, EventId::new());
    for fails in [true, false, false] {
        let told = how.before(&database.pool, &ledger(), event_id).await;
        let mut tx = begin(&database).await;
        if how.inside(&mut tx, &ledger(), event_id, told).await == Arrival::FirstTime {
            effect(&mut tx).await;
        }
        if fails { tx.rollback().await } else { tx.commit().await }.expect("the end");
    }
    database.int("SELECT times FROM effect").await
}

pub(crate) async fn b16_event_whose_handler_failed_is_handled_when_it_comes_again<DB: TestEngine + InboxSql>(
    database: TestDatabase<DB>,
) {
    assert_eq!(effects_of_a_failure_and_two_repeats(database, Product).await, 1);
    let lost = effects_of_a_failure_and_two_repeats(TestDatabase::<DB>::create().await, Beside).await;
    assert_eq!(lost, 0, "the double must be seen to lose it");
}

/// Two consumers at one event at once, of which the first ends as `commits` says; answers what each was told, and how often the event
/// had its effect. In a database of their own: MariaDB shows waits that are over for a while.
async fn two_at_once<DB: TestEngine + InboxSql>(how: impl Marks, commits: bool) -> (Arrival, Arrival, i64) {
    let (database, event_id) = (tables(TestDatabase::<DB>::create().await).await, EventId::new());
    let mut tx = begin(&database).await;
    let first = how.inside(&mut tx, &ledger(), event_id, None).await;
    effect(&mut tx).await;
    let second = tokio::spawn({
        let pool = database.pool.clone();
        async move {
            let mut tx = leastlock_core::begin(&pool).await.expect("a transaction");
            let arrival = how.inside(&mut tx, &ledger(), event_id, None).await;
            if arrival == Arrival::FirstTime {
                effect(&mut tx).await;
            }
            tx.commit().await.expect("the commit");
            arrival
        }
    });
    // On SQLite the second has not begun: it waits for the file.
    if DB::ENGINE != Engine::Sqlite {
        until_one_waits(&database, || second.is_finished()).await;
    }
    assert!(!second.is_finished(), "it waits for the first");
    if commits { tx.commit().await } else { tx.rollback().await }.expect("the end");
    let second = tokio::time::timeout(PATIENCE, second).await.expect("it goes on").expect("no panic");
    (first, second, database.int("SELECT times FROM effect").await)
}

pub(crate) async fn b16_of_two_consumers_at_one_event_one_handles_it<DB: TestEngine + InboxSql>(_: TestDatabase<DB>) {
    use Arrival::{FirstTime, Repeat};

    assert_eq!(two_at_once::<DB>(Product, true).await, (FirstTime, Repeat, 1));
    assert_eq!(two_at_once::<DB>(Product, false).await, (FirstTime, FirstTime, 1));
    // SQLite has one writer at a time, so there the double's look is as good as a lock.
    if DB::ENGINE != Engine::Sqlite {
        let told = two_at_once::<DB>(LooksFirst, true).await;
        assert_eq!(told, (FirstTime, FirstTime, 2), "the double must be seen to handle it twice");
    }
}

pub(crate) async fn consumers_know_nothing_of_each_other<DB: TestEngine + InboxSql>(database: TestDatabase<DB>) {
    let (database, event_id) = (tables(database).await, EventId::new());
    for (name, expected) in [
        ("ledger", Arrival::FirstTime),
        ("Ledger", Arrival::FirstTime),
        ("ledger ", Arrival::FirstTime),
        ("ledger", Arrival::Repeat),
    ] {
        let mut tx = begin(&database).await;
        let consumer = ConsumerName::new(name).expect("a name");
        let arrival = Inbox::default().first_time(&mut tx, &consumer, event_id).await.expect("an answer");
        assert_eq!(arrival, expected, "{name:?}");
        // Again in the same transaction.
        let again = Inbox::default().first_time(&mut tx, &consumer, event_id).await.expect("an answer");
        assert_eq!(again, Arrival::Repeat);
        tx.commit().await.expect("the commit");
    }
    for name in ["", "a\0b", &"n".repeat(256)] {
        assert!(ConsumerName::new(name).is_err());
    }
}

pub(crate) async fn sweep_deletes_old_marks_only_in_batches<DB: TestEngine + InboxSql>(database: TestDatabase<DB>) {
    let database = tables(database).await;
    let (old, new): (Vec<_>, Vec<_>) =
        ((0..25).map(|_| EventId::new()).collect(), (0..3).map(|_| EventId::new()).collect());
    let mut tx = begin(&database).await;
    for event_id in &old {
        assert_eq!(mark(&mut tx, *event_id).await, Arrival::FirstTime);
    }
    tx.commit().await.expect("the commit");
    let age = match DB::ENGINE {
        Engine::Sqlite => "UPDATE leastlock_inbox SET seen_at = seen_at - 60 * 60 * 1000",
        _ => sql::<DB>(
            "UPDATE leastlock_inbox SET seen_at = seen_at - interval '1 hour'",
            "UPDATE leastlock_inbox SET seen_at = seen_at - INTERVAL 1 HOUR",
        ),
    };
    database.execute(age).await;
    let mut tx = begin(&database).await;
    for event_id in &new {
        assert_eq!(mark(&mut tx, *event_id).await, Arrival::FirstTime);
    }
    tx.commit().await.expect("the commit");

    let long = Inbox::default().retention(Duration::from_hours(2)).expect("within bounds");
    assert_eq!(long.sweep(&database.pool, 100).await.expect("an answer"), 0);
    let short = Inbox::default().retention(Duration::from_mins(30)).expect("within bounds");
    let mut deleted = Vec::new();
    while deleted.last() != Some(&0) {
        deleted.push(short.sweep(&database.pool, 10).await.expect("an answer"));
    }
    assert_eq!(deleted, [10, 10, 5, 0]);
    assert_eq!(database.int("SELECT count(*) FROM leastlock_inbox").await, 3);
    let mut tx = begin(&database).await;
    assert_eq!(mark(&mut tx, new[0]).await, Arrival::Repeat);
    assert_eq!(mark(&mut tx, old[0]).await, Arrival::FirstTime, "a mark that is gone makes a first");
    tx.rollback().await.expect("the rollback");
    for retention in [Duration::from_secs(59), Duration::from_hours(3661 * 24)] {
        assert!(Inbox::default().retention(retention).is_err());
    }
}

/// On MariaDB a deadlock ends all of those that wait but one.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn b16_of_many_that_wait_for_one_that_fails_one_handles_it<DB: TestEngine + InboxSql>(
    database: TestDatabase<DB>,
) {
    const WAITING: usize = 4;

    let (database, event_id) = (tables(database).await, EventId::new());
    let mut tx = begin(&database).await;
    assert_eq!(mark(&mut tx, event_id).await, Arrival::FirstTime);
    let others: Vec<_> = (0..WAITING)
        .map(|_| {
            let pool = database.pool.clone();
            tokio::spawn(async move {
                loop {
                    let mut tx = leastlock_core::begin(&pool).await.expect("a transaction");
                    match Inbox::default().first_time(&mut tx, &ledger(), event_id).await {
                        Ok(arrival) => {
                            if arrival == Arrival::FirstTime {
                                effect(&mut tx).await;
                            }
                            tx.commit().await.expect("the commit");
                            break arrival;
                        }
                        Err(error) => assert!(error.is_retryable(), "{error:?}"),
                    }
                }
            })
        })
        .collect();
    until_waiting(&database, WAITING.try_into().expect("few"), || false).await;
    tx.rollback().await.expect("the rollback");
    let mut firsts = 0;
    for other in others {
        let arrival = tokio::time::timeout(PATIENCE, other).await.expect("it goes on").expect("no panic");
        firsts += i64::from(arrival == Arrival::FirstTime);
    }
    assert_eq!((firsts, database.int("SELECT times FROM effect").await), (1, 1));
}

/// A transaction whose snapshot is older than the mark of another.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn snapshot_older_than_the_mark_is_no_first_time<DB: TestEngine + InboxSql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let levels = match DB::ENGINE {
        Engine::Postgres => &["BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE"][..],
        _ => &[
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "/*M!101108 SET SESSION innodb_snapshot_isolation = ON */; START TRANSACTION WITH CONSISTENT SNAPSHOT",
        ],
    };
    for &level in levels {
        let event_id = EventId::new();
        let mut tx = leastlock_core::begin_with(&database.pool, level).await.expect("a transaction");
        // Takes the snapshot.
        let look = Statement::new("SELECT count(*) FROM leastlock_inbox");
        look.fetch_one::<DB>(&mut tx).await.expect("a count");
        let mut other = begin(&database).await;
        assert_eq!(mark(&mut other, event_id).await, Arrival::FirstTime);
        other.commit().await.expect("the commit");
        match Inbox::default().first_time(&mut tx, &ledger(), event_id).await {
            Ok(Arrival::Repeat) => assert_eq!(DB::ENGINE, Engine::MySql, "{level}"),
            Ok(Arrival::FirstTime) => panic!("{level}: it was handled before"),
            Err(error) => assert!(error.is_retryable(), "{level}: {error:?}"),
        }
        tx.rollback().await.expect("the rollback");
    }
}
