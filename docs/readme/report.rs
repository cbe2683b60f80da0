// Runs the README's `write_report`.
tokio::runtime::Runtime::new().unwrap().block_on(async {
    use leastlock::lease::MIGRATIONS;

    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    MIGRATIONS.run(&pool).await.unwrap();
    let report = "CREATE TABLE report (month TEXT PRIMARY KEY, body TEXT NOT NULL)";
    sqlx::raw_sql(report).execute(&pool).await.unwrap();
    write_report(&pool, &Leases::new(SqlLeaseStore::new(&pool))).await.unwrap();
    let reports: i64 = sqlx::query_scalar("SELECT count(*) FROM report").fetch_one(&pool).await.unwrap();
    assert_eq!(reports, 1);
})
