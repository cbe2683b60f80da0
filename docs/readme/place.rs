use std::error::Error;

use leastlock::idempotency::{Begin, Fingerprint, Key, Keys, Scope};
use sqlx::SqlitePool;

async fn place(pool: &SqlitePool, sent: &str, order: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let keys = Keys::default(); // settings; keep one
    let key = Key::new(&Scope::new("tenant-7", "user-3", "place-order")?, sent)?;
    Ok(match keys.begin(pool, &key, &Fingerprint::of_parts([order])).await? {
        Begin::First(mut unit) => {
            sqlx::query("INSERT INTO orders VALUES ($1)").bind(order).execute(&mut **unit.tx()).await?;
            unit.complete("placed".to_owned()).await? // stores the answer and commits
        }
        Begin::Replay(answer) => answer,
        Begin::Mismatch => return Err("this key was used for another order".into()),
        Begin::InFlight { retry_after } => return Err(format!("ask again in {retry_after:?}").into()),
    })
}

// Runs what the README shows.

#[tokio::test]
async fn repeats_of_an_order_are_absorbed() {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    leastlock::idempotency::MIGRATIONS.run(&pool).await.unwrap();
    sqlx::raw_sql("CREATE TABLE orders (body TEXT NOT NULL)").execute(&pool).await.unwrap();
    for _ in 0..3 {
        assert_eq!(place(&pool, "8f14e45f", "a lamp").await.unwrap(), "placed");
    }
    assert!(place(&pool, "8f14e45f", "a rug").await.is_err());
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await.unwrap();
    assert_eq!(orders, 1);
}
