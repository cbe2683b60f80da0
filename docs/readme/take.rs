// Runs the README's `take`.
tokio::runtime::Runtime::new().unwrap().block_on(async {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let stock = "CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER NOT NULL); INSERT INTO stock VALUES ('85123A', 5)";
    sqlx::raw_sql(stock).execute(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    assert!(take(&mut tx, "85123A", 3).await.unwrap());
    assert!(!take(&mut tx, "85123A", 3).await.unwrap());
})
