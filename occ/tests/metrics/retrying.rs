//! Units of work on SQLite: one for each class of conflict that it has.

use std::str::FromStr;
use std::sync::Mutex;
use std::time::Duration;

use leastlock_core::Dialect;
use leastlock_occ::metrics::{
    OCC_RETRY_ATTEMPTS_TOTAL, OCC_RETRY_EXHAUSTED_TOTAL, OCC_RETRY_RETRIES_TOTAL, OCC_RETRY_UNIT_SECONDS,
};
use leastlock_occ::{Attempt, Committed, Conflict, Retry, RetryError, Version, guarded};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Pool, Transaction};

use super::doubles::CountsTheLastAsWell;
use super::seen::{Seen, seen};
use super::units::{Account, OrderState, PayError, QUICK, RIVAL, rows};

const ADD: &str = "UPDATE account SET balance = balance + 10 WHERE id = 'a'";

/// What the first attempt meets; the second commits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meets {
    /// A value that is stale.
    Version,
    /// A row that is in another state.
    State,
    /// A row that is in the expected state, but was written.
    VersionOfState,
    /// A row that was written since the transaction's snapshot.
    Serialization,
    /// SQLite's write lock, which somebody else has.
    Busy,
    /// What the application alone knows of.
    Own,
}

/// Runs a unit of work again after a conflict.
pub(crate) trait Reruns {
    async fn twice(pool: &Pool<Sqlite>, meets: Meets, rival: &Rival) -> Result<(), RetryError<PayError>>;

    /// Meets a conflict three times, which is as often as it may.
    async fn exhausted(pool: &Pool<Sqlite>);
}

pub(crate) struct Real;

impl Reruns for Real {
    async fn twice(pool: &Pool<Sqlite>, meets: Meets, rival: &Rival) -> Result<(), RetryError<PayError>> {
        let retry = Retry::default().backoff(QUICK).begin_with("BEGIN");
        let work = async |mut attempt: Attempt<Sqlite>| {
            if attempt.number() == 1 {
                meet(attempt.tx(), meets, rival).await?;
            }
            Ok::<_, PayError>(attempt.commit(()).await?)
        };
        retry.run(pool, work).await
    }

    async fn exhausted(pool: &Pool<Sqlite>) {
        let retry = Retry::default().attempts(3).backoff(QUICK);
        let outcome =
            retry.run(pool, async |_: Attempt<Sqlite>| Err::<Committed<()>, _>(PayError::Conflict(Conflict::Gone)));
        assert!(matches!(outcome.await, Err(RetryError::Exhausted { attempts: 3, .. })));
    }
}

/// Whoever is there as well.
pub(crate) struct Rival {
    database: TestDatabase<Sqlite>,
    /// Holds the write lock until the first attempt has met it.
    lock: Mutex<Option<Transaction<'static, Sqlite>>>,
}

pub(crate) async fn meet(tx: &mut Transaction<'static, Sqlite>, meets: Meets, rival: &Rival) -> Result<(), PayError> {
    let placed = (OrderState::Placed, OrderState::Paid);
    let paid = (OrderState::Paid, OrderState::Placed);
    match meets {
        Meets::Version => {
            let stale = Account { id: "a".to_owned(), balance: 100, version: Version::new(0) };
            stale.update(&mut **tx, |a| a.balance += 10).await?.into_result()?;
        }
        Meets::State => OrderState::transition(tx, "o", placed.0, placed.1).await?.into_result()?,
        Meets::VersionOfState => {
            let moved = OrderState::transition_at(tx, "o", Version::new(0), paid.0, paid.1).await?;
            moved.into_result()?;
        }
        Meets::Serialization => {
            Account::load(&mut **tx, "a").await?.ok_or(PayError::NoAccount)?;
            rival.database.execute(RIVAL).await;
            let _guarded = guarded(sqlx::query(ADD)).exactly(1).execute(tx).await?;
        }
        Meets::Busy => {
            let added = guarded(sqlx::query(ADD)).exactly(1).execute(tx).await;
            let lock = rival.lock.lock().expect("no panic").take();
            lock.expect("the lock").rollback().await.expect("the rollback");
            let _guarded = added?;
        }
        Meets::Own => return Err(PayError::BankIsBusy),
    }
    Ok(())
}

/// A pool that does not wait for the write lock.
pub(crate) async fn impatient(database: &TestDatabase<Sqlite>) -> Pool<Sqlite> {
    let options = SqliteConnectOptions::from_str(&database.url).expect("an SQLite URL").busy_timeout(Duration::ZERO);
    SqlitePoolOptions::new().connect_with(options).await.expect("SQLite opens its file")
}

fn twice<I: Reruns>(meets: Meets) -> Seen {
    seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        rows(&database).await;
        let pool = impatient(&database).await;
        let lock = match meets {
            Meets::Busy => Some(database.pool.begin_with(Sqlite::BEGIN_WRITE).await.expect("the write lock")),
            _ => None,
        };
        let rival = Rival { database, lock: Mutex::new(lock) };
        I::twice(&pool, meets, &rival).await.expect("the second attempt commits");
    })
}

fn exhausted<I: Reruns>() -> Seen {
    seen(async |_| I::exhausted(&TestDatabase::<Sqlite>::create().await.pool).await)
}

/// Whether the figures are those of a unit that met one conflict, of this class, and then committed.
fn judge_twice(seen: &Seen, class: &str) -> Result<(), String> {
    seen.check_labels()?;
    let is_right = seen.count(OCC_RETRY_ATTEMPTS_TOTAL) == 2
        && seen.by_label(OCC_RETRY_RETRIES_TOTAL) == [(class, 1)]
        && seen.count(OCC_RETRY_EXHAUSTED_TOTAL) == 0
        && seen.words(OCC_RETRY_UNIT_SECONDS) == ["committed"];
    if is_right { Ok(()) } else { Err(format!("{class}: {seen:#?}")) }
}

/// Whether they are those of a unit that was given up after three attempts.
fn judge_exhausted(seen: &Seen) -> Result<(), String> {
    seen.check_labels()?;
    let is_right = seen.count(OCC_RETRY_ATTEMPTS_TOTAL) == 3
        && seen.by_label(OCC_RETRY_RETRIES_TOTAL) == [("version_conflict", 2)]
        && seen.by_label(OCC_RETRY_EXHAUSTED_TOTAL) == [("attempts", 1)]
        && seen.words(OCC_RETRY_UNIT_SECONDS) == ["exhausted"];
    if is_right { Ok(()) } else { Err(format!("{seen:#?}")) }
}

#[test]
fn retry_is_counted_under_the_class_of_its_conflict() {
    for (meets, class) in [
        (Meets::Version, "version_conflict"),
        (Meets::State, "state_conflict"),
        (Meets::VersionOfState, "version_conflict"),
        (Meets::Serialization, "serialization_failure"),
        (Meets::Busy, "busy"),
        (Meets::Own, "other"),
    ] {
        judge_twice(&twice::<Real>(meets), class).expect("it is right");
    }
    let double = judge_twice(&twice::<CountsTheLastAsWell>(Meets::Version), "version_conflict");
    println!("the double: {double:?}");
    assert!(double.is_err(), "the double is not caught");
}

#[test]
fn unit_given_up_is_counted_once_and_its_last_conflict_is_no_retry() {
    judge_exhausted(&exhausted::<Real>()).expect("it is right");
    assert!(judge_exhausted(&exhausted::<CountsTheLastAsWell>()).is_err(), "the double is not caught");
}
