//! Hand-written clean-ups, each with one mistake that has been made in public.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_outbox::OutboxSql;
use leastlock_testkit::{TestEngine, database::sql};
use sqlx::Pool;
use tokio::task::JoinHandle;

/// Deletes by the age of a row: what could not be published for that long is lost.
pub(crate) fn by_age<DB: TestEngine + OutboxSql>(pool: &Pool<DB>) -> JoinHandle<()> {
    let by_age = match DB::ENGINE {
        Engine::Sqlite => {
            "DELETE FROM leastlock_outbox \
             WHERE created_at < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - 1000"
        }
        _ => "DELETE FROM leastlock_outbox WHERE created_at < clock_timestamp() - interval '1 second'",
    };
    deleting(pool, by_age)
}

/// Deletes what is published as soon as it is: nothing can be published again.
pub(crate) fn at_once<DB: TestEngine + OutboxSql>(pool: &Pool<DB>) -> JoinHandle<()> {
    let at_once = match DB::ENGINE {
        Engine::Sqlite => "DELETE FROM leastlock_outbox WHERE id <= (SELECT last_id FROM leastlock_outbox_shard)",
        _ => {
            "DELETE FROM leastlock_outbox AS o USING leastlock_outbox_shard AS s \
             WHERE s.shard = o.shard AND pg_visible_in_snapshot(o.xid, s.done)"
        }
    };
    deleting(pool, at_once)
}

/// Deletes nothing.
pub(crate) fn never<DB: TestEngine + OutboxSql>(pool: &Pool<DB>) -> JoinHandle<()> {
    deleting(pool, sql::<DB>("DELETE FROM leastlock_outbox WHERE id < 0", ""))
}

fn deleting<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, delete: &'static str) -> JoinHandle<()> {
    let pool = pool.clone();
    tokio::spawn(async move {
        loop {
            let mut connection = pool.acquire().await.expect("a connection");
            Statement::new(delete).execute::<DB>(&mut connection).await.expect("it deletes");
            drop(connection);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
}
