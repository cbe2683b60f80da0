//! The cases: each scenario comes out right for the real implementation and is failed by its double.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leastlock_core::{Backoff, ErrorClass};
use leastlock_occ::{Attempt, Attempts, Conflict, Error, Retry, RetryError, Stored, guarded};
use leastlock_testkit::{TestDatabase, TestEngine};

use super::conflicts::{
    PassesUp, RetriesInside, always_stale, commit_nothing, conflict_in_a_step, is_failed_by_the_database,
    serialization_failure, version_conflict,
};
use super::units::{Account, BALANCE_A, KnowsCodesOnly, KnowsVersionsOnly, PayError, RunsEverythingAgain, accounts};

pub(super) const QUICK: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(4));

pub(crate) async fn o8_a_conflict_inside_surfaces_to_the_outermost_retry<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    accounts(&database).await;
    assert_eq!(conflict_in_a_step::<DB, PassesUp>(&database).await, Ok(2));
    let double = conflict_in_a_step::<DB, RetriesInside>(&database).await;
    println!("the double: {double:?}");
    assert!(double.is_err(), "the double is not caught");
}

pub(crate) async fn o8_a_retry_inside_a_unit_of_work_is_refused<DB: TestEngine>(database: TestDatabase<DB>) {
    accounts(&database).await;
    let outer = Retry::default().run(&database.pool, async |attempt: Attempt<DB>| {
        let inner = Retry::default().run(&database.pool, commit_nothing).await;
        assert!(matches!(inner, Err(RetryError::Nested)), "{inner:?}");
        let mut inner: Attempts<DB, Error> = Retry::default().start(&database.pool);
        let inner = inner.next().await;
        assert!(matches!(inner, Err(RetryError::Nested)), "{inner:?}");
        commit_nothing(attempt).await
    });
    assert_eq!(outer.await.expect("the outer one commits"), 1);
    // Beside each other in one task, neither is inside the other.
    let run = || Retry::default().run(&database.pool, commit_nothing);
    let (one, other) = tokio::join!(run(), run());
    assert_eq!((one.expect("a commit"), other.expect("a commit")), (1, 1));
}

pub(crate) async fn o9_a_version_conflict_is_run_again<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    accounts(&database).await;
    assert_eq!(version_conflict::<DB, PayError>(&database).await.expect("a commit"), 2);
    let double = version_conflict::<DB, KnowsCodesOnly>(&database).await;
    assert!(is_failed_by_the_database(&double), "the double is not caught: {double:?}");
}

pub(crate) async fn o9_a_serialization_failure_is_run_again<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    accounts(&database).await;
    assert_eq!(serialization_failure::<DB, PayError>(&database).await.expect("a commit"), 2);
    let double = serialization_failure::<DB, KnowsVersionsOnly>(&database).await;
    assert!(is_failed_by_the_database(&double), "the double is not caught: {double:?}");
}

pub(crate) async fn the_last_conflict_is_answered_when_the_attempts_are_used_up<DB: TestEngine>(
    database: TestDatabase<DB>,
) {
    let made = AtomicU32::new(0);
    let retry = Retry::default().attempts(3).backoff(QUICK);
    let outcome = retry.run(&database.pool, async |attempt: Attempt<DB>| {
        assert_eq!(made.fetch_add(1, Ordering::Relaxed) + 1, attempt.number());
        always_stale()
    });
    match outcome.await {
        Err(error @ RetryError::Exhausted { attempts: 3, last: PayError::Conflict(Conflict::Gone), .. }) => {
            assert!(error.to_string().contains("too hot for optimistic control"), "{error}");
        }
        other => panic!("a row that is always gone: {other:?}"),
    }
    assert_eq!(made.into_inner(), 3);
    // None is none too many: one attempt is always made.
    let once = Retry::default().attempts(0).run(&database.pool, commit_nothing::<DB>).await;
    assert_eq!(once.expect("a commit"), 1);
}

pub(crate) async fn no_attempt_is_started_after_the_time_limit<DB: TestEngine>(database: TestDatabase<DB>) {
    let retry = Retry::default().attempts(u32::MAX).backoff(QUICK).within(Duration::from_millis(50));
    let made = AtomicU32::new(0);
    let outcome = retry.run(&database.pool, async |_: Attempt<DB>| {
        made.fetch_add(1, Ordering::Relaxed);
        always_stale()
    });
    match outcome.await {
        Err(RetryError::Exhausted { attempts, elapsed, .. }) => {
            assert_eq!(attempts, made.into_inner());
            assert!(elapsed >= Duration::from_millis(50), "{elapsed:?}");
        }
        other => panic!("a row that is always gone: {other:?}"),
    }
    let outcome = Retry::default().within(Duration::ZERO).run(&database.pool, async |_: Attempt<DB>| always_stale());
    let outcome = outcome.await;
    assert!(matches!(outcome, Err(RetryError::Exhausted { attempts: 1, .. })), "{outcome:?}");
}

pub(crate) async fn what_is_no_conflict_is_not_run_again<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    accounts(&database).await;
    let taken = Account { id: "a".to_owned(), balance: 1, version: leastlock_occ::Version::FIRST };
    let retry = Retry::default().attempts(3).backoff(QUICK);
    let outcome = retry.run(&database.pool, async |mut attempt: Attempt<DB>| {
        taken.insert(attempt.connection()).await?;
        Ok::<_, PayError>(commit_nothing(attempt).await?)
    });
    match outcome.await {
        Err(RetryError::Failed(PayError::Database(Error::Database { class: ErrorClass::UniqueViolation, .. }))) => {}
        other => panic!("a key that exists: {other:?}"),
    }
    let double = retry.run(&database.pool, async |mut attempt: Attempt<DB>| {
        taken.insert(attempt.connection()).await?;
        Ok::<_, RunsEverythingAgain>(commit_nothing(attempt).await?)
    });
    let double = double.await;
    assert!(matches!(double, Err(RetryError::Exhausted { attempts: 3, .. })), "the double is not caught: {double:?}");
}

pub(crate) async fn an_attempt_without_a_commit_is_rolled_back<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    accounts(&database).await;
    let retry = Retry::default().attempts(2).backoff(QUICK);
    let outcome = retry.run(&database.pool, async |mut attempt: Attempt<DB>| {
        let account = Account::load(attempt.connection(), "a").await?.expect("the account");
        account.update(attempt.connection(), |a| a.balance = 0).await?.into_result()?;
        always_stale()
    });
    outcome.await.expect_err("it never commits");
    assert_eq!(database.int(BALANCE_A).await, 100);
}

pub(crate) async fn a_broken_bound_that_is_ignored_is_no_commit<DB: TestEngine>(database: TestDatabase<DB>) {
    accounts(&database).await;
    let outcome = Retry::default().run(&database.pool, async |mut attempt: Attempt<DB>| {
        let broken = guarded(sqlx::query("UPDATE account SET balance = 0")).exactly(1).execute(attempt.tx()).await;
        assert!(matches!(broken, Err(Error::RowsOutOfBounds { actual: 2, .. })), "{broken:?}");
        commit_nothing(attempt).await
    });
    let outcome = outcome.await;
    assert!(matches!(outcome, Err(RetryError::Failed(_))), "{outcome:?}");
    assert_eq!(database.int(BALANCE_A).await, 100);
}
