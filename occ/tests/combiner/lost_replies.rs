//! O19, and waits: what only a server can do.

use std::time::Duration;

use leastlock_core::{Backoff, Statement};
use leastlock_occ::combiner::{CombineError, Combiner, CombinerSql};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::statement::{is_commit, once};
use leastlock_testkit::proxy::{Proxied, Then};
use sqlx::Pool;
use tokio::time::timeout;

use super::append::{AT_THE_GATE, Append, Gate, LIMIT, NEEDS_THE_LOCK, Place, amounts, append, journal};

/// Appends once, and says what became of it.
trait Commits<DB: Proxied + CombinerSql> {
    async fn append(pool: &Pool<DB>, amount: i64) -> Answered;
}

#[derive(Debug, PartialEq, Eq)]
enum Answered {
    Applied(Place),
    NotApplied,
    Unknown,
}

struct Real;

impl<DB: Proxied + CombinerSql> Commits<DB> for Real {
    async fn append(pool: &Pool<DB>, amount: i64) -> Answered {
        let builder = Combiner::builder(pool, Append { gate: Gate::closed() });
        let builder = builder.attempt_time(Duration::from_secs(2)).lookup_time(Duration::from_secs(20));
        let combiner = builder.build().expect("the limits are right");
        match timeout(LIMIT, combiner.submit(amount)).await.expect("an answer") {
            Ok(place) => Answered::Applied(place),
            Err(error) if error.is_unknown() => Answered::Unknown,
            Err(_) => Answered::NotApplied,
        }
    }
}

async fn by_hand<DB: Proxied + CombinerSql>(pool: &Pool<DB>, amount: i64) -> Result<Place, sqlx::Error> {
    let mut tx = pool.begin().await?;
    let place = append::<DB>(&mut tx, amount, &Gate::closed()).await?;
    match timeout(Duration::from_secs(2), tx.commit()).await {
        Ok(committed) => committed.map(|()| place),
        Err(_) => Err(sqlx::Error::PoolTimedOut),
    }
}

/// Takes an error of the commit for a no.
struct TakesAnErrorForNo;

impl<DB: Proxied + CombinerSql> Commits<DB> for TakesAnErrorForNo {
    async fn append(pool: &Pool<DB>, amount: i64) -> Answered {
        by_hand(pool, amount).await.map_or(Answered::NotApplied, Answered::Applied)
    }
}

/// Takes an error of the commit for a reason to try again.
struct TriesAgain;

impl<DB: Proxied + CombinerSql> Commits<DB> for TriesAgain {
    async fn append(pool: &Pool<DB>, amount: i64) -> Answered {
        loop {
            if let Ok(place) = by_hand(pool, amount).await {
                return Answered::Applied(place);
            }
        }
    }
}

/// Takes an error of the commit for a yes: it was the last thing, after all.
struct TakesAnErrorForYes;

impl<DB: Proxied + CombinerSql> Commits<DB> for TakesAnErrorForYes {
    async fn append(pool: &Pool<DB>, amount: i64) -> Answered {
        by_hand(pool, amount).await.map_or(Answered::Applied(Some(1)), Answered::Applied)
    }
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    ReplyLost,
    RequestLost,
}

/// Whether the answer is true of what is in the journal afterwards, and says all that can be known: where the server can be
/// asked, what became of the commit; elsewhere that nothing is known, since these operations have no id that would tell.
async fn judge<DB: Proxied + CombinerSql, I: Commits<DB>>(
    database: &TestDatabase<DB>,
    fault: Fault,
    then: Then,
) -> Result<(), String> {
    database.execute("DELETE FROM journal").await;
    let proxy = DB::proxy(&database.url).await;
    let pool = DB::connect(&DB::through(&proxy, &database.url)).await;
    let commit = once(is_commit());
    match fault {
        Fault::ReplyLost => proxy.swallow_reply_to(commit, then),
        Fault::RequestLost => proxy.lose_request(commit, then),
    }
    let answered = I::append(&pool, 7).await;
    proxy.fired(1, LIMIT).await;
    match (&answered, &amounts(database).await[..]) {
        (Answered::Applied(Some(1)), [7]) if DB::FATE.is_some() => Ok(()),
        (Answered::Unknown, [] | [7]) if DB::FATE.is_none() => Ok(()),
        (_, written) => Err(format!("{fault:?}: answered {answered:?}, and {written:?} is written")),
    }
}

pub(crate) async fn o19_a_commit_whose_reply_was_lost_is_looked_up_or_unknown<DB: Proxied + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    for then in [Then::Cut, Then::Hang] {
        judge::<DB, Real>(&database, Fault::ReplyLost, then).await.expect("it is right");
    }
    judge::<DB, TakesAnErrorForNo>(&database, Fault::ReplyLost, Then::Cut).await.expect_err("the double is not caught");
    judge::<DB, TriesAgain>(&database, Fault::ReplyLost, Then::Cut).await.expect_err("the double is not caught");
}

pub(crate) async fn o19_a_commit_that_never_arrived_is_sent_again_or_unknown<DB: Proxied + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    for then in [Then::Cut, Then::Hang] {
        judge::<DB, Real>(&database, Fault::RequestLost, then).await.expect("it is right");
    }
    judge::<DB, TakesAnErrorForYes>(&database, Fault::RequestLost, Then::Cut)
        .await
        .expect_err("the double is not caught");
}

pub(crate) async fn o19_what_cannot_be_looked_up_is_unknown_and_the_next_is_applied<DB: Proxied + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let proxy = DB::proxy(&database.url).await;
    let pool = DB::connect(&DB::through(&proxy, &database.url)).await;
    let mut commit = is_commit();
    proxy.swallow_reply_to(move |sql| commit(sql) || sql.contains("pg_xact_status"), Then::Cut);
    let builder = Combiner::builder(&pool, Append { gate: Gate::closed() });
    let combiner = builder.lookup_time(Duration::from_millis(300)).build().expect("the limits are right");
    let answered = timeout(LIMIT, combiner.submit(7)).await.expect("an answer");
    assert!(matches!(answered, Err(CombineError::Unknown)), "{answered:?}");
    // The commit, and the question what became of it.
    proxy.fired(1 + u64::from(DB::FATE.is_some()), LIMIT).await;
    assert_eq!(amounts(&database).await, [7], "it had been applied, and was not applied again by guess");

    // The combiner goes on once the server can be reached.
    proxy.heal();
    assert_eq!(timeout(LIMIT, combiner.submit(8)).await.expect("an answer").expect("it is applied"), Some(2));
}

pub(crate) async fn an_operation_that_waits_for_a_lock_does_not_hold_up_the_others_for_good<
    DB: Proxied + CombinerSql,
>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    database.execute("CREATE TABLE locked (id BIGINT)").await;
    database.execute("INSERT INTO locked VALUES (1)").await;
    let gate = Gate::closed();
    let builder = Combiner::builder(&database.pool, Append { gate: gate.clone() });
    let builder = builder.lock_wait(Duration::from_millis(50));
    let pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));
    let combiner = builder.attempts(2, pauses).build().expect("the limits are right");

    let mut somebody = database.pool.begin().await.expect("a transaction");
    Statement::new("UPDATE locked SET id = 2").execute::<DB>(&mut somebody).await.expect("the lock");
    let first = combiner.try_submit(AT_THE_GATE).expect("there is room");
    gate.reached().await;
    let [one, waits, two] = [1, NEEDS_THE_LOCK, 2].map(|amount| combiner.try_submit(amount).expect("room"));
    gate.open();
    first.await.expect("the first is applied");
    for (pending, place) in [(one, 2), (two, 3)] {
        assert_eq!(timeout(LIMIT, pending).await.expect("an answer").expect("it is applied"), Some(place));
    }
    let failed = timeout(LIMIT, waits).await.expect("an answer");
    assert!(matches!(failed, Err(CombineError::Failed { attempts: 2, .. })), "{failed:?}");
    somebody.rollback().await.expect("the lock is free");
    assert_eq!(combiner.submit(NEEDS_THE_LOCK).await.expect("it is applied"), Some(4));
}
