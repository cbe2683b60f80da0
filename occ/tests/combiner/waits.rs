//! Operations that wait for somebody else's lock, and those that need not.

use std::time::Duration;

use leastlock_core::{Backoff, Engine, Statement};
use leastlock_occ::combiner::{CombineError, Combiner, CombinerSql, Drained};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;
use tokio::time::timeout;

use super::append::{AT_THE_GATE, Append, Gate, LIMIT, NEEDS_THE_LOCK, amounts, journal};

/// So many want the row that somebody keeps, one by one between as many that do not.
const WAITING: usize = 64;
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));

/// Somebody who keeps the row that [`NEEDS_THE_LOCK`] wants.
async fn keeps_the_row<DB: TestEngine>(database: &TestDatabase<DB>) -> Transaction<'_, DB> {
    journal(database).await;
    database.execute("CREATE TABLE locked (id BIGINT)").await;
    database.execute("INSERT INTO locked VALUES (1)").await;
    let mut somebody = database.pool.begin().await.expect("a transaction");
    Statement::new("UPDATE locked SET id = 2").execute::<DB>(&mut somebody).await.expect("the lock");
    somebody
}

/// If each that waits were isolated by a whole wait, or tried again before the others, this would last for minutes.
pub(crate) async fn a_row_that_many_wait_for_does_not_hold_up_the_others<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    let somebody = keeps_the_row(&database).await;
    let gate = Gate::closed();
    let builder = Combiner::builder(&database.pool, Append { gate: gate.clone() });
    // MySQL counts whole seconds.
    let lock_wait = Duration::from_millis(if DB::ENGINE == Engine::MySql { 1_000 } else { 500 });
    let builder = builder.lock_wait(lock_wait).attempts(1_000, PAUSES);
    let combiner = builder.build().expect("the limits are right");
    let first = combiner.try_submit(AT_THE_GATE).expect("there is room");
    gate.reached().await;
    let submit = |amount| combiner.try_submit(amount).expect("there is room");
    let (others, mut waiting): (Vec<_>, Vec<_>) =
        (1_i64..).take(WAITING).map(|amount| (submit(amount), submit(NEEDS_THE_LOCK))).unzip();
    gate.open();
    first.await.expect("the first is applied");
    let all = async {
        for other in others {
            other.await.expect("it is applied");
        }
    };
    timeout(LIMIT, all).await.expect("they wait for few only");
    // Whoever comes later is served as well, while the row is still kept.
    for amount in [901, 902, 903] {
        timeout(LIMIT, combiner.submit(amount)).await.expect("it waits for few only").expect("it is applied");
    }
    for waiting in &mut waiting {
        assert!(futures_util::poll!(waiting).is_pending(), "the row is kept");
    }
    let expected = || std::iter::once(AT_THE_GATE).chain((1..).take(WAITING)).chain([901, 902, 903]);
    assert!(amounts(&database).await.into_iter().eq(expected()), "the others are in the order of their arrival");

    somebody.rollback().await.expect("the row is free");
    for waiting in waiting {
        timeout(LIMIT, waiting).await.expect("it comes to its turn").expect("it is applied");
    }
    assert_eq!(amounts(&database).await.len(), 1 + WAITING + 3 + WAITING);
}

pub(crate) async fn what_was_set_aside_is_tried_so_often_and_answered_at_the_end<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    let somebody = keeps_the_row(&database).await;
    let build = |attempts| {
        let builder = Combiner::builder(&database.pool, Append { gate: Gate::closed() });
        builder.lock_wait(Duration::from_millis(50)).attempts(attempts, PAUSES).build().expect("the limits are right")
    };
    // Both together, and still each alone so often.
    let combiner = build(3);
    let both = [(); 2].map(|()| combiner.try_submit(NEEDS_THE_LOCK).expect("there is room"));
    assert_eq!(combiner.close(LIMIT).await, Drained::Whole);
    for waits in both {
        let failed = waits.await;
        assert!(matches!(failed, Err(CombineError::Failed { attempts: 3, .. })), "{failed:?}");
    }
    // Nobody would be told any more.
    let combiner = build(1_000);
    let waits = combiner.try_submit(NEEDS_THE_LOCK).expect("there is room");
    combiner.submit(1).await.expect("it need not wait for good");
    drop(combiner);
    let closed = timeout(LIMIT, waits).await.expect("an answer");
    assert!(matches!(closed, Err(CombineError::Closed)), "{closed:?}");
    somebody.rollback().await.expect("the row is free");
    assert_eq!(amounts(&database).await, [1]);
}
