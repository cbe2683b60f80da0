// Runs the README's `place`.
tokio::runtime::Runtime::new().unwrap().block_on(async {
    use leastlock::idempotency::{MIGRATIONS, Scope};

    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    MIGRATIONS.run(&pool).await.unwrap();
    sqlx::raw_sql("CREATE TABLE orders (body TEXT NOT NULL)").execute(&pool).await.unwrap();
    let (keys, key) = (Keys::default(), Key::new(&Scope::of_operation("place-order").unwrap(), "8f14e45f").unwrap());
    for _ in 0..3 {
        assert_eq!(place(&pool, &keys, &key, "a lamp").await.unwrap(), "placed");
    }
    assert!(place(&pool, &keys, &key, "a rug").await.is_err());
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await.unwrap();
    assert_eq!(orders, 1);
})
