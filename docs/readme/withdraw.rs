use std::error::Error;

use leastlock::occ::{Conflict, Version, Versioned};
use sqlx::SqlitePool;

#[derive(Clone, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
struct Account {
    id: String,
    balance: i64,
    version: Version,
}

// `account` is from `Account::load(&mut *connection, "a")`, perhaps minutes ago: a person decided in between.
async fn withdraw(
    pool: &SqlitePool,
    account: &Account,
) -> Result<Result<Account, Conflict>, Box<dyn Error + Send + Sync>> {
    // SQLite: a transaction that reads before it writes begins like this, or somebody's write in between makes it fail.
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let most: i64 = sqlx::query_scalar("SELECT most FROM withdrawal_limit").fetch_one(&mut *tx).await?;
    let update = account.update(&mut *tx, |account| account.balance -= most.min(10)).await?;
    tx.commit().await?;
    Ok(update.into_result()) // the new value, or "stale: expected 1, found 2"
}

// Runs what the README shows.

#[tokio::test]
async fn second_withdrawal_from_one_value_is_a_conflict() {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let tables = "CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, version INTEGER NOT NULL);
        CREATE TABLE withdrawal_limit (most INTEGER NOT NULL);
        INSERT INTO withdrawal_limit VALUES (500)";
    sqlx::raw_sql(tables).execute(&pool).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    let account = Account { id: "a".to_owned(), balance: 100, version: Version::FIRST };
    let _inserted = account.insert(&mut *connection).await.unwrap();
    let account = Account::load(&mut *connection, "a").await.unwrap().unwrap();
    drop(connection);
    let next = withdraw(&pool, &account).await.unwrap().unwrap();
    assert_eq!((next.balance, next.version), (90, Version::new(2)));
    let conflict = withdraw(&pool, &account).await.unwrap().err().unwrap();
    assert_eq!(conflict.to_string(), "stale: expected 1, found 2");
}
