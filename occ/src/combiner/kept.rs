//! A connection that is kept from one batch to the next, and how a transaction is begun on it.

use std::time::Duration;

use leastlock_core::Statement;
use sqlx::pool::PoolConnection;
use sqlx::{Pool, SqlStr};

use super::builder::{Limits, MAX_TIME};
use super::sql::CombinerSql;

/// A connection of the pool. Whatever was set on it is undone before the pool has it again, or it is closed.
pub(super) struct Kept<DB: CombinerSql> {
    /// `None` once the pool has it, or it is closed.
    connection: Option<PoolConnection<DB>>,
    /// The bounds in force on it, of waits and of idling; known once a transaction has begun on it.
    own: Option<[Option<Duration>; 2]>,
    /// What begins a transaction whose wait is not shared; known once one has begun on it.
    begin: Option<SqlStr>,
    /// How often the wait is halved that the connection was left with, where waits are bounded by connection.
    halvings: u32,
    /// What gives it back its own bounds.
    release: Option<SqlStr>,
}

/// How transactions are bounded.
#[derive(Debug, Clone)]
pub(super) struct Begins {
    lock_wait: Duration,
    idle: Duration,
    /// Where bounds belong to the connection: what sets them, and what undoes that.
    on_connection: Option<[SqlStr; 2]>,
}

impl Begins {
    pub(super) fn of<DB: CombinerSql>(limits: &Limits) -> Self {
        let (lock_wait, idle) = (limits.lock_wait, limits.attempt_time);
        Self { lock_wait, idle, on_connection: DB::on_connection(lock_wait, idle) }
    }

    /// What each transaction may wait for one lock when a wait is shared by so many.
    fn share(&self, halvings: u32) -> Duration {
        (self.lock_wait / 2_u32.saturating_pow(halvings)).max(Duration::from_millis(1))
    }
}

impl<DB: CombinerSql> Kept<DB> {
    /// # Cancel safety
    /// Dropped at any time, no connection goes back to the pool with bounds that are not its own.
    pub(super) async fn acquire(pool: &Pool<DB>, begins: &Begins) -> Result<Self, sqlx::Error> {
        let mut kept =
            Self { connection: Some(pool.acquire().await?), own: None, begin: None, halvings: 0, release: None };
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
    pub(super) async fn begin(&mut self, begins: &Begins, halvings: u32) -> Result<SqlStr, sqlx::Error> {
        if halvings == self.halvings
            && halvings == 0
            && let Some(begin) = &self.begin
        {
            return Ok(begin.clone());
        }
        let is_stricter = |bound: Duration, own: Option<Duration>| own.is_none_or(|own| bound < own);
        let share = begins.share(halvings);
        let Some(ask) = DB::OWN_BOUNDS else {
            // The connection keeps what the last one was begun with.
            let is_new = std::mem::replace(&mut self.halvings, halvings) != halvings;
            return Ok(DB::begin(is_new.then_some(if halvings == 0 { MAX_TIME } else { share }), Some(begins.idle)));
        };
        let [wait, idle] = if let Some(own) = self.own {
            own
        } else {
            let row = Statement::new(ask).fetch_one::<DB>(self.connection()?).await?;
            let bound = |ms: i64| u64::try_from(ms).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
            *self.own.insert([bound(row.int(0)?), bound(row.int(1)?)])
        };
        let begin =
            DB::begin(is_stricter(share, wait).then_some(share), is_stricter(begins.idle, idle).then_some(begins.idle));
        if halvings == 0 {
            self.begin = Some(begin.clone());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_batch_wait_no_longer_than_the_whole() {
        let begins = Begins { lock_wait: Duration::from_secs(2), idle: MAX_TIME, on_connection: None };
        assert_eq!(begins.share(0), begins.lock_wait);
        for halvings in 1..=10 {
            assert!(begins.share(halvings) * 2_u32.pow(halvings) <= begins.lock_wait, "{halvings}");
        }
        assert_eq!(begins.share(40), Duration::from_millis(1), "the least that a server counts");
    }
}
