//! `NOTIFY` in the transaction of a release, `LISTEN` on a connection of the process's waiters.

use std::time::Duration;

use leastlock_core::Statement;
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Pool, Postgres};
use tokio::time::{Instant, sleep, timeout};

use super::{Bell, Bells};
use crate::lock_name::LockName;
use crate::store::{Pause, Waiter, milliseconds};

const AWAIT: &str = include_str!("../../sql/postgres/await.sql");
/// The channel that release.sql notifies on; the payload is the lock's name.
const CHANNEL: &str = "leastlock_lease";
/// For how long a release notifies after somebody has waited. Waiters that stay longer say so again.
const AWAITED: Duration = Duration::from_secs(30);

/// A waiter on PostgreSQL: it is notified of a release.
#[derive(Debug)]
pub struct PostgresWaiter {
    pool: Pool<Postgres>,
    bell: Bell,
    /// Until when the row says that somebody waits.
    marked: Option<Instant>,
}

impl PostgresWaiter {
    pub(crate) fn new(pool: &Pool<Postgres>, bells: &Bells, name: &LockName) -> Self {
        Self { pool: pool.clone(), bell: bells.hang(name), marked: None }
    }

    /// Has the next release notify; `false` if there is nothing to wait for.
    async fn mark(&mut self) -> Result<bool, sqlx::Error> {
        let marked = Instant::now() + AWAITED;
        let mut connection = self.pool.acquire().await?;
        let mark = Statement::new(AWAIT).bind(milliseconds(AWAITED)).bind(self.bell.name().as_str());
        let held = mark.execute::<Postgres>(&mut connection).await? > 0;
        self.marked = held.then_some(marked);
        Ok(held)
    }
}

impl Waiter for PostgresWaiter {
    async fn wait(&mut self, pause: Pause) {
        let pool = self.pool.clone();
        if !self.bell.is_heard(pause.poll, move |bells| listen(pool, bells)).await {
            return;
        }
        if self.marked.is_none_or(|marked| marked.saturating_duration_since(Instant::now()) < pause.relying) {
            // Once it is marked, whatever comes is heard; what came before shows in the answer.
            match timeout(pause.relying, self.mark()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return,
                Ok(Err(_)) | Err(_) => return sleep(pause.poll).await,
            }
        }
        self.bell.rung(pause.relying).await;
    }
}

/// On a connection of its own, since one of the pool's would be missing there. Ends when it fails, or when nobody waits.
async fn listen(pool: Pool<Postgres>, bells: Bells) {
    let own = PgPoolOptions::new().max_connections(1).idle_timeout(None).max_lifetime(None);
    let own = own.connect_lazy_with(pool.connect_options().as_ref().clone());
    drop(pool);
    let Ok(mut listener) = PgListener::connect_with(&own).await else { return };
    if listener.listen(CHANNEL).await.is_err() {
        return;
    }
    bells.listening();
    let mut unused = std::pin::pin!(bells.unused());
    loop {
        tokio::select! {
            heard = listener.try_recv() => match heard {
                Ok(Some(release)) => bells.ring(release.payload()),
                // The connection was lost, and is there again: what came between is not known.
                Ok(None) => bells.ring_all(),
                Err(_) => return,
            },
            () = &mut unused => return,
        }
    }
}
