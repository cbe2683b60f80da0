//! Hand-written readers and writers, each with one mistake that has been made in public.

use leastlock_outbox::{Outbox, OutboxSql};
use leastlock_testkit::TestEngine;
use sqlx::Pool;

/// Appends on a connection of its own, beside the business transaction instead of inside it.
pub(crate) async fn append_beside<DB: TestEngine + OutboxSql>(outbox: &Outbox, pool: &Pool<DB>, value: &str) {
    crate::readers::commit(outbox, pool, "k", value).await;
}

#[cfg(feature = "postgres")]
pub(crate) use postgres::{by_id_cursor, by_visible_horizon, by_xid_order};

#[cfg(feature = "postgres")]
mod postgres {
    use std::time::Duration;

    use sqlx::{PgPool, Row};

    use crate::readers::{Reading, Values};

    const VALUE: &str = "convert_from(value, 'UTF8')";

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
