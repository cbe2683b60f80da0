//! A relay's lease on its shards, kept by a heartbeat that runs apart from publishing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leastlock_core::Statement;
use sqlx::Pool;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::error::Error;
use crate::relay::cursor::Cursor;
use crate::sql::OutboxSql;

/// What the client's clock may differ from the database's while a lease lasts, besides a hundredth of it.
const DRIFT: Duration = Duration::from_millis(2);

/// Who this relay is, and until when its shards are certainly its own.
#[derive(Debug, Clone)]
pub(crate) struct Ownership {
    owner: String,
    lease: Duration,
    deadline: Arc<Mutex<Instant>>,
}

impl Ownership {
    /// A new owner, whose name no other run of a relay has.
    pub(crate) fn new(lease: Duration) -> Self {
        Self { owner: Uuid::new_v4().to_string(), lease, deadline: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Until when this relay may publish.
    pub(crate) fn deadline(&self) -> Instant {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline()
    }

    /// Takes every free shard.
    pub(crate) async fn claim<DB: OutboxSql>(&self, pool: &Pool<DB>) -> Result<Vec<Cursor>, Error> {
        let mut connection = pool.acquire().await.map_err(Error::database::<DB>)?;
        let sent = Instant::now();
        let claimed = DB::claim(&mut connection, &self.owner, self.lease_ms()).await.map_err(Error::database::<DB>)?;
        // Shards held already were renewed at another time; theirs is the earlier deadline, and it stands.
        if !claimed.is_empty() && self.is_over() {
            self.confirm(sent);
        }
        Ok(claimed)
    }

    /// Renews every third of the lease until `stop`. A renewal that is refused or fails leaves the deadline where it was.
    pub(crate) async fn keep<DB: OutboxSql>(self, pool: Pool<DB>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.lease / 3) => {}
            }
            let renewed = tokio::select! {
                () = stop.cancelled() => return,
                renewed = tokio::time::timeout(self.lease / 3, self.renew(&pool)) => renewed,
            };
            match renewed {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the outbox shards' lease was not renewed"),
                Err(_) => tracing::warn!("the renewal of the outbox shards' lease got no answer"),
            }
        }
    }

    /// Gives all shards back, so that another relay need not wait for the lease to end.
    pub(crate) async fn release<DB: OutboxSql>(&self, pool: &Pool<DB>) -> Result<(), Error> {
        let mut connection = pool.acquire().await.map_err(Error::database::<DB>)?;
        let release = Statement::new(DB::RELEASE).bind(&self.owner);
        release.execute::<DB>(&mut connection).await.map_err(Error::database::<DB>)?;
        Ok(())
    }

    async fn renew<DB: OutboxSql>(&self, pool: &Pool<DB>) -> Result<(), Error> {
        let mut connection = pool.acquire().await.map_err(Error::database::<DB>)?;
        let sent = Instant::now();
        let renew = Statement::new(DB::RENEW).bind(&self.owner).bind(self.lease_ms());
        if renew.execute::<DB>(&mut connection).await.map_err(Error::database::<DB>)? > 0 {
            self.confirm(sent);
        }
        Ok(())
    }

    /// The lease runs from the moment the confirmed statement was sent, the earliest at which the database can have run it.
    fn confirm(&self, sent: Instant) {
        let drift = self.lease / 100 + DRIFT;
        let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        *deadline = (*deadline).max(sent + self.lease.saturating_sub(drift));
    }

    fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}
