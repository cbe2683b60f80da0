//! Hand-written readers and writers, each with one mistake that has been made in public.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_outbox::{Outbox, OutboxSql};
use leastlock_testkit::TestEngine;
use sqlx::{Pool, Transaction};

use crate::answers::Held;
use crate::readers::{Appender, Reading, commit};

/// Appends on a connection of its own, beside the business transaction instead of inside it. Before it begins: SQLite's one
/// write lock would not let it in later.
pub(crate) struct Beside;

impl Appender for Beside {
    async fn before<DB: TestEngine + OutboxSql>(&self, outbox: &Outbox, pool: &Pool<DB>, value: &str) {
        commit(outbox, pool, "k", value).await;
    }

    async fn inside<DB: TestEngine + OutboxSql>(&self, _outbox: &Outbox, _tx: &mut Transaction<'_, DB>, _value: &str) {}
}

/// A hand-written loop that publishes inside the transaction in which it locks what it read.
pub(crate) fn locking_loop<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, held: Held) -> Reading {
    let pool = pool.clone();
    Reading::start(|values| async move {
        let lock = match DB::ENGINE {
            Engine::Sqlite => "SELECT CAST(value AS TEXT) FROM leastlock_outbox",
            Engine::MySql => "SELECT CONVERT(value USING utf8mb4) FROM leastlock_outbox FOR UPDATE",
            _ => "SELECT convert_from(value, 'UTF8') FROM leastlock_outbox FOR UPDATE",
        };
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let rows = Statement::new(lock).fetch_all::<DB>(&mut tx).await.expect("it reads");
        held.entered.notify_one();
        held.let_go.notified().await;
        values.lock().expect("no panic").extend(rows.iter().map(|row| row.text(0).expect("text")));
        Statement::new("DELETE FROM leastlock_outbox").execute::<DB>(&mut tx).await.expect("it deletes");
        tx.commit().await.expect("it commits");
    })
}

/// A relay that renews its lease in the same loop in which it publishes.
pub(crate) fn renewing_between_batches<DB: TestEngine + OutboxSql>(
    pool: &Pool<DB>,
    lease: Duration,
    held: Held,
) -> Reading {
    let pool = pool.clone();
    let lease_ms = i64::try_from(lease.as_millis()).expect("a short lease");
    Reading::start(move |values| async move {
        let (claim, read) = match DB::ENGINE {
            Engine::Sqlite => (
                "UPDATE leastlock_outbox_shard SET owner = 'double', epoch = epoch + 1, \
                 lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $1",
                "SELECT CAST(value AS TEXT) FROM leastlock_outbox",
            ),
            Engine::MySql => (
                "UPDATE leastlock_outbox_shard SET owner = 'double', epoch = epoch + 1, \
                 lease_until = UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND",
                "SELECT CONVERT(value USING utf8mb4) FROM leastlock_outbox",
            ),
            _ => (
                "UPDATE leastlock_outbox_shard SET owner = 'double', epoch = epoch + 1, \
                 lease_until = clock_timestamp() + $1::bigint * interval '1 millisecond'",
                "SELECT convert_from(value, 'UTF8') FROM leastlock_outbox",
            ),
        };
        let mut connection = pool.acquire().await.expect("a connection");
        Statement::new(claim).bind(lease_ms).execute::<DB>(&mut connection).await.expect("it claims");
        let rows = Statement::new(read).fetch_all::<DB>(&mut connection).await.expect("it reads");
        drop(connection);
        held.entered.notify_one();
        held.let_go.notified().await;
        values.lock().expect("no panic").extend(rows.iter().map(|row| row.text(0).expect("text")));
    })
}

#[cfg(feature = "postgres")]
pub(crate) use postgres::{UNTIL_OTHERS_END, by_id_cursor, by_owner_name, by_visible_horizon, by_xid_order};

#[cfg(feature = "postgres")]
mod postgres {
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use sqlx::{PgPool, Row};

    use crate::readers::{Reading, Values};

    const VALUE: &str = "convert_from(value, 'UTF8')";

    /// How long what stalls behind open writers may do so: behind all of the server's, and other tests have some.
    pub(crate) const UNTIL_OTHERS_END: Duration = Duration::from_mins(3);

    /// `id > cursor`: what commits below the cursor is lost.
    pub(crate) fn by_id_cursor(pool: &PgPool) -> Reading {
        let sql = format!("SELECT id, {VALUE} FROM leastlock_outbox WHERE id > $1 ORDER BY id");
        polling(pool, sql, |row| row.get(0))
    }

    /// The snapshot difference with its pages in the order of transaction ids: a key whose older transaction committed last is turned
    /// round.
    pub(crate) fn by_xid_order(pool: &PgPool) -> Reading {
        let pool = pool.clone();
        Reading::start(|values| async move {
            let mut done = "1:1:".to_owned();
            let sql = format!(
                "SELECT pg_current_snapshot()::text, {VALUE} FROM (SELECT 1) AS one LEFT JOIN leastlock_outbox ON \
                 pg_visible_in_snapshot(xid, pg_current_snapshot()) AND NOT pg_visible_in_snapshot(xid, $1::pg_snapshot) \
                 ORDER BY xid, id"
            );
            loop {
                let rows = sqlx::query(sqlx::AssertSqlSafe(sql.clone())).bind(&done).fetch_all(&pool).await;
                for row in rows.expect("it reads") {
                    done = row.get(0);
                    push(&values, row.get::<Option<String>, _>(1));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    /// `xid < pg_snapshot_xmin(…)`: loses nothing, and stalls behind any open writer.
    pub(crate) fn by_visible_horizon(pool: &PgPool) -> Reading {
        let sql = format!(
            "SELECT xid::text::bigint, {VALUE} FROM leastlock_outbox WHERE xid > $1::bigint::text::xid8 \
             AND xid < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY xid, id"
        );
        polling(pool, sql, |row| row.get(0))
    }

    /// A relay whose heartbeat prolongs whatever bears its name: what it lost sight of is never free again.
    pub(crate) fn by_owner_name(pool: &PgPool, lease: Duration) -> Reading {
        let pool = pool.clone();
        Reading::start(move |values| async move {
            let deadline = Arc::new(Mutex::new(Instant::now()));
            let heartbeat = renew_by_name(&pool, lease, &deadline);
            let relay = deliver(&pool, lease, &deadline, &values);
            tokio::join!(heartbeat, relay);
        })
    }

    async fn renew_by_name(pool: &PgPool, lease: Duration, deadline: &Mutex<Instant>) {
        let renew = "UPDATE leastlock_outbox_shard SET lease_until = clock_timestamp() + $1 \
            WHERE owner = 'double' AND lease_until > clock_timestamp()";
        loop {
            tokio::time::sleep(lease / 3).await;
            let sent = Instant::now();
            let renewed = tokio::time::timeout(lease / 3, sqlx::query(renew).bind(lease).execute(pool)).await;
            if renewed.is_ok_and(|renewed| renewed.is_ok_and(|renewed| renewed.rows_affected() > 0)) {
                *deadline.lock().expect("no panic") = sent + lease;
            }
        }
    }

    async fn deliver(pool: &PgPool, lease: Duration, deadline: &Mutex<Instant>, values: &Values) {
        let claim = "UPDATE leastlock_outbox_shard AS s SET owner = 'double', epoch = s.epoch + 1, \
            lease_until = clock_timestamp() + $1 WHERE lease_until IS NULL OR lease_until <= clock_timestamp() \
            RETURNING shard";
        let read = format!("SELECT id, shard, {VALUE} FROM leastlock_outbox WHERE shard = ANY ($1) ORDER BY id");
        let note = "UPDATE leastlock_outbox_shard SET done = done, last_id = $1 WHERE shard = $2";
        let (mut held, mut published) = (Vec::<i16>::new(), HashMap::<i16, i64>::new());
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let over = *deadline.lock().expect("no panic") < Instant::now();
            if over {
                held.clear();
            }
            let sent = Instant::now();
            let claiming = sqlx::query_scalar::<_, i16>(claim).bind(lease).fetch_all(pool);
            let Ok(Ok(claimed)) = tokio::time::timeout(lease, claiming).await else { continue };
            if over && !claimed.is_empty() {
                *deadline.lock().expect("no panic") = sent + lease;
            }
            held.extend(claimed);
            let rows = sqlx::query(sqlx::AssertSqlSafe(read.clone())).bind(&held).fetch_all(pool).await;
            for row in rows.expect("it reads") {
                let (id, shard): (i64, i16) = (row.get(0), row.get(1));
                if published.get(&shard).is_none_or(|&last| last < id) {
                    push(values, row.get(2));
                    published.insert(shard, id);
                    sqlx::query(note).bind(id).bind(shard).execute(pool).await.expect("it notes");
                }
            }
        }
    }

    fn polling(pool: &PgPool, sql: String, cursor: fn(&sqlx::postgres::PgRow) -> i64) -> Reading {
        let pool = pool.clone();
        Reading::start(move |values| async move {
            let mut last = 0_i64;
            loop {
                let rows = sqlx::query(sqlx::AssertSqlSafe(sql.clone())).bind(last).fetch_all(&pool).await;
                for row in rows.expect("it reads") {
                    last = last.max(cursor(&row));
                    push(&values, row.get(1));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    }

    fn push(values: &Values, value: Option<String>) {
        values.lock().expect("no panic").extend(value);
    }
}
