//! What the cases share: names, a database with a protected row, and store-side expiry.

use std::time::Duration;

use leastlock_lease::{Hold, LeaseSql, Leases, LockName, MIGRATIONS, SqlLeaseStore};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;

/// Longer than any test takes, so that nothing expires by itself.
pub(crate) const LONG: Duration = Duration::from_mins(1);
/// How long a condition is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
pub(crate) const VALUE: &str = "SELECT value FROM protected";

pub(crate) fn lock() -> LockName {
    LockName::new("report:tenant-7:2026-09").unwrap()
}

pub(crate) fn fixed() -> Hold {
    Hold::fixed(LONG)
}

/// The crate's tables, and a row whose value names its last writer.
pub(crate) async fn prepare<DB: TestEngine>(database: TestDatabase<DB>) -> TestDatabase<DB> {
    let database = database.with(&MIGRATIONS).await;
    database.execute("CREATE TABLE protected (value BIGINT NOT NULL)").await;
    database.execute("INSERT INTO protected VALUES (0)").await;
    database
}

pub(crate) fn store<DB: TestEngine + LeaseSql>(database: &TestDatabase<DB>) -> SqlLeaseStore<DB> {
    SqlLeaseStore::new(&database.pool)
}

pub(crate) fn leases<DB: TestEngine + LeaseSql>(database: &TestDatabase<DB>) -> Leases<SqlLeaseStore<DB>> {
    Leases::new(store(database))
}

/// The holder's TTL runs out at the store, while the holder is paused and knows nothing of it.
pub(crate) async fn expire<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("UPDATE leastlock_lease SET lease_until = acquired_at").await;
}

/// Whether the lock's row says that somebody holds it (or held it until it expired).
pub(crate) async fn is_released<DB: TestEngine>(database: &TestDatabase<DB>) -> bool {
    database.int("SELECT COUNT(*) FROM leastlock_lease WHERE lease_until IS NULL").await == 1
}

pub(crate) async fn write<DB: TestEngine>(
    tx: &mut Transaction<'_, DB>,
    value: &'static str,
) -> Result<u64, sqlx::Error> {
    DB::run_query(tx, sqlx::query(value)).await
}

pub(crate) const A_WRITES: &str = "UPDATE protected SET value = 1";
pub(crate) const B_WRITES: &str = "UPDATE protected SET value = 2";

/// Waits until `condition` holds.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    leastlock_testkit::until(what, LIMIT, condition).await;
}
