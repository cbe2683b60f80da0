//! A lock whose end is written by the client that takes it, and judged by the one that asks.

use std::time::{Duration, SystemTime};

use leastlock_core::Statement;
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::Pool;

pub(super) const TABLE: &str = "CREATE TABLE client_clock_lock (lock_until BIGINT NOT NULL)";
pub(super) const ROW: &str = "INSERT INTO client_clock_lock VALUES (0)";
pub(super) const FREE: &str = "UPDATE client_clock_lock SET lock_until = 0";

/// What the client's wall clock shows.
pub(super) fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

/// Takes the lock, if it has run out by this client's clock.
pub(super) async fn take<DB: TestEngine>(pool: &Pool<DB>, ttl: Duration) -> bool {
    let take = sql::<DB>(
        "UPDATE client_clock_lock SET lock_until = $1 WHERE lock_until <= $2",
        "UPDATE client_clock_lock SET lock_until = ? WHERE lock_until <= ?",
    );
    let (now, mut connection) = (unix_ms(), pool.acquire().await.unwrap());
    let until = now + i64::try_from(ttl.as_millis()).unwrap();
    Statement::new(take).bind(until).bind(now).execute::<DB>(&mut connection).await.unwrap() == 1
}
