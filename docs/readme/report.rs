use std::time::Duration;

use leastlock::lease::{Error, Fence, Hold, Leases, LockName, SqlLeaseStore};
use sqlx::SqlitePool;

async fn write_report(pool: &SqlitePool) -> Result<(), Error> {
    let leases = Leases::new(SqlLeaseStore::new(pool));
    // A lock's name is kind:name[:id][:period], so two to four parts of ASCII letters, digits, `.`, `_` and `-`.
    let name = LockName::new("report:tenant-7")?;
    let fence = Fence::new("report:tenant-7")?; // what this lock protects, named in the database that it is in

    let lease = leases.acquire(&name, Hold::renewed(Duration::from_secs(30))).await?; // a `CorrectnessLease`
    let written = lease.run(async |scope| {
        let permit = scope.permit()?;
        fence.seal(pool, &permit).await?; // from here on, older holders are refused
        let mut tx = pool.begin().await?;
        fence.check(&mut tx, &permit).await?; // and this transaction is protected
        sqlx::query("INSERT INTO report VALUES ('2026-09', 'done')").execute(&mut *tx).await?;
        Ok(tx.commit().await?)
    });
    written.await
}

// Runs what the README shows.

#[tokio::test]
async fn report_is_written_under_a_lease() {
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    leastlock::lease::MIGRATIONS.run(&pool).await.unwrap();
    let report = "CREATE TABLE report (month TEXT PRIMARY KEY, body TEXT NOT NULL)";
    sqlx::raw_sql(report).execute(&pool).await.unwrap();
    write_report(&pool).await.unwrap();
    let reports: i64 = sqlx::query_scalar("SELECT count(*) FROM report").fetch_one(&pool).await.unwrap();
    assert_eq!(reports, 1);
}
