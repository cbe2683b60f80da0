// Runs the README's `withdraw`.
tokio::runtime::Runtime::new().unwrap().block_on(async {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let table = "CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, version INTEGER NOT NULL)";
    sqlx::raw_sql(table).execute(&pool).await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let account = Account { id: "a".to_owned(), balance: 100, version: Version::FIRST };
    let account = account.insert(&mut *tx).await.unwrap();
    let next = withdraw(&mut tx, &account).await.unwrap().unwrap();
    assert_eq!((next.balance, next.version), (90, Version::new(2)));
    let conflict = withdraw(&mut tx, &account).await.unwrap().err().unwrap();
    assert_eq!(conflict.to_string(), "stale: expected 1, found 2");
})
