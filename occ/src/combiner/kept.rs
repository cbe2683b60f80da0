//! A connection that is kept from one batch to the next, and how a transaction is begun on it.

use leastlock_core::Statement;
use sqlx::pool::PoolConnection;
use sqlx::{Pool, SqlStr};

use super::builder::Limits;
use super::sql::CombinerSql;

/// A connection of the pool. Whatever was set on it is undone before the pool has it again, or it is closed.
pub(super) struct Kept<DB: CombinerSql> {
    /// `None` once the pool has it, or it is closed.
    connection: Option<PoolConnection<DB>>,
    /// Known once a transaction has begun on it.
    begin: Option<SqlStr>,
    /// What gives it back its own bounds.
    release: Option<SqlStr>,
}

/// The statements that begin a transaction on connections with, and without, stricter bounds of their own.
#[derive(Debug, Clone)]
pub(super) struct Begins {
    bounds_ms: [i64; 2],
    /// By whether the connection's own bounds are stricter: of waits, of idling.
    texts: [[SqlStr; 2]; 2],
    /// Where bounds belong to the connection: what sets them, and what undoes that.
    on_connection: Option<[SqlStr; 2]>,
}

impl Begins {
    pub(super) fn of<DB: CombinerSql>(limits: &Limits) -> Self {
        let bounds = [limits.lock_wait, limits.attempt_time];
        let begin = |keeps_wait: bool, keeps_idle: bool| {
            DB::begin((!keeps_wait).then_some(bounds[0]), (!keeps_idle).then_some(bounds[1]))
        };
        Self {
            bounds_ms: bounds.map(|bound| i64::try_from(bound.as_millis()).unwrap_or(i64::MAX)),
            texts: [false, true].map(|keeps_wait| [false, true].map(|keeps_idle| begin(keeps_wait, keeps_idle))),
            on_connection: DB::on_connection(bounds[0], bounds[1]),
        }
    }
}

impl<DB: CombinerSql> Kept<DB> {
    /// # Cancel safety
    /// Dropped at any time, no connection goes back to the pool with bounds that are not its own.
    pub(super) async fn acquire(pool: &Pool<DB>, begins: &Begins) -> Result<Self, sqlx::Error> {
        let mut kept = Self { connection: Some(pool.acquire().await?), begin: None, release: None };
        if let Some([bound, release]) = &begins.on_connection {
            kept.release = Some(release.clone());
            Statement::new(bound.clone()).execute::<DB>(kept.connection()?).await?;
        }
        Ok(kept)
    }

    /// The connection; there is one until it is given back or closed.
    pub(super) fn connection(&mut self) -> Result<&mut DB::Connection, sqlx::Error> {
        self.connection.as_deref_mut().ok_or(sqlx::Error::PoolClosed)
    }

    /// The statement that begins a transaction on this connection. A bound of its own that is stricter stays.
    pub(super) async fn begin(&mut self, begins: &Begins) -> Result<SqlStr, sqlx::Error> {
        if let Some(begin) = &self.begin {
            return Ok(begin.clone());
        }
        let [keeps_wait, keeps_idle] = match DB::STRICTER {
            None => [false, false],
            Some(ask) => {
                let ask = Statement::new(ask).bind(begins.bounds_ms[0]).bind(begins.bounds_ms[1]);
                let row = ask.fetch_one::<DB>(self.connection()?).await?;
                [row.int(0)? == 1, row.int(1)? == 1]
            }
        };
        let begin = begins.texts[usize::from(keeps_wait)][usize::from(keeps_idle)].clone();
        self.begin = Some(begin.clone());
        Ok(begin)
    }

    /// Gives the connection back to the pool as it came.
    ///
    /// # Cancel safety
    /// Dropped before it is as it came, it is closed.
    pub(super) async fn give_back(mut self) {
        let Some(release) = self.release.clone() else { return };
        if let Ok(connection) = self.connection()
            && Statement::new(release).execute::<DB>(connection).await.is_ok()
        {
            self.release = None;
        }
    }

    /// Closes the connection without a word: the server ends whatever is open on it.
    pub(super) fn close(mut self) {
        self.detach();
    }

    fn detach(&mut self) {
        if let Some(connection) = self.connection.take() {
            drop(connection.detach());
        }
    }
}

impl<DB: CombinerSql> Drop for Kept<DB> {
    fn drop(&mut self) {
        if self.release.is_some() {
            self.detach();
        }
    }
}
