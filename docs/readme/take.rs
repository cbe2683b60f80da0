use leastlock::occ::{self, guarded};
use sqlx::{Sqlite, Transaction};

async fn take(tx: &mut Transaction<'_, Sqlite>, code: &str, units: i64) -> Result<bool, occ::Error> {
    let take = sqlx::query("UPDATE stock SET units = units - $1 WHERE code = $2 AND units >= $1");
    Ok(guarded(take.bind(units).bind(code)).execute(&mut **tx).await?.is_applied())
}

// Runs what the README shows.

#[tokio::test]
async fn stock_is_taken_while_there_is_enough() {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let stock =
        "CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER NOT NULL); INSERT INTO stock VALUES ('85123A', 5)";
    sqlx::raw_sql(stock).execute(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    assert!(take(&mut tx, "85123A", 3).await.unwrap());
    assert!(!take(&mut tx, "85123A", 3).await.unwrap());
}
