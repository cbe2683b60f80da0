//! The double of B18: a follower with a limit of its own, which has nothing to do with the lease.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_outbox::OutboxSql;
use leastlock_testkit::TestEngine;
use sqlx::Pool;
use tokio::task::JoinHandle;

/// Takes what has not been renewed for four seconds beyond its lease; peers wait for minutes.
pub(crate) fn follower<DB: TestEngine + OutboxSql>(pool: &Pool<DB>) -> JoinHandle<()> {
    let take = match DB::ENGINE {
        Engine::Sqlite => {
            "UPDATE leastlock_outbox_shard SET owner = 'late', epoch = epoch + 1, lease_until = lease_until + 600000 \
             WHERE lease_until < CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) - 4000"
        }
        Engine::MySql => {
            "UPDATE leastlock_outbox_shard SET owner = 'late', epoch = epoch + 1, \
             lease_until = lease_until + INTERVAL 10 MINUTE WHERE lease_until < UTC_TIMESTAMP(6) - INTERVAL 4 SECOND"
        }
        _ => {
            "UPDATE leastlock_outbox_shard SET owner = 'late', epoch = epoch + 1, \
             lease_until = lease_until + interval '10 minutes' WHERE lease_until < clock_timestamp() - interval '4 seconds'"
        }
    };
    let pool = pool.clone();
    tokio::spawn(async move {
        loop {
            let mut connection = pool.acquire().await.expect("a connection");
            Statement::new(take).execute::<DB>(&mut connection).await.expect("it looks");
            drop(connection);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
}
