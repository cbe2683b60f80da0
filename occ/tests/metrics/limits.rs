//! How a unit of work can end, beside a commit and the limit of attempts.

use std::time::Duration;

use leastlock_core::Dialect;
use leastlock_occ::metrics::{
    OCC_RETRY_ATTEMPTS_TOTAL, OCC_RETRY_EXHAUSTED_TOTAL, OCC_RETRY_RETRIES_TOTAL, OCC_RETRY_UNIT_SECONDS,
};
use leastlock_occ::{Attempt, Attempts, Committed, Retry, RetryError};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Sqlite;
use tokio::sync::Notify;

use super::retrying::impatient;
use super::seen::{Seen, seen};
use super::units::{PayError, QUICK};

type Outcome = Result<Committed<()>, PayError>;

fn ended(seen: &Seen, outcome: &str) {
    seen.check_labels().expect("words that are written down");
    assert_eq!(seen.words(OCC_RETRY_UNIT_SECONDS), [outcome], "{seen:#?}");
}

#[test]
fn limit_of_time_is_told_from_the_limit_of_attempts() {
    let seen = seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        let retry = Retry::default().within(Duration::ZERO);
        let outcome = retry.run(&database.pool, async |_: Attempt<Sqlite>| Outcome::Err(PayError::BankIsBusy)).await;
        assert!(matches!(outcome, Err(RetryError::Exhausted { attempts: 1, .. })));
    });
    assert_eq!(seen.by_label(OCC_RETRY_EXHAUSTED_TOTAL), [("time", 1)]);
    assert_eq!(seen.count(OCC_RETRY_RETRIES_TOTAL), 0);
    ended(&seen, "exhausted");
}

#[test]
fn error_that_is_no_conflict_is_no_retry() {
    let seen = seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        let outcome =
            Retry::default().run(&database.pool, async |_: Attempt<Sqlite>| Outcome::Err(PayError::NoAccount)).await;
        assert!(matches!(outcome, Err(RetryError::Failed(PayError::NoAccount))));
    });
    assert_eq!((seen.count(OCC_RETRY_ATTEMPTS_TOTAL), seen.count(OCC_RETRY_RETRIES_TOTAL)), (1, 0));
    assert_eq!(seen.count(OCC_RETRY_EXHAUSTED_TOTAL), 0);
    ended(&seen, "failed");
}

#[test]
fn begin_that_meets_the_write_lock_is_an_attempt() {
    let seen = seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        let pool = impatient(&database).await;
        let lock = database.pool.begin_with(Sqlite::BEGIN_WRITE).await.expect("the write lock");
        let retry = Retry::default().attempts(2).backoff(QUICK);
        let outcome = retry.run(&pool, async |attempt: Attempt<Sqlite>| Ok::<_, PayError>(attempt.commit(()).await?));
        assert!(matches!(outcome.await, Err(RetryError::Exhausted { attempts: 2, .. })));
        drop(lock);
    });
    assert_eq!(seen.count(OCC_RETRY_ATTEMPTS_TOTAL), 2);
    assert_eq!(seen.by_label(OCC_RETRY_RETRIES_TOTAL), [("busy", 1)]);
    assert_eq!(seen.by_label(OCC_RETRY_EXHAUSTED_TOTAL), [("attempts", 1)]);
    ended(&seen, "exhausted");
}

#[test]
fn unit_that_its_caller_drops_is_no_failure() {
    let seen = seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        let begun = Notify::new();
        let stands_still = async |_: Attempt<Sqlite>| {
            begun.notify_one();
            std::future::pending::<Outcome>().await
        };
        tokio::select! {
            outcome = Retry::default().run(&database.pool, stands_still) => panic!("it never ends: {outcome:?}"),
            () = begun.notified() => {}
        }
    });
    assert_eq!((seen.count(OCC_RETRY_ATTEMPTS_TOTAL), seen.count(OCC_RETRY_RETRIES_TOTAL)), (1, 0));
    ended(&seen, "dropped");
}

#[test]
fn loop_is_measured_as_a_closure_is_and_a_nested_retry_is_not_at_all() {
    let seen = seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        let mut attempts: Attempts<Sqlite, PayError> = Retry::default().backoff(QUICK).start(&database.pool);
        loop {
            let attempt = attempts.next().await.expect("an attempt");
            let outcome = match attempt.number() {
                1 => Outcome::Err(PayError::BankIsBusy),
                _ => attempt.commit(()).await.map_err(PayError::from),
            };
            if attempts.settle(outcome).expect("within its limits").is_some() {
                break;
            }
        }
        // Started, and never begun.
        let _: Attempts<Sqlite, PayError> = Retry::default().start(&database.pool);
    });
    assert_eq!(seen.count(OCC_RETRY_ATTEMPTS_TOTAL), 2);
    assert_eq!(seen.by_label(OCC_RETRY_RETRIES_TOTAL), [("other", 1)]);
    ended(&seen, "committed");

    let seen = super::seen::seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        let pool = &database.pool;
        let outer = Retry::default().run(pool, async |attempt: Attempt<Sqlite>| {
            let inner = async |attempt: Attempt<Sqlite>| Ok::<_, PayError>(attempt.commit(()).await?);
            assert!(matches!(Retry::default().run(pool, inner).await, Err(RetryError::Nested)));
            Ok::<_, PayError>(attempt.commit(()).await?)
        });
        outer.await.expect("a commit");
    });
    assert_eq!(seen.count(OCC_RETRY_ATTEMPTS_TOTAL), 1);
    ended(&seen, "committed");
}
