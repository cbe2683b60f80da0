//! A connection that is kept from one batch to the next, and how a transaction is begun on it.

use leastlock_core::Statement;
use sqlx::pool::PoolConnection;
use sqlx::{Pool, SqlStr};

use super::builder::Limits;
use super::sql::CombinerSql;

/// A connection of the pool.
pub(super) struct Kept<DB: CombinerSql> {
    pub(super) connection: PoolConnection<DB>,
    /// Known once a transaction has begun on it.
    begin: Option<SqlStr>,
}

/// The statements that begin a transaction on connections with, and without, stricter bounds of their own.
#[derive(Debug, Clone)]
pub(super) struct Begins {
    bounds_ms: [i64; 2],
    /// By whether the connection's own bounds are stricter: of waits, of idling.
    texts: [[SqlStr; 2]; 2],
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
        }
    }
}

impl<DB: CombinerSql> Kept<DB> {
    pub(super) async fn acquire(pool: &Pool<DB>) -> Result<Self, sqlx::Error> {
        Ok(Self { connection: pool.acquire().await?, begin: None })
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
                let row = ask.fetch_one::<DB>(&mut self.connection).await?;
                [row.int(0)? == 1, row.int(1)? == 1]
            }
        };
        let begin = begins.texts[usize::from(keeps_wait)][usize::from(keeps_idle)].clone();
        self.begin = Some(begin.clone());
        Ok(begin)
    }
}
