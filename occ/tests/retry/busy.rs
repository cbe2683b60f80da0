//! SQLite's one write lock, on a pool that does not wait for it.

use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use leastlock_core::{Backoff, Dialect, ErrorClass};
use leastlock_occ::{Attempt, Error, Retry, RetryError, guarded};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Pool, Transaction};

use super::units::{BALANCE_A, KnowsVersionsOnly, PayError, UnitError, accounts};

const ADD: &str = "UPDATE account SET balance = balance + 10 WHERE id = 'a'";

async fn impatient(database: &TestDatabase<Sqlite>) -> Pool<Sqlite> {
    let options = SqliteConnectOptions::from_str(&database.url).expect("an SQLite URL").busy_timeout(Duration::ZERO);
    SqlitePoolOptions::new().connect_with(options).await.expect("SQLite opens its file")
}

async fn rival(database: &TestDatabase<Sqlite>) -> Transaction<'static, Sqlite> {
    database.pool.begin_with(Sqlite::BEGIN_WRITE).await.expect("the write lock")
}

pub(crate) async fn o9_the_busy_write_lock_is_waited_for_in_attempts(database: TestDatabase<Sqlite>) {
    accounts(&database).await;
    assert_eq!(meets_a_writer::<PayError>(&database).await.expect("a commit"), 2);
    assert_eq!(database.int(BALANCE_A).await, 110);
    let double = meets_a_writer::<KnowsVersionsOnly>(&database).await;
    assert!(matches!(double, Err(RetryError::Failed(_))), "the double is not caught: {double:?}");
}

/// The other writer goes when the first attempt has met it.
async fn meets_a_writer<E: UnitError<Sqlite>>(database: &TestDatabase<Sqlite>) -> Result<u32, RetryError<E>> {
    let pool = impatient(database).await;
    let rival = Mutex::new(Some(rival(database).await));
    let work = async |mut attempt: Attempt<Sqlite>| {
        let number = attempt.number();
        let added = guarded(sqlx::query(ADD)).exactly(1).execute(attempt.tx()).await;
        let rival = rival.lock().expect("the rival").take();
        if let Some(rival) = rival {
            assert!(matches!(added, Err(Error::Database { class: ErrorClass::Busy, .. })), "{added:?}");
            rival.rollback().await.expect("the rollback");
        }
        assert!(added?.is_applied());
        Ok(attempt.commit(number).await?)
    };
    Retry::default().begin_with("BEGIN").run(&pool, work).await
}

pub(crate) async fn a_begin_that_meets_the_write_lock_is_an_attempt(database: TestDatabase<Sqlite>) {
    accounts(&database).await;
    let pool = impatient(&database).await;
    let rival = rival(&database).await;
    let quick = Backoff::new(Duration::from_millis(1), Duration::from_millis(4));
    let outcome = Retry::default()
        .attempts(3)
        .backoff(quick)
        .run(&pool, async |attempt: Attempt<Sqlite>| Ok::<_, Error>(attempt.commit(()).await?));
    match outcome.await {
        Err(RetryError::Exhausted { attempts: 3, last: Error::Database { class: ErrorClass::Busy, .. }, .. }) => {}
        other => panic!("a lock that is taken: {other:?}"),
    }
    drop(rival);
}
