//! Callers' transactions at REPEATABLE READ, whose snapshot is older than the record.
#![cfg(any(feature = "postgres", feature = "mysql"))]

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_idempotency::{BeginIn, Error, IdempotencySql, Keys};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;

use crate::keeper::{Call, Keeper, Product, effects, fingerprint, insert_effect, key, ran, tables};

/// What a claim on an old snapshot came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    First,
    Replay,
    BeginAgain,
}

/// A transaction with a snapshot of before the record.
async fn old_snapshot<DB: TestEngine>(database: &TestDatabase<DB>, begin: &'static str) -> Transaction<'static, DB> {
    let mut tx = database.pool.begin_with(begin).await.unwrap();
    let read = Statement::new("SELECT count(*) FROM leastlock_idempotency").fetch_one::<DB>(&mut tx).await;
    assert_eq!(read.unwrap().int(0).unwrap(), 0);
    tx
}

/// A record is committed after the snapshot, then the same request comes in the old transaction.
async fn claim_on_an_old_snapshot<DB: TestEngine + IdempotencySql>(
    database: &TestDatabase<DB>,
    begin: &'static str,
    claims: impl AsyncFnOnce(&mut Transaction<'static, DB>) -> Found,
) -> Found {
    database.execute("DELETE FROM leastlock_idempotency").await;
    database.execute("DELETE FROM effect").await;
    let call = Call::new("k1", "lamp");
    let mut tx = old_snapshot(database, begin).await;
    assert_eq!(Product::waiting().place(&database.pool, call.clone()).await, ran("lamp"));
    let found = claims(&mut tx).await;
    if found == Found::First {
        insert_effect::<DB>(&mut tx, &call).await;
        tx.commit().await.unwrap();
    }
    found
}

async fn product<DB: IdempotencySql>(tx: &mut Transaction<'static, DB>) -> Found {
    let keys = Keys::builder().on_duplicate(leastlock_idempotency::OnDuplicate::Wait(Duration::from_secs(5)));
    let (k1, lamp) = (key(&Call::new("k1", "lamp")), fingerprint("lamp"));
    match keys.build().unwrap().begin_in::<DB, String>(tx, &k1, &lamp).await {
        Ok(BeginIn::First(_)) => Found::First,
        Ok(BeginIn::Replay(_)) => Found::Replay,
        Err(error @ Error::Database { .. }) if error.is_retryable() => Found::BeginAgain,
        other => panic!("{other:?}"),
    }
}

/// The double: looks in its snapshot, and inserts what is not there under a name of its own.
async fn trusting<DB: IdempotencySql>(tx: &mut Transaction<'static, DB>) -> Found {
    let look = "SELECT count(*) FROM leastlock_idempotency WHERE idempotency_key = 'k1'";
    let seen = Statement::new(look).fetch_one::<DB>(tx).await.unwrap().int(0).unwrap();
    if seen == 0 { Found::First } else { Found::Replay }
}

pub(crate) async fn i14_record_beyond_the_callers_snapshot_is_never_a_first<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let begin = sql::<DB>(
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION",
    );
    // PostgreSQL refuses to look beyond a snapshot; InnoDB's locking reads do.
    let right = if DB::ENGINE == leastlock_core::Engine::Postgres { Found::BeginAgain } else { Found::Replay };
    assert_eq!(claim_on_an_old_snapshot(&database, begin, product::<DB>).await, right);
    assert_eq!(effects(&database).await, 1);
    assert_eq!(claim_on_an_old_snapshot(&database, begin, trusting::<DB>).await, Found::First);
    assert_eq!(effects(&database).await, 2, "the double must be seen to run twice");
}

/// MariaDB can be told to refuse what PostgreSQL refuses (and does so by default from 11.6 on).
#[cfg(feature = "mysql")]
pub(crate) async fn i14_snapshot_isolation_of_mariadb_is_a_retryable_error(database: TestDatabase<sqlx::MySql>) {
    let database = tables(database).await;
    let begin =
        "SET innodb_snapshot_isolation = ON; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION";
    assert_eq!(claim_on_an_old_snapshot(&database, begin, product::<sqlx::MySql>).await, Found::BeginAgain);
    assert_eq!(effects(&database).await, 1);
    assert_eq!(claim_on_an_old_snapshot(&database, begin, trusting::<sqlx::MySql>).await, Found::First);
}
