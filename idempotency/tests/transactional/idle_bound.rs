//! What a unit sets on its connection on MariaDB, which is put back: the connection goes back to a pool.
#![cfg(feature = "mysql")]

use std::time::Duration;

use leastlock_idempotency::{Begin, Error, IdempotencySql, Keys, OnDuplicate};
use leastlock_testkit::TestDatabase;
use sqlx::mysql::MySqlPoolOptions;

use crate::keeper::{Call, effects, fingerprint, key, tables};

/// How a unit can end.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Completed,
    Released,
    Dropped,
    Replayed,
    Mismatched,
    InFlight,
    /// The future of `begin` is dropped while it waits.
    Cancelled,
    /// An answer over the limit: `complete` fails.
    Failed,
    /// The transaction is gone: `complete` fails before its commit.
    Ended,
}

/// MariaDB bounds idling by the connection, which goes back to a pool.
pub(crate) async fn idle_bound_of_a_unit_is_put_back_however_it_ends(database: TestDatabase<sqlx::MySql>) {
    let database = tables(database).await;
    let (keys, taken, lamp) = (Keys::default(), key(&Call::new("taken", "lamp")), fingerprint("lamp"));
    let Begin::First(owner) = keys.begin::<_, u32>(&database.pool, &taken, &lamp).await.unwrap() else {
        panic!("the key is free")
    };
    // One connection, so that whoever comes next has the one that the unit had.
    let pool = MySqlPoolOptions::new().max_connections(1).connect(&database.url).await.unwrap();
    let settings = async || -> (i64, i64) {
        let read = "SELECT CAST(@@idle_transaction_timeout AS SIGNED), CAST(@@innodb_lock_wait_timeout AS SIGNED)";
        sqlx::query_as(read).fetch_one(&pool).await.unwrap()
    };
    sqlx::raw_sql("SET idle_transaction_timeout = 77, innodb_lock_wait_timeout = 33").execute(&pool).await.unwrap();
    for ending in [
        Ending::Completed,
        Ending::Replayed,
        Ending::Mismatched,
        Ending::Released,
        Ending::Dropped,
        Ending::InFlight,
        Ending::Cancelled,
        Ending::Failed,
        Ending::Ended,
    ] {
        end(&pool, ending).await;
        assert_eq!(settings().await, (77, 33), "{ending:?}");
    }
    owner.release().await.unwrap();

    // The transaction ends between its last statement and its commit: that fails, and what it has not put back is put back after.
    let begin = "SET @leastlock_idle = @@idle_transaction_timeout, idle_transaction_timeout = 10; START TRANSACTION";
    let mut slot = Some(pool.begin_with(begin).await.unwrap());
    assert!(sqlx::MySql::commit(&mut slot).await.is_err(), "its savepoint is gone");
    sqlx::MySql::abandon(slot.take().expect("a commit that failed leaves it to be abandoned"));
    assert_eq!(settings().await, (77, 33));

    // The double: set for a transaction, and left behind.
    let careless = "SET idle_transaction_timeout = 10; START TRANSACTION";
    drop(pool.begin_with(careless).await.unwrap());
    assert_eq!(settings().await.0, 10, "the double must be seen to leave it behind");
}

async fn end(pool: &sqlx::Pool<sqlx::MySql>, ending: Ending) {
    let wait = match ending {
        Ending::Cancelled => OnDuplicate::Wait(Duration::from_secs(2)),
        _ => OnDuplicate::Reject,
    };
    let keys = Keys::builder().on_duplicate(wait).max_response_bytes(5).build().unwrap();
    let (name, payload) = match ending {
        Ending::Completed | Ending::Replayed => ("k1", "lamp"),
        Ending::Mismatched => ("k1", "rug"),
        Ending::InFlight | Ending::Cancelled => ("taken", "lamp"),
        Ending::Released | Ending::Dropped | Ending::Failed | Ending::Ended => ("other", "lamp"),
    };
    let (key, fingerprint) = (key(&Call::new(name, payload)), fingerprint(payload));
    let begun = keys.begin::<_, String>(pool, &key, &fingerprint);
    if matches!(ending, Ending::Cancelled) {
        let begun = tokio::time::timeout(Duration::from_millis(300), begun).await;
        return assert!(begun.is_err(), "it waits");
    }
    match (ending, begun.await.unwrap()) {
        (Ending::Completed, Begin::First(mut unit)) => {
            let idle = "SELECT CAST(@@idle_transaction_timeout AS SIGNED), CAST(@@innodb_lock_wait_timeout AS SIGNED)";
            let inside: (i64, i64) = sqlx::query_as(idle).fetch_one(&mut **unit.tx()).await.unwrap();
            assert_eq!(inside, (10, 33), "the limit for idling is in force, and no other");
            unit.complete("abc".to_owned()).await.unwrap();
        }
        (Ending::Failed, Begin::First(unit)) => {
            let failed = unit.complete("more than five bytes".to_owned()).await;
            assert!(matches!(failed, Err(Error::ResponseTooLarge { .. })), "{failed:?}");
        }
        (Ending::Ended, Begin::First(mut unit)) => {
            sqlx::raw_sql("ROLLBACK").execute(&mut **unit.tx()).await.unwrap();
            let ended = unit.complete("abc".to_owned()).await;
            assert!(matches!(ended, Err(Error::TransactionEnded { .. })), "{ended:?}");
        }
        (Ending::Released, Begin::First(unit)) => unit.release().await.unwrap(),
        (Ending::Dropped, Begin::First(unit)) => drop(unit),
        (Ending::Replayed, Begin::Replay(_))
        | (Ending::Mismatched, Begin::Mismatch)
        | (Ending::InFlight, Begin::InFlight { .. }) => {}
        (ending, other) => panic!("{ending:?}: {other:?}"),
    }
}

/// What sqlx does not notice: a deadlock, or DDL, ends the transaction on the server, and the next statements each commit.
pub(crate) async fn unit_whose_transaction_has_ended_is_not_completed(database: TestDatabase<sqlx::MySql>) {
    let database = tables(database).await;
    let (keys, lamp) = (Keys::default(), fingerprint("lamp"));
    let k1 = key(&Call::new("k1", "lamp"));
    let Begin::First(mut unit) = keys.begin::<_, u32>(&database.pool, &k1, &lamp).await.unwrap() else {
        panic!("the key is free")
    };
    sqlx::raw_sql("INSERT INTO effect VALUES ('before', 'x')").execute(&mut **unit.tx()).await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut **unit.tx()).await.unwrap();
    let completed = unit.complete(7).await;
    assert!(matches!(completed, Err(Error::TransactionEnded { .. })), "{completed:?}");

    // DDL commits the claim: its record is there, and is not completed.
    let Begin::First(mut unit) = keys.begin::<_, u32>(&database.pool, &k1, &lamp).await.unwrap() else {
        panic!("the key is free")
    };
    sqlx::raw_sql("CREATE TABLE other (id BIGINT)").execute(&mut **unit.tx()).await.unwrap();
    let completed = unit.complete(7).await;
    assert!(matches!(completed, Err(Error::TransactionEnded { .. })), "{completed:?}");
    assert_eq!(effects(&database).await, 0);
}
