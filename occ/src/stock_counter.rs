//! Units that are taken and given back, never below a floor, many at a time.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leastlock_occ::{Counted, Movement, StockCounter, StockTable};
//!
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # sqlx::raw_sql("CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER NOT NULL); INSERT INTO stock VALUES ('85123A', 5), ('22423', 1)").execute(&pool).await?;
//! leastlock_occ::MIGRATIONS.run(&pool).await?;
//! let stock = StockCounter::builder(&pool, &StockTable::new("stock", "code", "units")?).build()?;
//!
//! // All or nothing, and a repeat is answered as the first was.
//! let order = Movement::take("85123A", 3)?.and_take("22423", 1)?.with_order_id("536365")?;
//! assert_eq!(stock.submit(order.clone()).await?, Counted::Applied);
//! assert_eq!(stock.submit(order).await?, Counted::Applied);
//!
//! // Two of the first are left, but none of the second: nothing is taken.
//! let refused = stock.submit(Movement::take("85123A", 1)?.and_take("22423", 1)?).await?;
//! assert_eq!(refused, Counted::Refused { key: "22423".to_owned(), units: 0 });
//! # let left: i64 = sqlx::query_scalar("SELECT sum(units) FROM stock").fetch_one(&pool).await?;
//! # assert_eq!(left, 2);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```

mod at_once;
mod beside;
mod builder;
mod counted;
mod counting;
mod decision;
mod movement;
mod short_way;
mod sql;
mod table;

use std::fmt;
use std::time::Duration;

use leastlock_core::Statement;

pub use self::beside::{Beside, Nothing};
pub use self::builder::StockCounterBuilder;
pub use self::counted::Counted;
pub use self::movement::{Movement, MovementError};
pub use self::sql::StockSql;
pub use self::table::{IdentifierError, StockTable};

use self::counting::Counting;
use crate::combiner::{CombineError, Combiner, Drained, Pending, Rejected};
use crate::error::Error;

/// The oldest that an order id can be asked to be: 317 years, so that no engine's arithmetic of times leaves its range.
const MAX_AGE_MS: i64 = 10_000_000_000_000;

/// Takes units from rows and gives them back, by a [`Combiner`].
///
/// # What it guarantees
/// - A movement is all or nothing, over all its rows, and takes no row below the floor.
/// - Movements of a process are applied in the order of their arrival, as if each had a transaction of its own, except that one
///   that waits for a row in vain is overtaken; each is answered only after the commit. What other processes and plain statements do to the same rows counts: rows are locked
///   while a batch is decided, and changed by what was moved.
/// - Under an order id a movement is applied once, whoever repeats it and whenever; a repeat is answered as the first was.
/// - What [`Beside`] writes is committed with the movement or not at all.
/// - Everything that [`Combiner`] says about failures, lost replies, limits and dropped callers.
///
/// # Cost
/// On PostgreSQL a batch without order ids is first tried as one statement, which applies it if every movement can be met and no
/// row is locked; where that fails again and again it is tried less and less often. It waits for nothing but a lock of the whole
/// table and somebody else's order id, and for these no longer than a transaction. Else a batch is two statements between
/// `BEGIN` and `COMMIT` on PostgreSQL (three after order ids were raced for), two on MySQL and MariaDB (three with order ids,
/// four after they were raced for), up to four on SQLite, however many movements, rows and ids it has. A batch in which everything is refused and nothing is to be kept is
/// rolled back, which costs no write to disk.
///
/// # What it does not
/// - It makes no tables: order ids need those of [`MIGRATIONS`](crate::MIGRATIONS), run once when the program starts. Without them the
///   first movement with an order id fails.
/// - An order id says nothing of the [note](Movement::with_note): only rows and units are compared with the first's.
/// - An order id is remembered until [`forget_orders`](Self::forget_orders) deletes it; then it is new again.
/// - Other columns of the row, such as a version, are not written; a trigger may do that.
pub struct StockCounter<DB: StockSql, B: Beside<DB> = Nothing> {
    combiner: Combiner<DB, Counting<DB, B>>,
}

impl<DB: StockSql> StockCounter<DB> {
    /// A counter over the rows of `table`.
    pub fn builder(pool: &sqlx::Pool<DB>, table: &StockTable) -> StockCounterBuilder<DB, Nothing> {
        StockCounterBuilder::new(pool, table)
    }

    /// Forgets up to `limit` order ids that are older than `age`; answers how many. Run it from time to time, with an age beyond
    /// which nobody repeats an order.
    ///
    /// # Errors
    /// [`Error::Database`].
    ///
    /// # Cancel safety
    /// The ids are deleted or they are not.
    pub async fn forget_orders(connection: &mut DB::Connection, age: Duration, limit: u32) -> Result<u64, Error> {
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX).min(MAX_AGE_MS);
        let forget = Statement::new(DB::FORGET_ORDERS).bind(age_ms).bind(i64::from(limit));
        forget.execute::<DB>(connection).await.map_err(Error::database::<DB>)
    }
}

impl<DB: StockSql, B: Beside<DB>> StockCounter<DB, B> {
    /// Moves the units, in the next batch; waits for room in the queue first.
    ///
    /// # Errors
    /// [`CombineError::Closed`] and [`CombineError::Failed`] say that nothing was moved, [`CombineError::Unknown`] that this is
    /// not known; a movement with an order id can then be submitted again.
    ///
    /// # Cancel safety
    /// As [`Combiner::submit`]: dropped while queued, nothing is moved; after that, all of it once, or nothing.
    pub async fn submit(&self, movement: Movement<B::Note>) -> Result<Counted, CombineError> {
        self.combiner.submit(movement).await
    }

    /// Queues the movement if there is room.
    ///
    /// # Errors
    /// [`Rejected`] gives the movement back.
    pub fn try_submit(&self, movement: Movement<B::Note>) -> Result<Pending<Counted>, Rejected<Movement<B::Note>>> {
        self.combiner.try_submit(movement)
    }

    /// See [`Combiner::close`].
    ///
    /// # Cancel safety
    /// Dropped, the queue goes on being drained, without a limit of time.
    pub async fn close(&self, limit: Duration) -> Drained {
        self.combiner.close(limit).await
    }
}

impl<DB: StockSql, B: Beside<DB>> Clone for StockCounter<DB, B> {
    fn clone(&self) -> Self {
        Self { combiner: self.combiner.clone() }
    }
}

impl<DB: StockSql, B: Beside<DB>> fmt::Debug for StockCounter<DB, B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StockCounter").field("combiner", &self.combiner).finish()
    }
}
