//! What others do between two statements of a batch.

use leastlock_core::{Engine, Statement};
use leastlock_occ::combiner::{BatchError, CombineError};
use leastlock_occ::{Beside, Counted, Movement, StockCounter, StockSql};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine, until};
use sqlx::Transaction;
use tokio::time::timeout;

use super::crowd::LIMIT;
use super::suite::{UNITS, counter, stock, table, take};

const INSERT: &str = "INSERT INTO leastlock_occ_order (order_id, operation_digest, answer) VALUES ($1, 1, 'applied')";
const INSERT_MYSQL: &str =
    "INSERT INTO leastlock_occ_order (order_id, operation_digest, answer) VALUES (?, 1, 'applied')";

const OTHER_UNITS: &str = "SELECT units FROM stock WHERE code = '85123a'";

/// Somebody has inserted the order id, for another movement of other rows, and commits while the batch waits for it.
pub(crate) async fn an_order_id_that_comes_in_meanwhile_is_seen<DB: TestEngine + StockSql>(database: TestDatabase<DB>) {
    let database = stock(database).await;
    let counter = counter(&database.pool);
    for beside in [0, 2] {
        for (commits, answer) in [(true, Counted::Mismatch), (false, Counted::Applied)] {
            database.execute("UPDATE stock SET units = 5").await;
            let id = format!("{commits} beside {beside}");
            let mut somebody = database.pool.begin().await.expect("a transaction");
            let insert = Statement::new(sql::<DB>(INSERT, INSERT_MYSQL)).bind(&id);
            insert.execute::<DB>(&mut somebody).await.expect("the id is new");
            let order = |key, id: String| {
                let order = take(key, 1).with_order_id(id).expect("it is within bounds");
                counter.try_submit(order).expect("there is room")
            };
            let others: Vec<_> = (0..beside).map(|n| order("85123a", format!("{id}: {n}"))).collect();
            let waits = order("85123A", id);
            until("somebody waits for a lock", LIMIT, async || database.waiting_for_locks().await > 0).await;
            if commits { somebody.commit().await } else { somebody.rollback().await }.expect("it ends");
            for other in others {
                assert_eq!(timeout(LIMIT, other).await.expect("it ends").expect("an answer"), Counted::Applied);
            }
            assert_eq!(timeout(LIMIT, waits).await.expect("it ends").expect("an answer"), answer);
            assert_eq!(database.int(UNITS).await, 5 - i64::from(!commits));
            assert_eq!(database.int(OTHER_UNITS).await, 5 - beside, "the others were applied once");
        }
    }
}

/// Writes nothing, and passes over an error that has ended the transaction.
struct PassesOver;

impl<DB: StockSql> Beside<DB> for PassesOver {
    type Note = ();

    async fn write(&self, tx: &mut Transaction<'_, DB>, _applied: &[&Movement]) -> Result<(), BatchError> {
        // Any error on PostgreSQL; on MySQL what a deadlock does, which a statement of sqlx's own does not make known.
        let ending = if DB::ENGINE == Engine::Postgres { "SELECT * FROM nowhere" } else { "ROLLBACK" };
        drop(Statement::new(ending).execute::<DB>(tx).await);
        Ok(())
    }
}

pub(crate) async fn an_error_that_was_passed_over_beside_moves_nothing<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    let builder = StockCounter::builder(&database.pool, &table()).beside(PassesOver);
    let counter = builder.build().expect("the limits are right");
    let order = take("85123A", 1).with_order_id("1").expect("it is within bounds");
    let answer = timeout(LIMIT, counter.submit(order)).await.expect("an answer");
    assert!(matches!(answer, Err(CombineError::Failed { .. })), "{answer:?}");
    assert_eq!(database.int(UNITS).await, 5);
    assert_eq!(database.int("SELECT count(*) FROM leastlock_occ_order").await, 0);
}
