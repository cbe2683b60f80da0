//! What is written in the transaction of the movements.

use std::future::Future;

use sqlx::Transaction;

use super::movement::Movement;
use crate::combiner::{BatchError, CombinerSql};

/// Writes something in the transaction that applies movements: an order line, an event for the outbox.
///
/// A line for each order, in the transaction that takes its units; none for what is refused, none for a repeat:
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use leastlock_occ::combiner::BatchError;
/// use leastlock_occ::{Beside, Counted, Movement, StockCounter, StockTable};
/// use sqlx::{Sqlite, Transaction};
///
/// /// Who ordered.
/// struct Lines;
///
/// impl Beside<Sqlite> for Lines {
///     type Note = String;
///
///     async fn write(&self, tx: &mut Transaction<'_, Sqlite>, applied: &[&Movement<String>]) -> Result<(), BatchError> {
///         // One statement, however many there are.
///         let lines: Vec<_> = applied.iter().map(|order| (order.order_id(), order.note())).collect();
///         let lines = serde_json::to_string(&lines).map_err(BatchError::operation)?;
///         let insert = "INSERT INTO order_line (order_id, customer) \
///                       SELECT value ->> 0, value ->> 1 FROM json_each($1) WHERE true ON CONFLICT DO NOTHING";
///         let inserted = sqlx::query(insert).bind(lines).execute(&mut **tx).await?.rows_affected();
///         if inserted == applied.len() as u64 { Ok(()) } else { Err(BatchError::Raced) }
///     }
/// }
///
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # sqlx::raw_sql("CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER NOT NULL); INSERT INTO stock VALUES ('85123A', 5); \
/// #     CREATE TABLE order_line (order_id TEXT PRIMARY KEY, customer TEXT NOT NULL)").execute(&pool).await?;
/// leastlock_occ::MIGRATIONS.run(&pool).await?;
/// let table = StockTable::new("stock", "code", "units")?;
/// let stock = StockCounter::builder(&pool, &table).beside(Lines).build()?;
///
/// let order = Movement::take("85123A", 3)?.with_order_id("536365")?.with_note("customer 17850".to_owned());
/// assert_eq!(stock.submit(order.clone()).await?, Counted::Applied);
/// assert_eq!(stock.submit(order).await?, Counted::Applied); // a repeat: no second line
/// let too_many = Movement::take("85123A", 3)?.with_order_id("536366")?.with_note("customer 13047".to_owned());
/// assert!(!stock.submit(too_many).await?.is_applied());
///
/// let lines: Vec<(String, String)> = sqlx::query_as("SELECT order_id, customer FROM order_line").fetch_all(&pool).await?;
/// assert_eq!(lines, [("536365".to_owned(), "customer 17850".to_owned())]);
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
///
/// # Contract
/// - Called once a batch, after the rows are locked and before they are changed, with the movements that are applied in this
///   transaction for the first time; never for refused ones and never for repeats. If it is not committed, neither are they.
/// - Uses a number of statements that does not grow with the batch (such as one `INSERT … SELECT … FROM unnest(…)`), and takes
///   locks in one order, the same in every process.
/// - May be called again with the same movements, or some of them, after a rollback.
/// - Order ids are stored after this, so another process that stores one at the same moment may be found out only then;
///   everything is rolled back and decided anew, with that movement a repeat. A unique key of its own over such ids would meet
///   the other's row first, as an error that fails the movement: so insert with `ON CONFLICT DO NOTHING`, and answer
///   [`BatchError::Raced`] when fewer rows were inserted than there are movements. (On MySQL and MariaDB, a plain `INSERT` and
///   `Raced` for its duplicate key.) A row that stays in the way, such as that of an order whose id was forgotten, fails its own
///   movement only.
pub trait Beside<DB: CombinerSql>: Send + Sync + 'static {
    /// What a caller hands over with its movement.
    type Note: Send + Sync + 'static;

    /// Writes what belongs to these movements, in the order of their arrival; at least one.
    fn write(
        &self,
        tx: &mut Transaction<'_, DB>,
        applied: &[&Movement<Self::Note>],
    ) -> impl Future<Output = Result<(), BatchError>> + Send;
}

/// Writes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl<DB: CombinerSql> Beside<DB> for Nothing {
    type Note = ();

    async fn write(&self, _tx: &mut Transaction<'_, DB>, _applied: &[&Movement]) -> Result<(), BatchError> {
        Ok(())
    }
}
