//! How many messages of one run wait for an answer, counted on the way to the server.

use std::sync::{Arc, Mutex, PoisonError};

use fastrand::Rng;
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use leastlock_testkit::proxy::{FaultProxy, Proxied, Then};
use sqlx::Pool;

use super::KeyEngine;
use super::steps::{Steps, Work};
use crate::engine::BenchEngine;

/// Of each work, in the order of [`Work::ALL`].
pub(super) type RoundTrips = [u64; Work::ALL.len()];

/// A connection whose messages are counted.
#[derive(Debug)]
pub(crate) struct Watched<DB: sqlx::Database> {
    pool: Pool<DB>,
    executed: Arc<Mutex<Vec<String>>>,
    _proxy: FaultProxy,
}

/// An engine whose messages can be counted, if there are any.
pub(crate) trait Watchable: BenchEngine {
    /// One connection to the database at `url`; `None` if the engine is in this process.
    fn watched(url: &str) -> impl Future<Output = anyhow::Result<Option<Watched<Self>>>> + Send;
}

impl Watchable for Postgres {
    async fn watched(url: &str) -> anyhow::Result<Option<Watched<Self>>> {
        watched(url).await.map(Some)
    }
}

impl Watchable for MySql {
    async fn watched(url: &str) -> anyhow::Result<Option<Watched<Self>>> {
        watched(url).await.map(Some)
    }
}

impl Watchable for Sqlite {
    async fn watched(_url: &str) -> anyhow::Result<Option<Watched<Self>>> {
        Ok(None)
    }
}

async fn watched<DB: BenchEngine + Proxied>(url: &str) -> anyhow::Result<Watched<DB>> {
    let proxy = DB::proxy(url).await;
    let pool = DB::pool(&DB::through(&proxy, url), 1).await?;
    let executed = Arc::<Mutex<Vec<String>>>::default();
    let log = Arc::clone(&executed);
    let record = move |sql: &str| {
        log.lock().unwrap_or_else(PoisonError::into_inner).push(sql.to_owned());
        // Nothing is lost: the proxy is here to read along.
        false
    };
    proxy.swallow_reply_to(record, Then::Cut);
    Ok(Watched { pool, executed, _proxy: proxy })
}

/// The round trips of each work, in its order; `None` where there are none, or where they cannot be read (encryption).
///
/// sqlx's ping when a connection goes back to its pool is not counted, nor are statements that are prepared: each work is done
/// once before.
pub(super) async fn of<DB: KeyEngine>(steps: &Steps<DB>, url: &str) -> anyhow::Result<Option<RoundTrips>> {
    let Some(watched) = DB::watched(url).await? else { return Ok(None) };
    let mut rng = Rng::with_seed(1);
    let mut counts = [0; Work::ALL.len()];
    for (work, count) in Work::ALL.into_iter().zip(&mut counts) {
        steps.work(&watched.pool, work, &mut rng).await?;
        watched.executed.lock().unwrap_or_else(PoisonError::into_inner).clear();
        steps.work(&watched.pool, work, &mut rng).await?;
        *count = watched.executed.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    }
    watched.pool.close().await;
    Ok((counts[0] > 0).then_some(counts))
}
