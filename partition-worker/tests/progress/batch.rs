//! The fence of many records, on every engine.

use leastlock_partition_worker::progress::Fold;
use leastlock_partition_worker::runs::Runs;
use leastlock_partition_worker::{Epoch, Progress};
use leastlock_testkit::TestDatabase;

use crate::bench::{Fence, Tested, effect, handle, owner, partition, prepared, sealed};
use crate::doubles;
use crate::suite::{effects_beside_a_fold, lets_an_earlier_epoch_in};

/// A batch from `BEGIN` to `COMMIT`; answers whether it was let in.
async fn batch<DB: Tested>(progress: &Progress<DB>, epoch: Epoch, offsets: &[i64]) -> bool {
    let mut tx = progress.begin().await.expect("a transaction");
    let is_in = progress.enter_all(&mut tx, &partition(), epoch, offsets).await.expect("the fence answers");
    if !is_in {
        tx.roll_back().await.expect("a rollback");
        return false;
    }
    for offset in offsets {
        effect::<DB>(&mut tx, *offset, "batch").await;
    }
    progress.commit(tx).await.expect("a commit");
    true
}

async fn finished<DB: Tested>(progress: &Progress<DB>, epoch: Epoch, offsets: &[i64]) -> Option<Vec<i64>> {
    let finished = progress.finished_among(&partition(), epoch, offsets).await.expect("an answer");
    finished.map(|finished| finished.into_iter().collect())
}

pub(crate) async fn a_batch_takes_effect_as_a_whole_and_is_told_what_is_finished<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    assert!(handle(&database, Fence::real::<DB>(), epoch, 12).await);
    assert!(!batch(&progress, epoch, &[10, 11, 12, 13]).await, "12 is finished");
    assert_eq!(database.int("SELECT count(*) FROM leastlock_partition_done").await, 1, "nothing of it is left");
    assert_eq!(finished(&progress, epoch, &[9, 10, 11, 12, 13]).await, Some(vec![9, 12]), "9 lies below the start");
    assert!(batch(&progress, epoch, &[10, 11, 13]).await);
    assert!(!batch(&progress, epoch, &[10, 11, 13]).await, "as after a commit whose reply was lost");
    assert_eq!(finished(&progress, epoch, &[10, 11, 13]).await, Some(vec![10, 11, 13]));
    assert_eq!(database.int("SELECT count(*) FROM effect").await, 4);

    assert_eq!(progress.fold(&partition(), epoch, 14).await.expect("a fold"), Fold::Folded { rows: 4 });
    assert!(!batch(&progress, epoch, &[13, 14]).await, "13 is folded");
    assert_eq!(finished(&progress, epoch, &[13, 14]).await, Some(vec![13]));
    assert_eq!(sealed(&progress, 10).await.finished, Runs::new());
}

pub(crate) async fn p7_a_batch_of_an_earlier_epoch_is_fenced<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "first");
    let earlier = sealed(&progress, 10).await.epoch;
    let later = sealed(&owner(&database, "second"), 10).await.epoch;
    assert!(!batch(&progress, earlier, &[10, 11]).await);
    assert_eq!(finished(&progress, earlier, &[10, 11]).await, None, "it is told that it is fenced");
    assert_eq!(database.int("SELECT count(*) FROM effect").await, 0);
    assert!(batch(&progress, later, &[10, 11]).await);
}

pub(crate) async fn p7_a_batchs_fence_looks_at_the_epoch<DB: Tested>(database: TestDatabase<DB>) {
    assert!(!lets_an_earlier_epoch_in(database, Fence::batch::<DB>()).await);
}

pub(crate) async fn p7_double_a_batchs_fence_without_the_epoch_lets_it_in<DB: Tested>(database: TestDatabase<DB>) {
    assert!(lets_an_earlier_epoch_in(database, doubles::batch_without_epoch::<DB>()).await);
}

pub(crate) async fn p20_a_batch_is_applied_once_beside_a_fold<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(effects_beside_a_fold(database, Fence::batch::<DB>()).await, 1);
}

/// No batch is let in while no start is fixed.
pub(crate) async fn no_batch_is_let_in_before_the_start_is_fixed<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = progress.claim_gate(&partition()).await.expect("a claim");
    let _ = progress.raise_guard(&partition(), epoch).await.expect("an attempt");
    assert!(!batch(&progress, epoch, &[10]).await);
    assert_eq!(finished(&progress, epoch, &[10]).await, None);
    assert!(progress.anchor(&partition(), epoch, 10).await.expect("an answer"));
    assert!(batch(&progress, epoch, &[10]).await);
}

/// Two batches that have a record in common, in opposite orders of arrival, and one connection each.
pub(crate) async fn of_two_batches_with_a_record_in_common_one_is_let_in<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 0).await.epoch;
    for round in 0..20 {
        let first: Vec<i64> = (0..5).map(|number| round * 10 + number).collect();
        let second: Vec<i64> = (4..9).map(|number| round * 10 + number).collect();
        let (one, two) = tokio::join!(batch(&progress, epoch, &first), batch(&progress, epoch, &second));
        assert!(one != two, "round {round}: {one} {two}");
    }
    assert_eq!(database.int("SELECT count(*) FROM effect").await, 100);
    assert_eq!(database.int("SELECT count(DISTINCT record_offset) FROM effect").await, 100);
}
