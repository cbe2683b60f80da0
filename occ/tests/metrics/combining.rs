//! Combiners on SQLite.

use std::time::Duration;

use leastlock_core::Dialect;
use leastlock_occ::combiner::{CombineError, Combiner, Rejected};
use leastlock_occ::metrics::{
    OCC_COMBINER_BATCH_OPERATIONS, OCC_COMBINER_BATCH_SECONDS, OCC_COMBINER_COMMIT_SECONDS,
    OCC_COMBINER_QUEUE_OPERATIONS, OCC_COMBINER_RETRIES_TOTAL, OCC_COMBINER_SPLITS_TOTAL, OCC_COMBINER_UNKNOWN_TOTAL,
};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Sqlite;
use metrics_util::debugging::DebuggingRecorder;
use sqlx::Pool;
use tokio::time::timeout;

use super::doubles::ForgetsWhoFailed;
use super::operations::{Adding, Ending, LIMIT, Operation, Repeat, combiner, counter};
use super::retrying::impatient;
use super::seen::{Seen, runtime, seen};

/// Applies an operation, and then three that have arrived meanwhile.
pub(crate) trait Together {
    async fn one_and_then_three(pool: &Pool<Sqlite>, operations: [Operation; 3]);
}

struct Real;

impl Together for Real {
    async fn one_and_then_three(pool: &Pool<Sqlite>, operations: [Operation; 3]) {
        let adding = Adding::new();
        let combiner = Combiner::builder(pool, adding.clone()).build().expect("the limits are right");
        let first = combiner.try_submit(Operation::AtTheGate).expect("there is room");
        adding.reached().await;
        let three = operations.map(|operation| combiner.try_submit(operation).expect("there is room"));
        adding.open();
        first.await.expect("it is applied");
        for (pending, operation) in three.into_iter().zip(operations) {
            let answer = timeout(LIMIT, pending).await.expect("an answer");
            assert_eq!(answer.is_err(), operation == Operation::Fails, "{answer:?}");
        }
    }
}

fn together<I: Together>() -> Seen {
    seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        counter(&database).await;
        I::one_and_then_three(&database.pool, [Operation::Adds, Operation::Adds, Operation::Fails]).await;
    })
}

/// Whether the figures are those of a batch of one, and of one of three whose last operation fails: split into one and two, and
/// the two into one and one.
fn judge_together(seen: &Seen) -> Result<(), String> {
    seen.check_labels()?;
    let commits = [seen.values(OCC_COMBINER_BATCH_SECONDS).len(), seen.values(OCC_COMBINER_COMMIT_SECONDS).len()];
    let is_right = seen.values(OCC_COMBINER_BATCH_OPERATIONS) == [1.0, 3.0]
        && seen.count(OCC_COMBINER_SPLITS_TOTAL) == 2
        && commits == [3, 3]
        && seen.gauge(OCC_COMBINER_QUEUE_OPERATIONS) == 0.0
        && seen.count(OCC_COMBINER_RETRIES_TOTAL) == 0
        && seen.count(OCC_COMBINER_UNKNOWN_TOTAL) == 0;
    if is_right { Ok(()) } else { Err(format!("{seen:#?}")) }
}

#[test]
fn batch_is_measured_once_however_it_is_split() {
    judge_together(&together::<Real>()).expect("it is right");
    assert!(judge_together(&together::<ForgetsWhoFailed>()).is_err(), "the double is not caught");
}

/// What one operation is answered, and what was measured.
fn alone(operation: Operation) -> (Result<(), CombineError>, Seen) {
    // Time enough for the attempt that must come right.
    let limit = if operation == Operation::Meets(Ending::Hangs) { Duration::from_secs(3) } else { LIMIT };
    let mut answer = None;
    let seen = seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        counter(&database).await;
        let combiner = combiner(&database, &Adding::new()).attempt_time(limit);
        let combiner = combiner.build().expect("the limits are right");
        answer = Some(timeout(LIMIT, combiner.submit(operation)).await.expect("an answer"));
    });
    seen.check_labels().expect("words that are written down");
    assert_eq!(seen.values(OCC_COMBINER_BATCH_OPERATIONS), [1.0]);
    (answer.expect("it has run"), seen)
}

#[test]
fn batch_tried_again_is_counted_under_its_reason() {
    for (ending, class) in [
        (Ending::Raced, "raced"),
        (Ending::Disconnected, "connection_lost"),
        (Ending::NoConnection, "pool_timeout"),
        (Ending::Deadlock, "deadlock"),
        (Ending::LockTimeout, "lock_timeout"),
        (Ending::Hangs, "attempt_timeout"),
    ] {
        let (answer, seen) = alone(Operation::Meets(ending));
        answer.expect("the second attempt is committed");
        assert_eq!(seen.by_label(OCC_COMBINER_RETRIES_TOTAL), [(class, 1)], "{ending:?}");
        assert_eq!(seen.values(OCC_COMBINER_BATCH_SECONDS).len(), 1, "of the attempt that was committed");
        assert_eq!(seen.count(OCC_COMBINER_SPLITS_TOTAL) + seen.count(OCC_COMBINER_UNKNOWN_TOTAL), 0);
    }
}

#[test]
fn write_lock_that_is_taken_is_a_reason_as_the_database_gives_it() {
    let seen = seen(async |_| {
        let mut database = TestDatabase::<Sqlite>::create().await;
        counter(&database).await;
        let lock = database.pool.begin_with(Sqlite::BEGIN_WRITE).await.expect("the write lock");
        database.pool = impatient(&database).await;
        let combiner = combiner(&database, &Adding::new()).attempts(3, super::units::QUICK);
        let combiner = combiner.build().expect("the limits are right");
        let answer = timeout(LIMIT, combiner.submit(Operation::Adds)).await.expect("an answer");
        assert!(matches!(answer, Err(CombineError::Failed { attempts: 3, .. })), "{answer:?}");
        drop(lock);
    });
    // The third attempt is followed by none.
    assert_eq!(seen.by_label(OCC_COMBINER_RETRIES_TOTAL), [("busy", 2)]);
    assert_eq!(seen.values(OCC_COMBINER_BATCH_SECONDS).len(), 0);
}

#[test]
fn operation_without_a_commit_of_its_own_has_no_time_of_one() {
    for (operation, commits) in [(Operation::Adds, 1), (Operation::AtOnce, 0), (Operation::Looks, 0)] {
        let (answer, seen) = alone(operation);
        answer.expect("it is applied");
        assert_eq!(seen.values(OCC_COMBINER_BATCH_SECONDS).len(), 1, "{operation:?}");
        assert_eq!(seen.values(OCC_COMBINER_COMMIT_SECONDS).len(), commits, "{operation:?}");
    }
}

#[test]
fn operation_is_counted_as_unknown_only_if_it_is_answered_so() {
    for (repeat, unknown, retries) in [
        (Repeat::NotAbsorbed, 1, &[][..]),
        (Repeat::Absorbed, 0, &[("reply_lost", 1)][..]),
        (Repeat::Fails, 1, &[("reply_lost", 1)][..]),
    ] {
        let (answer, seen) = alone(Operation::LosesItsReply(repeat));
        let is_unknown = matches!(answer, Err(CombineError::Unknown));
        assert_eq!(is_unknown, unknown == 1, "{answer:?}");
        assert_eq!(seen.count(OCC_COMBINER_UNKNOWN_TOTAL), unknown, "{repeat:?}");
        assert_eq!(seen.by_label(OCC_COMBINER_RETRIES_TOTAL), retries, "{repeat:?}");
        let answered = usize::from(answer.is_ok());
        assert_eq!(seen.values(OCC_COMBINER_BATCH_SECONDS).len(), answered, "of the attempt whose reply came");
    }
    let (answer, seen) = alone(Operation::Fails);
    assert!(matches!(answer, Err(CombineError::Failed { .. })), "{answer:?}");
    assert_eq!(seen.count(OCC_COMBINER_UNKNOWN_TOTAL), 0);
}

#[test]
fn queue_holds_who_waits_and_who_waits_for_room() {
    let waiting = async |is_looked_at: bool, look: metrics_util::debugging::Snapshotter| {
        let database = TestDatabase::<Sqlite>::create().await;
        counter(&database).await;
        let adding = Adding::new();
        let combiner = combiner(&database, &adding).max_queue(2).build().expect("the limits are right");
        let first = combiner.try_submit(Operation::AtTheGate).expect("there is room");
        adding.reached().await;
        let [one, given_up] = [0; 2].map(|_| combiner.try_submit(Operation::Adds).expect("there is room"));
        let rejected = combiner.try_submit(Operation::Adds);
        assert!(matches!(rejected, Err(Rejected::Full(Operation::Adds))));
        drop(given_up);
        let mut for_room = std::pin::pin!(combiner.submit(Operation::Adds));
        assert!(futures_util::poll!(&mut for_room).is_pending());
        if is_looked_at {
            assert!((Seen::by(&look).gauge(OCC_COMBINER_QUEUE_OPERATIONS) - 3.0).abs() < 0.1);
        }
        adding.open();
        first.await.expect("it is applied");
        one.await.expect("it is applied");
        for_room.await.expect("it is applied");
    };
    seen(async |look| waiting(true, look).await);
    // A look sets what is seen back to zero, so this is without one.
    let afterwards = seen(async |look| waiting(false, look).await);
    assert!(afterwards.gauge(OCC_COMBINER_QUEUE_OPERATIONS).abs() < 0.1, "{afterwards:?}");
    let closed = seen(async |_| {
        let database = TestDatabase::<Sqlite>::create().await;
        counter(&database).await;
        let adding = Adding::new();
        let combiner = combiner(&database, &adding).build().expect("the limits are right");
        let first = combiner.try_submit(Operation::AtTheGate).expect("there is room");
        adding.reached().await;
        let queued = combiner.try_submit(Operation::Adds).expect("there is room");
        combiner.close(Duration::from_millis(1)).await;
        assert!(matches!((first.await, queued.await), (Err(CombineError::Closed), Err(CombineError::Closed))));
        assert!(matches!(combiner.submit(Operation::Adds).await, Err(CombineError::Closed)));
    });
    assert!(closed.gauge(OCC_COMBINER_QUEUE_OPERATIONS).abs() < 0.1, "{closed:?}");
    assert_eq!(closed.count(OCC_COMBINER_UNKNOWN_TOTAL), 0);
}

#[test]
fn operation_whose_runtime_ended_is_unknown_and_waits_no_more() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let ending = runtime();
        let (database, under_way, queued) = ending.block_on(async {
            let database = TestDatabase::<Sqlite>::create().await;
            counter(&database).await;
            let adding = Adding::new();
            let combiner = combiner(&database, &adding).build().expect("the limits are right");
            let under_way = combiner.try_submit(Operation::AtTheGate).expect("there is room");
            adding.reached().await;
            let queued = combiner.try_submit(Operation::Adds).expect("there is room");
            (database, under_way, queued)
        });
        drop(ending);
        for pending in [under_way, queued] {
            assert!(matches!(runtime().block_on(pending), Err(CombineError::Unknown)));
        }
        drop(database);
    });
    let seen = Seen::by(&recorder.snapshotter());
    assert_eq!(seen.count(OCC_COMBINER_UNKNOWN_TOTAL), 2);
    assert!(seen.gauge(OCC_COMBINER_QUEUE_OPERATIONS).abs() < 0.1, "{seen:?}");
}
