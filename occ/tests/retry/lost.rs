//! A commit whose reply is lost: it took effect, and nobody was told.

use std::time::Duration;

use leastlock_core::Backoff;
use leastlock_occ::{Attempt, Error, Retry, RetryError, guarded};
use leastlock_testkit::database::Postgres;
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use leastlock_testkit::{TestDatabase, TestEngine};

use super::units::{BALANCE_A, PayError, RunsEverythingAgain, UnitError, accounts};

const LIMIT: Duration = Duration::from_secs(30);
const ADD: &str = "UPDATE account SET balance = balance + 10 WHERE id = 'a'";

pub(crate) async fn a_commit_whose_reply_was_lost_is_not_run_again(database: TestDatabase<Postgres>) {
    accounts(&database).await;
    match pay_and_lose_the_reply::<PayError>(&database).await {
        Err(RetryError::Failed(PayError::Database(Error::CommitUnknown { .. }))) => {}
        other => panic!("a lost reply: {other:?}"),
    }
    assert_eq!(database.int(BALANCE_A).await, 110, "it took effect, once");
    pay_and_lose_the_reply::<RunsEverythingAgain>(&database).await.expect("the double runs it again");
    assert_eq!(database.int(BALANCE_A).await, 130, "the double is not caught");
}

async fn pay_and_lose_the_reply<E: UnitError<Postgres>>(
    database: &TestDatabase<Postgres>,
) -> Result<(), RetryError<E>> {
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let pool = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
    proxy.swallow_reply_to(postgres::once(postgres::is_commit()), Then::Cut);
    let quick = Backoff::new(Duration::from_millis(1), Duration::from_millis(4));
    let outcome = Retry::default().backoff(quick).run(&pool, async |mut attempt: Attempt<Postgres>| {
        let taken = guarded(sqlx::query(ADD)).exactly(1).execute(attempt.tx()).await?;
        assert!(taken.is_applied());
        Ok(attempt.commit(()).await?)
    });
    let outcome = outcome.await;
    proxy.fired(1, LIMIT).await;
    outcome
}
