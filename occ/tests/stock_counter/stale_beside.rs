//! O13: a row beside a movement that is in its way for good, such as that of an order whose id was forgotten.

use std::sync::Arc;

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_occ::combiner::{BatchError, CombineError};
use leastlock_occ::{Beside, Counted, Movement, StockCounter, StockSql};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::suite::{LIMIT, UNITS, stock, table, take};

const INSERT: &str = "INSERT INTO placed VALUES ($1) ON CONFLICT DO NOTHING";
const INSERT_MYSQL: &str = "INSERT INTO placed VALUES (?)";
/// What waits until the test lets it go.
const FIRST: &str = "first";
const STALE: &str = "stale";
const HEALTHY: usize = 24;

/// Writes the order's row, and answers as [`Beside`] asks for when it is there already.
struct Placed {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl<DB: StockSql> Beside<DB> for Placed {
    type Note = ();

    async fn write(&self, tx: &mut Transaction<'_, DB>, applied: &[&Movement]) -> Result<(), BatchError> {
        for id in applied.iter().filter_map(|movement| movement.order_id()) {
            let insert = Statement::new(sql::<DB>(INSERT, INSERT_MYSQL)).bind(id).execute::<DB>(tx).await;
            match insert {
                Ok(0) => return Err(BatchError::Raced),
                Err(error) if classify::<DB>(&error) == ErrorClass::UniqueViolation => return Err(BatchError::Raced),
                inserted => inserted?,
            };
            if id == FIRST {
                self.reached.add_permits(1);
                self.open.acquire().await.expect("it is never closed").forget();
            }
        }
        Ok(())
    }
}

pub(crate) async fn o13_a_movement_that_is_raced_for_ever_fails_alone<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    database.execute(sql::<DB>("CREATE TABLE placed (order_id TEXT PRIMARY KEY)", PLACED_MYSQL)).await;
    database.execute("INSERT INTO placed VALUES ('stale')").await;
    database.execute("UPDATE stock SET units = 100").await;
    let [reached, open] = [(); 2].map(|()| Arc::new(Semaphore::new(0)));
    let beside = Placed { reached: Arc::clone(&reached), open: Arc::clone(&open) };
    let counter = StockCounter::builder(&database.pool, &table()).beside(beside).build().expect("the limits are right");
    let submit = |id: &str| {
        let order = take("85123A", 1).with_order_id(id).expect("it is within bounds");
        counter.try_submit(order).expect("there is room")
    };
    let first = submit(FIRST);
    timeout(LIMIT, reached.acquire()).await.expect("it is reached").expect("it is never closed").forget();
    let mut pending: Vec<_> = (0..HEALTHY / 2).map(|n| submit(&n.to_string())).collect();
    let stale = submit(STALE);
    pending.extend((HEALTHY / 2..HEALTHY).map(|n| submit(&n.to_string())));
    pending.push(first);
    open.add_permits(1);
    for pending in pending {
        assert_eq!(timeout(LIMIT, pending).await.expect("it ends").expect("an answer"), Counted::Applied);
    }
    let stale = timeout(LIMIT, stale).await.expect("it ends").expect_err("its row is in the way");
    assert!(
        matches!(&stale, CombineError::Failed { source, .. } if matches!(**source, BatchError::Raced)),
        "{stale:?}"
    );
    let applied = i64::try_from(HEALTHY).expect("few") + 1;
    assert_eq!(database.int(UNITS).await, 100 - applied);
    assert_eq!(database.int("SELECT count(*) FROM placed").await, applied + 1);
}

const PLACED_MYSQL: &str = "CREATE TABLE placed (order_id VARBINARY(20) PRIMARY KEY)";
