//! The scenarios O1 to O6, over an implementation that may be a double: `Err` says what came out wrong.

use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Connection;

use super::accounts::{Accounts, Verdict, add, delete, expect, load, reset};

const BALANCE: &str = "SELECT balance FROM account WHERE id = 'a'";
const VERSION: &str = "SELECT version FROM account WHERE id = 'a'";
const COUNT: &str = "SELECT count(*) FROM account";
const RIVAL: &str = "UPDATE account SET balance = balance + 5, version = version + 1 WHERE id = 'a'";

type Outcome = Result<(), String>;

pub(crate) async fn stale_delete<DB: TestEngine, I: Accounts<DB>>(database: &TestDatabase<DB>) -> Outcome {
    reset(database).await;
    let mut loaded = load::<DB, I>(database).await?;
    database.execute(RIVAL).await;
    let stale = delete::<DB, I>(database, &mut loaded).await;
    expect("a stale delete", &stale, &Verdict::Stale { expected: 1, actual: 2 })?;
    expect("rows left", &database.int(COUNT).await, &1)?;
    let mut fresh = load::<DB, I>(database).await?;
    expect("a fresh delete", &delete::<DB, I>(database, &mut fresh).await, &Verdict::Applied)?;
    expect("rows left", &database.int(COUNT).await, &0)?;
    expect("a second delete", &delete::<DB, I>(database, &mut fresh).await, &Verdict::Gone)
}

pub(crate) async fn second_update_after_a_conflict<DB: TestEngine, I: Accounts<DB>>(
    database: &TestDatabase<DB>,
) -> Outcome {
    reset(database).await;
    let mut loaded = load::<DB, I>(database).await?;
    database.execute(RIVAL).await;
    for attempt in ["first attempt", "second attempt", "third attempt"] {
        let verdict = add::<DB, I>(database, &mut loaded, 10).await;
        expect(attempt, &verdict, &Verdict::Stale { expected: 1, actual: 2 })?;
    }
    expect("the balance", &database.int(BALANCE).await, &105)
}

pub(crate) async fn update_after_a_rollback<DB: TestEngine, I: Accounts<DB>>(database: &TestDatabase<DB>) -> Outcome {
    reset(database).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let mut loaded = I::load(&mut connection).await?;

    let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    expect("before the rollback", &I::add(&mut tx, &mut loaded, 10).await, &Verdict::Applied)?;
    tx.rollback().await.expect("the rollback");

    let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let mut savepoint = tx.begin().await.expect("a savepoint");
    expect("in the savepoint", &I::add(&mut savepoint, &mut loaded, 10).await, &Verdict::Applied)?;
    savepoint.rollback().await.expect("the savepoint's rollback");
    expect("after both", &I::add(&mut tx, &mut loaded, 10).await, &Verdict::Applied)?;
    tx.commit().await.expect("the commit");
    expect("the balance", &database.int(BALANCE).await, &110)?;
    expect("the version", &database.int(VERSION).await, &2)
}

/// The right outcome of a load is an error; whoever loads the row all the same must not write it.
pub(crate) async fn null_version<DB: TestEngine, I: Accounts<DB>>(database: &TestDatabase<DB>) -> Outcome {
    reset(database).await;
    database.execute("UPDATE account SET version = NULL").await;
    match load::<DB, I>(database).await {
        Err(message) if message.contains("account is NULL") => {}
        Err(message) => return Err(format!("the error is unclear: {message}")),
        Ok(mut loaded) => {
            let verdict = add::<DB, I>(database, &mut loaded, 10).await;
            return Err(format!("a NULL version was loaded as {}, and the update said {verdict:?}", loaded.version));
        }
    }

    // The version may also become NULL after the load.
    database.execute("UPDATE account SET version = 1").await;
    let mut loaded = load::<DB, I>(database).await?;
    database.execute("UPDATE account SET version = NULL").await;
    match add::<DB, I>(database, &mut loaded, 10).await {
        Verdict::Failed(message) if message.contains("NULL") => {}
        other => return Err(format!("an update of a NULL version: {other:?}")),
    }
    match delete::<DB, I>(database, &mut loaded).await {
        Verdict::Failed(message) if message.contains("account is NULL") => {}
        other => return Err(format!("a delete of a NULL version: {other:?}")),
    }
    expect("the balance", &database.int(BALANCE).await, &100)
}

pub(crate) async fn version_zero<DB: TestEngine, I: Accounts<DB>>(database: &TestDatabase<DB>) -> Outcome {
    reset(database).await;
    database.execute("UPDATE account SET version = 0").await;
    let mut at_zero = load::<DB, I>(database).await?;
    let mut same = at_zero.clone();
    expect("an update at zero", &add::<DB, I>(database, &mut at_zero, 10).await, &Verdict::Applied)?;
    let stale = add::<DB, I>(database, &mut same, 10).await;
    expect("a stale update at zero", &stale, &Verdict::Stale { expected: 0, actual: 1 })?;
    expect("the balance", &database.int(BALANCE).await, &110)?;
    expect("the version", &database.int(VERSION).await, &1)
}

pub(crate) async fn missing_or_changed<DB: TestEngine, I: Accounts<DB>>(database: &TestDatabase<DB>) -> Outcome {
    reset(database).await;
    let mut loaded = load::<DB, I>(database).await?;
    for _ in 0..4 {
        database.execute(RIVAL).await;
    }
    let changed = add::<DB, I>(database, &mut loaded.clone(), 10).await;
    expect("a changed row", &changed, &Verdict::Stale { expected: 1, actual: 5 })?;
    database.execute("DELETE FROM account").await;
    let missing = add::<DB, I>(database, &mut loaded.clone(), 10).await;
    expect("a missing row", &missing, &Verdict::Gone)?;
    expect("a missing row, deleted", &delete::<DB, I>(database, &mut loaded).await, &Verdict::Gone)
}
