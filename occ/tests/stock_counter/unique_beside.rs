//! O18: two processes with the same order, and a row beside it that is unique by the order's id.

use std::sync::Arc;

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_occ::combiner::{BatchError, CombineError};
use leastlock_occ::{Beside, Counted, Movement, StockCounter};
use leastlock_testkit::{TestDatabase, until};
use sqlx::{Postgres, Transaction};
use tokio::sync::Semaphore;

use super::suite::{LIMIT, stock, table, take};

const PLAIN: &str = "INSERT INTO placed SELECT * FROM unnest($1::text[])";
const ON_CONFLICT: &str = "INSERT INTO placed SELECT * FROM unnest($1::text[]) ON CONFLICT DO NOTHING";

/// Writes the order's row; then waits at the gate, if there is one.
struct Placed {
    insert: &'static str,
    gate: Option<Gate>,
}

#[derive(Clone)]
struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Beside<Postgres> for Placed {
    type Note = ();

    async fn write(&self, tx: &mut Transaction<'_, Postgres>, applied: &[&Movement]) -> Result<(), BatchError> {
        let mut ids: Vec<_> = applied.iter().filter_map(|movement| movement.order_id().map(str::to_owned)).collect();
        ids.sort_unstable();
        let inserted = Statement::new(self.insert).bind(&ids[..]).execute::<Postgres>(tx).await?;
        if inserted < ids.len() as u64 {
            return Err(BatchError::Raced);
        }
        if let Some(gate) = &self.gate {
            gate.reached.add_permits(1);
            gate.open.acquire().await.expect("it is never closed").forget();
        }
        Ok(())
    }
}

/// One process is between its row beside and its commit when the other one submits the same order; answers what the other is
/// told.
async fn other_is_told(
    database: &TestDatabase<Postgres>,
    id: &str,
    insert: &'static str,
) -> Result<Counted, CombineError> {
    let open = |gate: Option<Gate>| {
        let builder = StockCounter::builder(&database.pool, &table()).beside(Placed { insert, gate });
        builder.build().expect("the limits are right")
    };
    let gate = Gate { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) };
    let (first, other) = (open(Some(gate.clone())), open(None));
    let order = take("85123A", 1).with_order_id(id).expect("it is within bounds");
    let first = tokio::spawn({
        let order = order.clone();
        async move { first.submit(order).await }
    });
    gate.reached.acquire().await.expect("it is never closed").forget();
    let other = tokio::spawn(async move { other.submit(order).await });
    // It has read the order ids, of which this one is not committed, and waits for the row.
    until("somebody waits for a lock", LIMIT, async || database.waiting_for_locks().await > 0).await;
    gate.open.add_permits(1);
    assert_eq!(first.await.expect("no panic").expect("an answer"), Counted::Applied);
    other.await.expect("no panic")
}

pub(crate) async fn o18_an_order_id_raced_for_is_found_by_what_stands_beside_too(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    database.execute("CREATE TABLE placed (order_id text PRIMARY KEY)").await;
    assert_eq!(other_is_told(&database, "536365", ON_CONFLICT).await.expect("an answer"), Counted::Applied);
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123A'").await, 4);
    assert_eq!(database.int("SELECT count(*) FROM placed").await, 1);

    // The double lets its own key fail the movement, though the order is placed.
    let caught = other_is_told(&database, "536366", PLAIN).await.expect_err("the double is not caught");
    let is_duplicate = matches!(&caught, CombineError::Failed { source, .. }
        if matches!(&**source, BatchError::Database { source } if classify::<Postgres>(source) == ErrorClass::UniqueViolation));
    assert!(is_duplicate, "{caught:?}");
}
