//! What a server can do to a transaction, and SQLite cannot: end it for a deadlock, or for an error that was ignored.

use std::sync::Arc;

use leastlock_core::Engine;
use leastlock_occ::{Attempt, Column, Committed, Error, Retry, RetryError, Stored, guarded};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::sync::Barrier;

use super::conflicts::is_failed_by_the_database;
use super::units::{Account, BALANCE_A, BALANCE_B, KnowsVersionsOnly, PayError, UnitError, accounts, reset};

pub(crate) async fn o9_a_deadlock_is_run_again<DB: TestEngine>(database: TestDatabase<DB>)
where
    i64: Column<DB>,
{
    accounts(&database).await;
    assert_eq!(deadlock::<DB, PayError>(&database).await.expect("two commits"), 3);
    let double = deadlock::<DB, KnowsVersionsOnly>(&database).await;
    assert!(is_failed_by_the_database(&double), "the double is not caught: {double:?}");
}

/// Two units of work that lock the rows in opposite orders; answers the attempts of both together.
async fn deadlock<DB: TestEngine, E: UnitError<DB>>(database: &TestDatabase<DB>) -> Result<u32, RetryError<E>>
where
    i64: Column<DB>,
{
    const ADD_A: &str = "UPDATE account SET balance = balance + 1 WHERE id = 'a'";
    const ADD_B: &str = "UPDATE account SET balance = balance + 1 WHERE id = 'b'";
    reset(database).await;
    let both_have_one = Arc::new(Barrier::new(2));
    let unit = async |first: &'static str, second: &'static str| {
        let work = async |mut attempt: Attempt<DB>| -> Result<Committed<u32>, E> {
            let number = attempt.number();
            assert!(guarded(sqlx::query(first)).exactly(1).execute(attempt.tx()).await?.is_applied());
            if number == 1 {
                both_have_one.wait().await;
            }
            assert!(guarded(sqlx::query(second)).exactly(1).execute(attempt.tx()).await?.is_applied());
            Ok(attempt.commit(number).await?)
        };
        Retry::default().run(&database.pool, work).await
    };
    let (one, other) = tokio::join!(unit(ADD_A, ADD_B), unit(ADD_B, ADD_A));
    let attempts = one? + other?;
    assert_eq!((database.int(BALANCE_A).await, database.int(BALANCE_B).await), (102, 2));
    Ok(attempts)
}

/// Nothing fails after the ignored error, and the `COMMIT` of a transaction that is gone is no error to the server.
pub(crate) async fn an_ignored_error_that_ended_the_transaction_is_no_commit<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    accounts(&database).await;
    // What a deadlock does on MySQL, where the statement is sqlx's own and not seen by the dialect.
    let ending = if DB::ENGINE == Engine::Postgres { "SELECT * FROM nowhere" } else { "ROLLBACK" };
    let outcome = Retry::default().run(&database.pool, async |mut attempt: Attempt<DB>| {
        let account = Account::load(attempt.connection(), "a").await?.expect("the account");
        account.update(attempt.connection(), |a| a.balance = 0).await?.into_result()?;
        drop(DB::run_query(attempt.connection(), sqlx::query(ending)).await);
        Ok::<_, PayError>(attempt.commit(()).await?)
    });
    match outcome.await {
        Err(RetryError::Failed(PayError::Database(Error::TransactionEnded { .. }))) => {}
        other => panic!("a transaction that had ended: {other:?}"),
    }
    assert_eq!(database.int(BALANCE_A).await, 100);

    // The double: sqlx's own commit.
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let account = Account::load(&mut *tx, "a").await.expect("a read").expect("the account");
    account.update(&mut *tx, |a| a.balance = 0).await.expect("an outcome").into_result().expect("no conflict");
    drop(DB::run_query(&mut tx, sqlx::query(ending)).await);
    tx.commit().await.expect("the double is not caught");
    assert_eq!(database.int(BALANCE_A).await, 100);
}
