//! Concurrent operations, applied together: flat combining, also known as group commit.
//!
//! One hot row takes as many conditional updates a second as the server commits one after the other, however many clients
//! there are: each waits for the row's lock while the one before it waits for the disk. A [`Combiner`] applies everything
//! that arrived during one commit in the next: one transaction, one wait for the disk, and the lock is taken once. Nothing is
//! delayed to fill a batch.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leastlock_occ::combiner::{Apply, Batch, BatchError, Combiner, CombinerSql};
//! use sqlx::{Sqlite, SqliteConnection, Transaction};
//!
//! /// Adds to a counter; each caller learns the sum after its own addition.
//! struct Add;
//!
//! impl Apply<Sqlite> for Add {
//!     type Operation = i64;
//!     type Answer = i64;
//!
//!     async fn apply(&self, tx: &mut Transaction<'_, Sqlite>, batch: &mut Batch<i64, i64>) -> Result<(), BatchError> {
//!         let total: i64 = batch.operations().iter().sum();
//!         let after: i64 = sqlx::query_scalar("UPDATE counter SET value = value + $1 RETURNING value")
//!             .bind(total)
//!             .fetch_one(&mut **tx)
//!             .await?;
//!         let mut value = after - total;
//!         for (index, added) in batch.operations().to_vec().into_iter().enumerate() {
//!             value += added;
//!             batch.answer(index, value);
//!         }
//!         Ok(())
//!     }
//!
//!     // One statement would do here, but a transaction is as good.
//!     async fn apply_at_once(&self, _: &mut SqliteConnection, _: &[i64]) -> Result<Option<Vec<i64>>, BatchError> {
//!         Ok(None)
//!     }
//!
//!     fn absorbs_repeats(&self, _operation: &i64) -> bool {
//!         false
//!     }
//! }
//!
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # sqlx::raw_sql("CREATE TABLE counter (value INTEGER NOT NULL); INSERT INTO counter VALUES (0)").execute(&pool).await?;
//! let combiner = Combiner::builder(&pool, Add).build()?;
//! let (one, two) = tokio::join!(combiner.submit(1), combiner.submit(2));
//! assert_eq!((one?, two?), (1, 3));
//! combiner.close(std::time::Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! Other processes and plain transactions need not take part: what [`Apply`] does in its transaction decides, under the locks
//! that it takes. For units of stock, seats or credit there is a ready one: [`StockCounter`](crate::StockCounter).

mod apply;
mod aside;
mod attempt;
mod batch;
mod builder;
mod committer;
mod error;
mod fate;
mod group;
mod kept;
mod queue;
mod sql;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::DropGuard;
use tokio_util::task::TaskTracker;

pub use self::apply::Apply;
pub use self::batch::Batch;
pub use self::builder::{CombinerBuilder, LimitError};
pub use self::error::{BatchError, CombineError};
pub use self::queue::Pending;
pub use self::sql::CombinerSql;

pub(crate) use self::attempt::still_open;

use self::builder::Limits;
use self::committer::Committer;
use self::kept::Begins;
use self::queue::{Arrivals, Ending, Queued};

/// Applies the operations of many callers in one transaction a batch, each answered alone.
///
/// # What it guarantees
/// - Operations are applied in the order of their arrival (with one committer, the default), and each is answered only after
///   the commit of its batch. The one exception: an operation that waits in vain for somebody else's lock, or takes too long,
///   is overtaken by those that need not wait; then also by later ones that want the same row.
/// - An operation that fails does not fail its batch: the batch is rolled back and split until the operation is alone, and
///   the others are answered as if alone, still in the order of arrival. An operation that *refuses* (its answer says no)
///   costs nothing of this.
/// - A deadlock, a serialization failure or a connection that was not to be had repeats the whole batch, with pauses, up to a limit.
/// - A commit whose reply was lost is looked up (`pg_xact_status` on PostgreSQL), or applied again where a repeat is absorbed,
///   or answered [`Unknown`](CombineError::Unknown); never answered by guess.
/// - The queue, the batch, the attempts and every wait are bounded.
///
/// # What it does not
/// - Between processes there is no order but that of the locks that [`Apply`] takes.
/// - Somebody else's lock delays those who need not wait for it: each batch with operations that want it by
///   [`lock_wait`](CombinerBuilder::lock_wait) and, while the batch is split, as much again at most for each time that it can
///   be halved, however many these operations are. So does each later try of those that were set aside. An operation that waits
///   has its answer after [`attempts`](CombinerBuilder::attempts) such tries, between two of which there is a batch of what
///   arrived meanwhile; and one of others that were set aside, for each [`max_batch`](CombinerBuilder::max_batch) of them.
///
/// Clones are handles to the same queue. When the last one is dropped, the batch under way ends and what is still queued is
/// answered [`Closed`](CombineError::Closed).
pub struct Combiner<DB: CombinerSql, A: Apply<DB>> {
    // Dropped in this order: the last handle's end must be known before the queue is seen to be closed.
    handle: Arc<Handle>,
    queue: mpsc::Sender<Queued<A::Operation, A::Answer>>,
    database: std::marker::PhantomData<fn() -> DB>,
}

/// What all clones share; its end is the combiner's.
struct Handle {
    ending: Ending,
    tasks: TaskTracker,
    _discard: DropGuard,
}

impl<DB: CombinerSql, A: Apply<DB>> Combiner<DB, A> {
    /// A combiner that applies operations with `apply` on connections of `pool`. While it is busy it keeps one connection a
    /// committer.
    pub fn builder(pool: &Pool<DB>, apply: A) -> CombinerBuilder<DB, A> {
        CombinerBuilder::new(pool, apply)
    }

    /// Queues an operation and waits for its answer; waits for room in the queue first.
    ///
    /// # Errors
    /// [`CombineError::Closed`] and [`CombineError::Failed`] say that it was not applied, [`CombineError::Unknown`] that this
    /// is not known.
    ///
    /// # Cancel safety
    /// Dropped before its batch has begun, the operation is not applied; after that it is applied once (or not at all, if
    /// the batch had to be rolled back). Never half, and the queue goes on.
    pub async fn submit(&self, operation: A::Operation) -> Result<A::Answer, CombineError> {
        let (queued, pending) = Queued::new(operation);
        self.queue.send(queued).await.map_err(|_| CombineError::Closed)?;
        pending.await
    }

    /// Queues an operation if there is room, and answers what waits for its answer.
    ///
    /// # Errors
    /// [`Rejected`] gives the operation back; it was not applied.
    pub fn try_submit(&self, operation: A::Operation) -> Result<Pending<A::Answer>, Rejected<A::Operation>> {
        let (queued, pending) = Queued::new(operation);
        match self.queue.try_send(queued) {
            Ok(()) => Ok(pending),
            Err(TrySendError::Full(queued)) => Err(Rejected::Full(queued.operation)),
            Err(TrySendError::Closed(queued)) => Err(Rejected::Closed(queued.operation)),
        }
    }

    /// Accepts nothing more, applies what is queued, and waits until all is answered, at most for `limit`. What is queued
    /// then is answered [`Closed`](CombineError::Closed), and what is under way is broken off: rolled back before its commit
    /// was sent, [`Unknown`](CombineError::Unknown) after. The same for all clones.
    ///
    /// # Cancel safety
    /// Dropped, the queue goes on being drained, without a limit of time.
    pub async fn close(&self, limit: Duration) -> Drained {
        let Handle { ending, tasks, .. } = &*self.handle;
        ending.drain.cancel();
        tasks.close();
        if tokio::time::timeout(limit, tasks.wait()).await.is_ok() {
            return Drained::Whole;
        }
        ending.discard.cancel();
        ending.halt.cancel();
        tasks.wait().await;
        Drained::BrokenOff
    }

    fn start(pool: &Pool<DB>, apply: A, limits: &Limits) -> Self {
        let (queue, receiver) = mpsc::channel(limits.queue);
        let (ending, tasks) = (Ending::default(), TaskTracker::new());
        let arrivals = Arc::new(Arrivals::new(receiver, limits.batch));
        let (apply, committers) = (Arc::new(apply), limits.committers);
        let begins = Begins::of::<DB>(limits);
        for _ in 0..committers {
            let committer = Committer {
                pool: pool.clone(),
                apply: Arc::clone(&apply),
                arrivals: Arc::clone(&arrivals),
                ending: ending.clone(),
                limits: limits.clone(),
                begins: begins.clone(),
            };
            tasks.spawn(committer.run());
        }
        let handle = Handle { _discard: ending.discard.clone().drop_guard(), ending, tasks };
        Self { queue, handle: Arc::new(handle), database: std::marker::PhantomData }
    }
}

/// How [`Combiner::close`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Drained {
    /// Everything that had been accepted was answered in time.
    Whole,
    /// Time was up: what was still queued was not applied, and what was under way was broken off.
    BrokenOff,
}

/// Why [`Combiner::try_submit`] did not take an operation, and the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejected<O> {
    /// The queue is full.
    #[error("the combiner's queue is full; the operation was not applied")]
    Full(O),
    /// The combiner is closed.
    #[error("the combiner is closed; the operation was not applied")]
    Closed(O),
}

impl<DB: CombinerSql, A: Apply<DB>> Clone for Combiner<DB, A> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), handle: Arc::clone(&self.handle), database: std::marker::PhantomData }
    }
}

impl<DB: CombinerSql, A: Apply<DB>> fmt::Debug for Combiner<DB, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queued = self.queue.max_capacity() - self.queue.capacity();
        formatter.debug_struct("Combiner").field("queued", &queued).finish_non_exhaustive()
    }
}
