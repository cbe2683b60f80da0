//! Hand-written readers of a log whose rows are deleted once they are published, each with one mistake that has been made in
//! public.

use std::collections::HashSet;
use std::time::Duration;

use leastlock_core::Dialect;
use sqlx::{AssertSqlSafe, Connection, MySql, MySqlConnection, MySqlPool, Row};

use crate::readers::{Reading, Values};

const PAUSE: Duration = Duration::from_millis(5);

/// `id > cursor`: what commits below the cursor is lost.
pub(crate) fn by_id_cursor(pool: &MySqlPool) -> Reading {
    let pool = pool.clone();
    Reading::start(move |values| async move {
        let read = "SELECT id, CONVERT(value USING utf8mb4) FROM leastlock_outbox WHERE id > ? ORDER BY id";
        let mut last = 0_i64;
        loop {
            for row in sqlx::query(read).bind(last).fetch_all(&pool).await.expect("it reads") {
                last = last.max(row.get(0));
                push(&values, row.get(1));
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Whatever is there and was not seen, but in the order in which the events were made: a key whose older event was appended
/// last is turned round.
pub(crate) fn by_event_id(pool: &MySqlPool) -> Reading {
    let pool = pool.clone();
    Reading::start(move |values| async move {
        let read = "SELECT id, CONVERT(value USING utf8mb4) FROM leastlock_outbox ORDER BY event_id";
        let mut seen = HashSet::<i64>::new();
        loop {
            for row in sqlx::query(read).fetch_all(&pool).await.expect("it reads") {
                if seen.insert(row.get(0)) {
                    push(&values, row.get(1));
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// A locking read, which sees what is committed and not what a snapshot shows: and waits for any open transaction that has
/// appended.
pub(crate) fn by_locking_read(pool: &MySqlPool) -> Reading {
    let pool = pool.clone();
    Reading::start(move |values| async move {
        let read = "SELECT id, CONVERT(value USING utf8mb4) FROM leastlock_outbox ORDER BY id LOCK IN SHARE MODE";
        let mut connection = pool.acquire().await.expect("a connection").detach();
        let mut seen = HashSet::<i64>::new();
        loop {
            // In vain, until it is let in: what it waited for longest is a time-out.
            if let Ok(rows) = sqlx::query(read).fetch_all(&mut connection).await {
                for row in rows {
                    if seen.insert(row.get(0)) {
                        push(&values, row.get(1));
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    })
}

/// Publishes a page, and deletes everything up to its last id: what was committed below it meanwhile is deleted unpublished.
pub(crate) fn by_range_delete(pool: &MySqlPool) -> Reading {
    let pool = pool.clone();
    Reading::start(move |values| async move {
        let read = "SELECT id, CONVERT(value USING utf8mb4) FROM leastlock_outbox ORDER BY id";
        let mut connection = pool.acquire().await.expect("a connection").detach();
        loop {
            let rows = sqlx::query(read).fetch_all(&mut connection).await.expect("it reads");
            let last: i64 = rows.last().map_or(0, |row| row.get(0));
            for row in rows {
                push(&values, row.get(1));
            }
            tokio::time::sleep(PAUSE).await;
            // Up to "the last one", at an isolation level that locks no gaps, so that it deadlocks with nobody. It waits for rows that
            // are not committed yet.
            let mut tx = connection.begin_with(MySql::BEGIN_WRITE).await.expect("a transaction");
            let delete = "DELETE FROM leastlock_outbox WHERE id <= ?";
            sqlx::query(delete).bind(last).execute(&mut *tx).await.expect("it deletes");
            tx.commit().await.expect("it commits");
        }
    })
}

/// Deletes "every event up to the last one" at the server's own isolation level, whose locks cover the gaps as well, and waits at
/// the gate before it commits.
pub(crate) async fn delete_range(connection: &mut MySqlConnection, last: i64) -> Result<(), sqlx::Error> {
    let mut tx = connection.begin().await?;
    sqlx::query("DELETE FROM leastlock_outbox WHERE id <= ?").bind(last).execute(&mut *tx).await?;
    sqlx::raw_sql("DO GET_LOCK(CONCAT(DATABASE(), '.gate'), 60); DO RELEASE_LOCK(CONCAT(DATABASE(), '.gate'))")
        .execute(&mut *tx)
        .await?;
    tx.commit().await
}

/// A lock of the server's that a trigger can wait for. Its name is the database's, since such locks are the whole server's.
pub(crate) async fn close_gate(connection: &mut MySqlConnection) {
    let taken: i64 = sqlx::query_scalar("SELECT GET_LOCK(CONCAT(DATABASE(), '.gate'), 0)")
        .fetch_one(connection)
        .await
        .expect("a lock");
    assert_eq!(taken, 1);
}

pub(crate) async fn open_gate(connection: &mut MySqlConnection) {
    sqlx::query("DO RELEASE_LOCK(CONCAT(DATABASE(), '.gate'))").execute(connection).await.expect("it was taken");
}

/// A trigger that goes through the gate when `condition` holds.
pub(crate) fn gated(name: &str, when: &str, condition: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!(
        "CREATE TRIGGER {name} {when} ON leastlock_outbox FOR EACH ROW BEGIN IF {condition} THEN \
         DO GET_LOCK(CONCAT(DATABASE(), '.gate'), 60); DO RELEASE_LOCK(CONCAT(DATABASE(), '.gate')); END IF; END"
    ))
}

fn push(values: &Values, value: Option<String>) {
    values.lock().expect("no panic").extend(value);
}
