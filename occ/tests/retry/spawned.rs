//! The two forms of a unit of work that can be spawned, with captures: tokio and axum want a future that is `Send`.

use std::future::Future;

use leastlock_occ::{Attempt, Committed, Conflict, Error, MayConflict, Retry, RetryError, Stored};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;

use super::units::{Account, BALANCE_A, accounts};

/// As an application has it.
#[derive(Debug, thiserror::Error, MayConflict)]
pub(crate) enum PayError {
    #[error("there is no such account")]
    NoAccount,
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Database(#[from] Error),
}

/// A closure with captures of its own.
async fn by_closure<DB: TestEngine>(pool: Pool<DB>, id: String, amount: i64) -> Result<i64, RetryError<PayError>>
where
    Account: Stored<DB>,
{
    Retry::default()
        .run(&pool, async move |mut attempt: Attempt<DB>| {
            let account = Account::load(attempt.connection(), &id).await?.ok_or(PayError::NoAccount)?;
            let paid = account.update(attempt.connection(), |a| a.balance -= amount).await?.into_result()?;
            Ok::<_, PayError>(attempt.commit(paid.balance).await?)
        })
        .await
}

/// A loop, whose unit borrows.
async fn by_loop<DB: TestEngine>(pool: Pool<DB>, id: String, amount: i64) -> Result<i64, RetryError<PayError>>
where
    Account: Stored<DB>,
{
    let mut attempts = Retry::default().start(&pool);
    loop {
        let attempt = attempts.next().await?;
        if let Some(balance) = attempts.settle(pay(attempt, &id, &amount).await)? {
            return Ok(balance);
        }
    }
}

async fn pay<DB: TestEngine>(mut attempt: Attempt<DB>, id: &str, amount: &i64) -> Result<Committed<i64>, PayError>
where
    Account: Stored<DB>,
{
    let account = Account::load(attempt.connection(), id).await?.ok_or(PayError::NoAccount)?;
    let paid = account.update(attempt.connection(), |a| a.balance -= amount).await?.into_result()?;
    Ok(attempt.commit(paid.balance).await?)
}

/// What axum asks of a handler: clonable, for any thread, and its future as well.
fn is_handler<F, R>(handler: F) -> F
where
    F: Fn(String) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<i64, RetryError<PayError>>> + Send + 'static,
{
    handler
}

pub(crate) async fn units_with_captures_run_in_spawned_tasks_and_handlers<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    accounts(&database).await;
    let pool = &database.pool;
    let (a, none) = ("a".to_owned(), "none".to_owned());
    let mut left = Vec::new();
    for spawned in [
        tokio::spawn(by_closure(pool.clone(), a.clone(), 10)),
        tokio::spawn(by_loop(pool.clone(), a.clone(), 10)),
        tokio::spawn(is_handler({
            let pool = pool.clone();
            move |id| by_closure(pool.clone(), id, 10)
        })(a)),
    ] {
        left.push(spawned.await.expect("no panic").expect("a commit"));
    }
    left.sort_unstable();
    assert_eq!(left, [70, 80, 90], "each ran once, after another");
    assert_eq!(database.int(BALANCE_A).await, 70);
    // Both answer with an error of their own as well.
    for spawned in
        [tokio::spawn(by_closure(pool.clone(), none.clone(), 10)), tokio::spawn(by_loop(pool.clone(), none, 10))]
    {
        let outcome = spawned.await.expect("no panic");
        assert!(matches!(outcome, Err(RetryError::Failed(PayError::NoAccount))), "{outcome:?}");
    }
}
