//! The classic mistakes. Each is caught by the test that names it.

use leastlock_core::begin_with;
use leastlock_occ::metrics as names;
use leastlock_occ::{MayConflict, RetryError};
use metrics::{counter, gauge, histogram};
use sqlx::{Pool, Sqlite};

use super::combining::Together;
use super::operations::Operation;
use super::retrying::{Meets, Reruns, Rival, meet};
use super::units::PayError;

/// Counts every conflict as a retry, the one that nothing follows included, and says in a label what it ran.
pub(crate) struct CountsTheLastAsWell;

impl Reruns for CountsTheLastAsWell {
    async fn twice(pool: &Pool<Sqlite>, meets: Meets, rival: &Rival) -> Result<(), RetryError<PayError>> {
        for number in 1.. {
            counter!(names::OCC_RETRY_ATTEMPTS_TOTAL).increment(1);
            let mut tx = begin_with(pool, "BEGIN").await.expect("a transaction");
            if number == 2 {
                tx.commit().await.expect("a commit");
                break;
            }
            let error = meet(&mut tx, meets, rival).await.expect_err("a conflict");
            assert!(MayConflict::<Sqlite>::conflict(&error).is_some());
            counter!(names::OCC_RETRY_RETRIES_TOTAL, "class" => format!("UPDATE account a: {error}")).increment(1);
        }
        histogram!(names::OCC_RETRY_UNIT_SECONDS, "outcome" => "committed").record(0.001);
        Ok(())
    }

    async fn exhausted(_pool: &Pool<Sqlite>) {
        for _ in 0..3 {
            counter!(names::OCC_RETRY_ATTEMPTS_TOTAL).increment(1);
            counter!(names::OCC_RETRY_RETRIES_TOTAL, "class" => "version_conflict").increment(1);
        }
        counter!(names::OCC_RETRY_EXHAUSTED_TOTAL, "limit" => "attempts").increment(1);
        histogram!(names::OCC_RETRY_UNIT_SECONDS, "outcome" => "exhausted").record(0.001);
    }
}

/// Counts an operation out of the queue only when it succeeds, and each part of a split batch as taken anew.
pub(crate) struct ForgetsWhoFailed;

impl Together for ForgetsWhoFailed {
    async fn one_and_then_three(pool: &Pool<Sqlite>, operations: [Operation; 3]) {
        let batches: [&[Operation]; 2] = [&[Operation::Adds], &operations];
        for batch in batches {
            histogram!(names::OCC_COMBINER_BATCH_OPERATIONS).record(u32::try_from(batch.len()).expect("few"));
            for operation in batch {
                gauge!(names::OCC_COMBINER_QUEUE_OPERATIONS).increment(1);
                histogram!(names::OCC_COMBINER_BATCH_OPERATIONS).record(1);
                if matches!(operation, Operation::Fails) {
                    counter!(names::OCC_COMBINER_SPLITS_TOTAL).increment(2);
                    continue;
                }
                sqlx::query("UPDATE counter SET value = value + 1").execute(pool).await.expect("an update");
                histogram!(names::OCC_COMBINER_BATCH_SECONDS).record(0.001);
                histogram!(names::OCC_COMBINER_COMMIT_SECONDS).record(0.001);
                gauge!(names::OCC_COMBINER_QUEUE_OPERATIONS).decrement(1);
            }
        }
    }
}
