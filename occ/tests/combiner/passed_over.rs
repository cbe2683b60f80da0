//! An error that ended the transaction, and that whoever applies the batch has passed over.

use leastlock_core::{Engine, Statement};
use leastlock_occ::combiner::{Apply, Batch, BatchError, CombineError, Combiner, CombinerSql};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;
use tokio::time::timeout;

use super::append::{Gate, LIMIT, amounts, append, journal};

/// What ends a transaction: any error on PostgreSQL; on MySQL what a deadlock does, which a statement of sqlx's own does not
/// make known.
const fn ending<DB: CombinerSql>() -> &'static str {
    if matches!(DB::ENGINE, Engine::Postgres) { "SELECT * FROM nowhere" } else { "ROLLBACK" }
}

async fn append_and_pass_over<DB: CombinerSql>(tx: &mut Transaction<'_, DB>, amount: i64) -> Result<(), BatchError> {
    append::<DB>(tx, amount, &Gate::closed()).await?;
    // Passed over, as by `let _ = …`.
    drop(Statement::new(ending::<DB>()).execute::<DB>(tx).await);
    Ok(())
}

struct PassesOver;

impl<DB: CombinerSql> Apply<DB> for PassesOver {
    type Operation = i64;
    type Answer = ();

    async fn apply(&self, tx: &mut Transaction<'_, DB>, batch: &mut Batch<i64, ()>) -> Result<(), BatchError> {
        for (index, amount) in batch.operations().to_vec().into_iter().enumerate() {
            append_and_pass_over::<DB>(tx, amount).await?;
            batch.answer(index, ());
        }
        Ok(())
    }

    async fn apply_at_once(&self, _: &mut DB::Connection, _: &[i64]) -> Result<Option<Vec<()>>, BatchError> {
        Ok(None)
    }

    fn absorbs_repeats(&self, _: &i64) -> bool {
        false
    }
}

pub(crate) async fn an_error_that_was_passed_over_is_no_commit<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let combiner = Combiner::builder(&database.pool, PassesOver).build().expect("the limits are right");
    let answer = timeout(LIMIT, combiner.submit(7)).await.expect("an answer");
    assert!(matches!(answer, Err(CombineError::Failed { attempts: 1, .. })), "{answer:?}");
    assert!(amounts(&database).await.is_empty());

    // The double: sqlx's own commit.
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    append_and_pass_over::<DB>(&mut tx, 7).await.expect("it was passed over");
    tx.commit().await.expect("the double is not caught");
    assert!(amounts(&database).await.is_empty());
}
