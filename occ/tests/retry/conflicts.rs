//! The scenarios of O8 and O9, over an error or an implementation that may be a double.

use leastlock_occ::{Attempt, Committed, Error, Retry, RetryError, Stored, Update, guarded};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;

use super::units::{Account, BALANCE_A, BALANCE_B, PayError, RIVAL, UnitError, begin_isolated, begin_open, reset};

/// A step that adds to account `a` in its caller's transaction.
pub(crate) trait Step<DB: TestEngine> {
    async fn add(tx: &mut Transaction<'static, DB>, loaded: &Account) -> Result<(), PayError>;
}

/// Passes the conflict up.
pub(crate) struct PassesUp;

impl<DB: TestEngine> Step<DB> for PassesUp
where
    Account: Stored<DB>,
{
    async fn add(tx: &mut Transaction<'static, DB>, loaded: &Account) -> Result<(), PayError> {
        loaded.update(&mut **tx, |a| a.balance += 10).await?.into_result()?;
        Ok(())
    }
}

/// O8: loads the row anew and tries again, inside; in the end it has an error of its own to say so.
pub(crate) struct RetriesInside;

impl<DB: TestEngine> Step<DB> for RetriesInside
where
    Account: Stored<DB>,
{
    async fn add(tx: &mut Transaction<'static, DB>, loaded: &Account) -> Result<(), PayError> {
        let mut loaded = loaded.clone();
        let mut tries = 0;
        loop {
            match loaded.update(&mut **tx, |a| a.balance += 10).await {
                Ok(Update::Applied(_)) => return Ok(()),
                Ok(Update::Conflict(_)) => {}
                Err(_) if tries == 5 => return Err(PayError::GaveUp),
                Err(_) => tries += 1,
            }
            loaded = Account::load(&mut **tx, &loaded.id).await?.expect("the account");
        }
    }
}

/// Reads `a`, adds to it in a step, and writes to `b` what `a` was. A rival comes between, the first time. Answers the
/// number of attempts; `Err` says what came out wrong.
pub(crate) async fn conflict_in_a_step<DB: TestEngine, S: Step<DB>>(database: &TestDatabase<DB>) -> Result<u32, String>
where
    Account: Stored<DB>,
{
    reset(database).await;
    let attempts = Retry::default()
        .begin_with(begin_open::<DB>())
        .run(&database.pool, async |mut attempt: Attempt<DB>| {
            let number = attempt.number();
            let a = Account::load(attempt.connection(), "a").await?.expect("the account");
            if number == 1 {
                database.execute(RIVAL).await;
            }
            S::add(attempt.tx(), &a).await?;
            let b = Account::load(attempt.connection(), "b").await?.expect("the account");
            b.update(attempt.connection(), |b| b.balance = a.balance).await?.into_result()?;
            Ok::<_, PayError>(attempt.commit(number).await?)
        })
        .await;
    let attempts = attempts.map_err(|error| format!("{error:?}"))?;
    match (database.int(BALANCE_A).await, database.int(BALANCE_B).await) {
        (115, 105) => Ok(attempts),
        (a, b) => Err(format!("a is {a} and b {b} after {attempts} attempts")),
    }
}

/// A value that was loaded before the transaction, and is stale.
pub(crate) async fn version_conflict<DB: TestEngine, E: UnitError<DB>>(
    database: &TestDatabase<DB>,
) -> Result<u32, RetryError<E>>
where
    Account: Stored<DB>,
{
    reset(database).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let stale = Account::load(&mut *connection, "a").await.expect("a read").expect("the account");
    drop(connection);
    database.execute(RIVAL).await;
    let work = async |mut attempt: Attempt<DB>| {
        let account = match attempt.number() {
            1 => stale.clone(),
            _ => Account::load(attempt.connection(), "a").await?.expect("the account"),
        };
        account.update(attempt.connection(), |a| a.balance += 10).await?.into_result()?;
        let number = attempt.number();
        Ok(attempt.commit(number).await?)
    };
    let attempts = Retry::default().run(&database.pool, work).await?;
    assert_eq!(database.int(BALANCE_A).await, 115);
    Ok(attempts)
}

/// A row that changes between the transaction's snapshot and its write.
pub(crate) async fn serialization_failure<DB: TestEngine, E: UnitError<DB>>(
    database: &TestDatabase<DB>,
) -> Result<u32, RetryError<E>>
where
    Account: Stored<DB>,
{
    reset(database).await;
    let work = async |mut attempt: Attempt<DB>| {
        let number = attempt.number();
        Account::load(attempt.connection(), "a").await?.expect("the account");
        if number == 1 {
            database.execute(RIVAL).await;
        }
        let add = guarded(sqlx::query("UPDATE account SET balance = balance + 10 WHERE id = 'a'"));
        assert!(add.exactly(1).execute(attempt.tx()).await?.is_applied());
        Ok(attempt.commit(number).await?)
    };
    let attempts = Retry::default().begin_with(begin_isolated::<DB>()).run(&database.pool, work).await?;
    assert_eq!(database.int(BALANCE_A).await, 115);
    Ok(attempts)
}

/// The error of a unit of work that always meets a conflict.
pub(crate) fn always_stale() -> Result<Committed<()>, PayError> {
    Err(PayError::Conflict(leastlock_occ::Conflict::Gone))
}

/// For a match on what ended the retry.
pub(crate) const fn is_failed_by_the_database<E>(outcome: &Result<u32, RetryError<E>>) -> bool {
    matches!(outcome, Err(RetryError::Failed(_)))
}

/// What a commit of nothing answers with, where only the number of attempts counts.
pub(crate) async fn commit_nothing<DB: TestEngine>(attempt: Attempt<DB>) -> Result<Committed<u32>, Error> {
    let number = attempt.number();
    attempt.commit(number).await
}
