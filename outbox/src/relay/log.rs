//! Where a relay's events are kept, as the pipeline sees it.

use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};

use leastlock_core::{Statement, commit};
use sqlx::{Connection, Pool};
use tokio::sync::Mutex;

use crate::error::Error;
use crate::lag::Lag;
use crate::parked::log as parked;
use crate::parked::{ParkedLog, Queue, Tried};
use crate::relay::balance::Survey;
use crate::relay::connection::{LONGEST_IDLE_MS, Lent, bound_transaction};
use crate::relay::cursor::{Cursor, Note, Page, ReadFrom};
use crate::sink::LoggedEvent;
use crate::sql::OutboxSql;
use crate::sql::found::ReadLimit;

#[cfg(all(test, any(feature = "postgres", feature = "sqlite", feature = "mysql")))]
mod tests;

/// A log of events with shards, owners and positions.
///
/// # Contract
/// - [`read`](Self::read) answers, for each place, the next events that are committed and neither behind the place nor among
///   the unnoted ones: every event exactly once as the places move, the events of a key in the order of their commits,
///   however late a transaction commits. It may run at the same time as a note.
/// - [`note`](Self::note) moves nothing of a shard whose epoch is not the note's: it answers the shards that still are the
///   caller's. All notes of a call are one transaction.
/// - A position that a read answered holds for the server that it was read from. After a read that failed, positions are taken from
///   the next claim; and a note reaches no other server.
/// - No method holds a transaction or a lock once it has answered, or its future was dropped and the database has noticed; nor, where
///   the process was stopped in it, for longer than the lease of the last claim.
///
/// # Cancel safety
/// Each future may be dropped at any time; whether its statement took effect is then unknown.
pub trait Log: ParkedLog {
    /// Whether a position says what was published. Where it does not, because published events are deleted from the log, a
    /// read is told which events are on their way, and a note which were published.
    const POSITIONS: bool;

    /// Says that the relay `owner` is there for `stay_ms` more, and answers who else is and who holds which shard.
    fn survey(&self, owner: &str, stay_ms: i64) -> impl Future<Output = Result<Survey, Error>> + Send;

    /// Takes at most `most` of the shards `among` for `owner`: those that are free, or that are its own by name. It holds none of
    /// them, as far as it knows.
    fn claim(
        &self,
        owner: &str,
        among: &[i64],
        most: i64,
        lease_ms: i64,
    ) -> impl Future<Output = Result<Vec<Cursor>, Error>> + Send;

    /// Prolongs the lease of shards held at an epoch; answers the shards for which it did.
    fn renew(&self, held: &[(i64, i64)], lease_ms: i64) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;

    /// Remembers what a move to another cluster needs to know of shards held at an epoch. Nothing depends on it meanwhile.
    fn see(&self, held: &[(i64, i64)]) -> impl Future<Output = Result<(), Error>> + Send;

    /// Frees shards held at an epoch, of which nothing is on its way.
    fn give_up(&self, held: &[(i64, i64)]) -> impl Future<Output = Result<(), Error>> + Send;

    /// Remembers what has been published by now, at most once in `every_ms`, and forgets what events kept for `keep_ms` do not need.
    fn mark(&self, shards: &[i64], every_ms: i64, keep_ms: i64) -> impl Future<Output = Result<(), Error>> + Send;

    /// Deletes at most `limit` events of a shard that were published `keep_ms` ago; answers how many, and from where to go on
    /// ("0" at first).
    fn sweep(
        &self,
        shard: i64,
        keep_ms: i64,
        from: &str,
        limit: i64,
    ) -> impl Future<Output = Result<(u64, String), Error>> + Send;

    /// How far publishing is behind, where that can be told.
    fn lag(&self) -> impl Future<Output = Result<Option<Lag>, Error>> + Send;

    /// Gives an owner's shards back, and says that it is there no more.
    fn release(&self, owner: &str) -> impl Future<Output = Result<(), Error>> + Send;

    /// Reads the next page of each shard, within the limit; a page for each place, in the same order.
    fn read(&self, from: &[ReadFrom], limit: ReadLimit) -> impl Future<Output = Result<Vec<Page>, Error>> + Send;

    /// Notes what was published; answers the shards that still are the caller's.
    fn note(&self, notes: &[Note]) -> impl Future<Output = Result<Vec<i64>, Error>> + Send;
}

/// The log in the tables of a database. Statements other than reads borrow a connection of the pool for as long as they last;
/// the one that reads is kept, where the engine needs settings for reading.
#[derive(Debug)]
pub struct SqlLog<DB: OutboxSql> {
    pool: Pool<DB>,
    reader: Mutex<Option<Lent<DB>>>,
    /// The number of the last that there was.
    reader_number: AtomicI64,
    /// How long a transaction that holds a shard's row may be silent, in milliseconds: no longer than the shard is held.
    idle_ms: AtomicI64,
}

impl<DB: OutboxSql> SqlLog<DB> {
    pub(crate) fn of(pool: &Pool<DB>) -> Self {
        let (reader_number, idle_ms) = (AtomicI64::default(), AtomicI64::new(LONGEST_IDLE_MS));
        Self { pool: pool.clone(), reader: Mutex::default(), reader_number, idle_ms }
    }

    async fn new_reader(&self) -> Result<Lent<DB>, Error> {
        let (reader, number) = Lent::reader(&self.pool).await?;
        self.reader_number.store(number, Ordering::SeqCst);
        Ok(reader)
    }
}

impl<DB: OutboxSql> Log for SqlLog<DB> {
    const POSITIONS: bool = DB::POSITIONS;

    async fn survey(&self, owner: &str, stay_ms: i64) -> Result<Survey, Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let mut survey = DB::survey(&mut connection, owner, stay_ms).await?;
        if survey.waiting && DB::open_waiting(&mut connection).await.map_err(Error::database::<DB>)? > 0 {
            survey = DB::survey(&mut connection, owner, stay_ms).await?;
        }
        connection.give_back();
        Ok(survey)
    }

    async fn claim(&self, owner: &str, among: &[i64], most: i64, lease_ms: i64) -> Result<Vec<Cursor>, Error> {
        self.idle_ms.store(lease_ms.min(LONGEST_IDLE_MS), Ordering::SeqCst);
        // Before the positions are taken from the table: if the server is another one by the first read, this connection is lost. Where
        // a read is under way there is one.
        if let (Ok(mut kept), true) = (self.reader.try_lock(), DB::READER.is_some())
            && kept.is_none()
        {
            *kept = Some(self.new_reader().await?);
        }
        let mut connection = Lent::from(&self.pool).await?;
        let claimed = DB::claim(&mut connection, owner, among, most, lease_ms).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(claimed)
    }

    async fn renew(&self, held: &[(i64, i64)], lease_ms: i64) -> Result<Vec<i64>, Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let renewed = DB::renew(&mut connection, held, lease_ms).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(renewed)
    }

    async fn see(&self, held: &[(i64, i64)]) -> Result<(), Error> {
        let mut connection = Lent::from(&self.pool).await?;
        DB::see(&mut connection, held).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(())
    }

    async fn give_up(&self, held: &[(i64, i64)]) -> Result<(), Error> {
        let mut connection = Lent::from(&self.pool).await?;
        DB::give_up(&mut connection, held).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(())
    }

    async fn mark(&self, shards: &[i64], every_ms: i64, keep_ms: i64) -> Result<(), Error> {
        let mut connection = Lent::from(&self.pool).await?;
        DB::mark_published(&mut connection, shards, every_ms, keep_ms).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(())
    }

    async fn sweep(&self, shard: i64, keep_ms: i64, from: &str, limit: i64) -> Result<(u64, String), Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let swept = DB::sweep(&mut connection, shard, keep_ms, from, limit).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(swept)
    }

    async fn lag(&self) -> Result<Option<Lag>, Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let lag = Lag::read::<DB>(&mut connection).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(Some(lag))
    }

    async fn release(&self, owner: &str) -> Result<(), Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let release = Statement::new(DB::RELEASE).bind(owner);
        release.execute::<DB>(&mut connection).await.map_err(Error::database::<DB>)?;
        DB::leave(&mut connection, owner).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(())
    }

    async fn read(&self, from: &[ReadFrom], limit: ReadLimit) -> Result<Vec<Page>, Error> {
        // Reads come one at a time, so nobody waits here.
        let mut kept = self.reader.lock().await;
        let mut connection = match kept.take() {
            Some(reader) => reader,
            None => self.new_reader().await?,
        };
        // Dropped half-way, or after an error, the connection is closed and the next read opens another.
        let pages = DB::read(&mut connection, from, limit).await?;
        if DB::READER.is_some() {
            *kept = Some(connection);
        } else {
            connection.give_back();
        }
        Ok(pages)
    }

    async fn note(&self, notes: &[Note]) -> Result<Vec<i64>, Error> {
        // Before anything is waited for: the notes are of what this one has read.
        let reader = self.reader_number.load(Ordering::SeqCst);
        let mut connection = Lent::from(&self.pool).await?;
        let idle_ms = self.idle_ms.load(Ordering::SeqCst);
        let own = DB::note(&mut connection, notes, reader, idle_ms).await.map_err(Error::database::<DB>)?;
        connection.give_back();
        Ok(own)
    }
}

impl<DB: OutboxSql> ParkedLog for SqlLog<DB> {
    async fn blocked(&self, shard: i64, limit: i64) -> Result<Vec<Queue>, Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let blocked = parked::blocked::<DB>(&mut connection, shard, limit).await?;
        connection.give_back();
        Ok(blocked)
    }

    async fn blocked_among(&self, queues: &[Queue]) -> Result<Vec<Queue>, Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let blocked = parked::blocked_among::<DB>(&mut connection, queues).await?;
        connection.give_back();
        Ok(blocked)
    }

    async fn asked(&self, shards: &[i64], after: Option<Queue>, limit: i64) -> Result<Vec<(i64, Queue)>, Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let asked = parked::asked::<DB>(&mut connection, shards, after, limit).await?;
        connection.give_back();
        Ok(asked)
    }

    async fn head(&self, shard: i64, queue: Queue, limit: ReadLimit) -> Result<Vec<LoggedEvent>, Error> {
        let mut connection = Lent::from(&self.pool).await?;
        let head = parked::head::<DB>(&mut connection, shard, queue, limit).await?;
        connection.give_back();
        Ok(head)
    }

    async fn settle(&self, shard: i64, epoch: i64, tried: &[Tried]) -> Result<Option<Vec<Queue>>, Error> {
        let idle_ms = self.idle_ms.load(Ordering::SeqCst);
        let mut connection = Lent::holding(&self.pool, idle_ms).await?;
        let mut tx = connection.begin_with(DB::BEGIN_WRITE).await.map_err(Error::database::<DB>)?;
        bound_transaction::<DB>(&mut tx, idle_ms).await.map_err(Error::database::<DB>)?;
        let gone = parked::settle::<DB>(&mut tx, shard, epoch, tried).await?;
        if gone.is_some() {
            commit(tx).await.map_err(Error::database::<DB>)?;
        } else {
            tx.rollback().await.map_err(Error::database::<DB>)?;
        }
        connection.give_back();
        Ok(gone)
    }
}
