//! What holds on every engine.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_partition_worker::progress::{Entry, Fold, Guard, Seal};
use leastlock_partition_worker::runs::Runs;
use leastlock_partition_worker::{Epoch, Timeouts};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, until};
use tokio::sync::oneshot;

use crate::bench::{Fence, GROUP, Tested, effect, entry, handle, owner, partition, prepared, sealed};
use crate::doubles;

/// Records 10 to 13; the handler of 11 never came to an end. What does the next owner do again?
async fn redone<DB: Tested>(
    database: TestDatabase<DB>,
    next_and_finished: &'static str,
) -> (TestDatabase<DB>, Vec<i64>) {
    let database = prepared(database).await;
    let first = owner(&database, "first");
    let epoch = sealed(&first, 10).await.epoch;
    for offset in [13, 10, 12] {
        assert!(handle(&database, Fence::real::<DB>(), epoch, offset).await);
    }
    // A double keeps what it keeps instead.
    database.execute(next_and_finished).await;
    let second = sealed(&owner(&database, "second"), 10).await;
    let start = second.next_offset.expect("it was fixed");
    let redone = (10..=13).filter(|offset| *offset >= start && !second.finished.contains(*offset)).collect();
    (database, redone)
}

pub(crate) async fn p5_a_seal_answers_what_is_finished_and_what_is_a_gap<DB: Tested>(database: TestDatabase<DB>) {
    let (database, redone) = redone(database, "UPDATE leastlock_partition SET next_offset = next_offset").await;
    assert_eq!(redone, [11]);
    let progress = owner(&database, "third");
    let epoch = sealed(&progress, 10).await.epoch;
    assert_eq!(progress.fold(&partition(), epoch, 11).await.expect("a fold"), Fold::Folded { rows: 1 });
    let fourth = sealed(&progress, 10).await;
    assert_eq!((fourth.next_offset, fourth.finished), (Some(11), Runs::from_iter([12, 13])));
}

pub(crate) async fn p5_double_the_highest_finished_offset_loses_the_gap<DB: Tested>(database: TestDatabase<DB>) {
    let (_database, redone) = redone(database, "UPDATE leastlock_partition SET next_offset = 14").await;
    assert_eq!(redone, [] as [i64; 0], "11 would never be handled");
}

pub(crate) async fn p5_double_a_watermark_alone_redoes_what_is_finished<DB: Tested>(database: TestDatabase<DB>) {
    let (_database, redone) = redone(database, "DELETE FROM leastlock_partition_done WHERE record_offset > 10").await;
    assert_eq!(redone, [11, 12, 13], "12 and 13 would be handled twice");
}

pub(crate) async fn lets_an_earlier_epoch_in<DB: Tested>(database: TestDatabase<DB>, fence: Fence) -> bool {
    let database = prepared(database).await;
    let earlier = sealed(&owner(&database, "first"), 10).await.epoch;
    let later = sealed(&owner(&database, "second"), 10).await.epoch;
    assert!(later > earlier);
    let entered = handle(&database, fence, earlier, 10).await;
    if !entered {
        assert_eq!(entry(&owner(&database, "first"), earlier, 10).await, Entry::Fenced);
        assert!(handle(&database, fence, later, 10).await, "the owner is let in");
    }
    entered
}

pub(crate) async fn p7_an_earlier_epoch_is_fenced<DB: Tested>(database: TestDatabase<DB>) {
    assert!(!lets_an_earlier_epoch_in(database, Fence::real::<DB>()).await);
}

pub(crate) async fn p7_double_a_fence_without_the_epoch_lets_it_in<DB: Tested>(database: TestDatabase<DB>) {
    assert!(lets_an_earlier_epoch_in(database, doubles::without_epoch::<DB>()).await);
}

/// Record 10 is finished and is being folded, and its redelivery's handler starts between the fold's lock and its commit;
/// answers how often its effect was applied.
pub(crate) async fn effects_beside_a_fold<DB: Tested>(database: TestDatabase<DB>, fence: Fence) -> i64 {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    assert!(handle(&database, Fence::real::<DB>(), epoch, 10).await);

    let mut fold = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let about = |sql| Statement::new(sql).bind(GROUP).bind("stock-moves").bind(0_i64);
    let raise = about(DB::FOLD_RAISE).bind(epoch.get()).bind(11_i64).bind(1_000_i64);
    assert_eq!(raise.execute::<DB>(&mut fold).await.expect("the fold's first step"), 1);
    let forget = about(DB::FOLD_FORGET).bind(11_i64).bind(1_000_i64);
    assert_eq!(forget.execute::<DB>(&mut fold).await.expect("the fold's second step"), 1);

    let pool = database.pool.clone();
    let (begins, begun) = oneshot::channel();
    let redelivery = tokio::spawn(async move {
        begins.send(()).expect("the test waits for it");
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        if fence.enter(&mut tx, epoch, 10).await {
            effect::<DB>(&mut tx, 10, "redelivery").await;
            tx.commit().await.expect("a commit");
        }
    });
    begun.await.expect("the redelivery begins");
    wait_for_a_waiter(&database).await;
    fold.commit().await.expect("a commit");
    redelivery.await.expect("the redelivery's handler does not panic");
    database.int("SELECT count(*) FROM effect").await
}

/// Waits until a session waits for a lock. SQLite does not show that, nor does it matter there: a redelivery cannot begin
/// before the fold has ended, so all there is to see is that its fence then looks at `next_offset`.
async fn wait_for_a_waiter<DB: Tested>(database: &TestDatabase<DB>) {
    if DB::ENGINE == Engine::Sqlite {
        return;
    }
    let waits = async || database.waiting_for_locks().await > 0;
    until("the redelivery's fence waits", Duration::from_mins(1), waits).await;
}

pub(crate) async fn p20_an_effect_is_applied_once_beside_a_fold<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(effects_beside_a_fold(database, Fence::real::<DB>()).await, 1);
}

pub(crate) async fn p20_double_a_fence_without_next_offset_applies_it_twice<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(effects_beside_a_fold(database, doubles::without_next_offset::<DB>()).await, 2);
}

pub(crate) async fn a_commit_whose_reply_was_lost_is_found_done<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    assert!(handle(&database, Fence::real::<DB>(), epoch, 10).await);
    assert_eq!(entry(&progress, epoch, 10).await, Entry::AlreadyDone);
    assert_eq!(entry(&progress, epoch, 9).await, Entry::AlreadyDone, "it lies below the start");
    assert_eq!(entry(&progress, epoch, 11).await, Entry::Entered);
    let raised = progress.raise_guard(&partition(), epoch).await.expect("an attempt");
    assert!(matches!(raised, Guard::Raised(_)), "so is the commit of a seal: {raised:?}");
}

pub(crate) async fn a_rolled_back_handler_leaves_its_record_open<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    assert_eq!(progress.enter(&mut tx, &partition(), epoch, 10).await.expect("an answer"), Entry::Entered);
    effect::<DB>(&mut tx, 10, "rolled back").await;
    tx.rollback().await.expect("a rollback");
    assert!(handle(&database, Fence::real::<DB>(), epoch, 10).await);
    assert_eq!(database.int("SELECT count(*) FROM effect").await, 1);
}

pub(crate) async fn an_owner_that_came_later_keeps_the_partition<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let (first, second) = (owner(&database, "first"), owner(&database, "second"));
    let earlier = first.claim_gate(&partition()).await.expect("a claim");
    let later = sealed(&second, 10).await.epoch;
    let late = first.raise_guard(&partition(), earlier).await.expect("an attempt");
    assert_eq!(late, Guard::Fenced, "the first stopped between its two steps, and wakes up");
    assert!(handle(&database, Fence::real::<DB>(), later, 10).await);
    assert!(matches!(first.seal(&partition()).await, Ok(Seal::Sealed(_))), "a new claim is a new epoch");
}

pub(crate) async fn only_the_owner_folds<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    assert!(handle(&database, Fence::real::<DB>(), epoch, 10).await);
    let later = sealed(&owner(&database, "later"), 10).await.epoch;
    assert_eq!(progress.fold(&partition(), epoch, 11).await.expect("an answer"), Fold::Unchanged);
    assert_eq!(progress.fold(&partition(), later, 11).await.expect("an answer"), Fold::Folded { rows: 1 });
    assert_eq!(progress.fold(&partition(), later, 11).await.expect("an answer"), Fold::Unchanged);
}

pub(crate) async fn the_first_owner_fixes_the_start_and_nobody_else<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let Ok(Seal::Sealed(first)) = progress.seal(&partition()).await else { panic!("nobody else seals") };
    assert_eq!(first.next_offset, None);
    assert_eq!(first.epoch, Epoch::new(1));
    assert!(!handle(&database, Fence::real::<DB>(), first.epoch, 10).await, "nobody enters before the start is fixed");
    assert!(progress.anchor(&partition(), first.epoch, 10).await.expect("an answer"));
    assert!(!progress.anchor(&partition(), first.epoch, 99).await.expect("an answer"), "it is fixed");
    assert_eq!(sealed(&progress, 99).await.next_offset, Some(10));
}

pub(crate) async fn nobody_waits_at_the_fence_for_a_start_to_be_fixed<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let Ok(Seal::Sealed(sealed)) = progress.seal(&partition()).await else { panic!("nobody else seals") };
    let looked = tokio::time::timeout(Duration::from_secs(20), entry(&progress, sealed.epoch, 10)).await;
    assert_eq!(looked.expect("an answer"), Entry::Fenced);
    assert!(progress.anchor(&partition(), sealed.epoch, 10).await.expect("an answer"));
    assert_eq!(entry(&progress, sealed.epoch, 10).await, Entry::Entered);
}

/// Marks record 10 and every second one behind it as finished, 2 to the power of `doublings` in all.
async fn finish_many<DB: Tested>(database: &TestDatabase<DB>, doublings: u32) -> u64 {
    let double = sql::<DB>(
        "INSERT INTO leastlock_partition_done (group_id, topic, partition, record_offset) \
         SELECT group_id, topic, partition, record_offset + $1 FROM leastlock_partition_done",
        "INSERT INTO leastlock_partition_done (group_id, topic, `partition`, record_offset) \
         SELECT group_id, topic, `partition`, record_offset + ? FROM leastlock_partition_done",
    );
    let mut connection = database.pool.acquire().await.expect("a connection");
    for doubling in 0..doublings {
        let shift = 2_i64 << doubling;
        Statement::new(double).bind(shift).execute::<DB>(&mut connection).await.expect("twice as many");
    }
    1 << doublings
}

/// More than a worker leaves behind that keeps its limits, and less time for a statement than it would take to read all of it.
pub(crate) async fn many_finished_offsets_do_not_take_the_seal_beyond_its_time<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let first = owner(&database, "first");
    let epoch = sealed(&first, 10).await.epoch;
    assert!(handle(&database, Fence::real::<DB>(), epoch, 10).await);
    let many = finish_many(&database, 18).await;
    let timeouts = Timeouts { seal: Duration::from_millis(250), ..Timeouts::default() };
    let second = owner(&database, "second").with_timeouts(timeouts);
    let epoch = second.claim_gate(&partition()).await.expect("a claim");
    let Guard::Raised(sealed) = second.raise_guard(&partition(), epoch).await.expect("an attempt") else {
        panic!("nobody is in the way");
    };
    assert_eq!((sealed.finished.count(), sealed.finished.runs() as u64), (many, many));
}

pub(crate) async fn a_fold_forgets_many_offsets_piece_by_piece<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let epoch = sealed(&progress, 10).await.epoch;
    assert!(handle(&database, Fence::real::<DB>(), epoch, 10).await);
    // Three pieces and some, of 5,000 each.
    let many = finish_many(&database, 14).await;
    let last = 10 + 2 * (i64::try_from(many).expect("small") - 1);
    let folded = progress.fold(&partition(), epoch, last).await.expect("a fold");
    assert_eq!(folded, Fold::Folded { rows: many - 1 });
    assert_eq!(sealed(&progress, 10).await.finished, Runs::from_iter([last]));
}
