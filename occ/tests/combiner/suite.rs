//! The cases, over any engine and over the implementation that they judge.

use std::time::Duration;

use leastlock_core::Backoff;
use leastlock_occ::combiner::{BatchError, CombineError, Combiner, CombinerSql, Drained, Rejected};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use sqlx::pool::PoolOptions;
use tokio::time::timeout;

use super::append::{AT_THE_GATE, Append, Gate, LIMIT, PANICS, Place, UNANSWERED, amounts, journal};
use super::doubles::{FailsTogether, FirstCallerCommits, ForgetsTheOrder};

/// What a caller learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Answer(Place),
    Failed,
}

/// Applies operations that arrived together, in this order.
pub(crate) trait Batches<DB: CombinerSql> {
    async fn answers(pool: &Pool<DB>, operations: Vec<i64>) -> Vec<Told>;
}

struct Real;

impl<DB: CombinerSql> Batches<DB> for Real {
    async fn answers(pool: &Pool<DB>, operations: Vec<i64>) -> Vec<Told> {
        let gate = Gate::closed();
        let combiner = Combiner::builder(pool, Append { gate: gate.clone() }).build().expect("the limits are right");
        // What comes while one batch is under way makes up the next.
        let first = combiner.try_submit(AT_THE_GATE).expect("there is room");
        gate.reached().await;
        let queued: Vec<_> = operations.into_iter().map(|amount| combiner.try_submit(amount).expect("room")).collect();
        gate.open();
        first.await.expect("the first is applied");
        let mut answers = Vec::new();
        for pending in queued {
            answers.push(match timeout(LIMIT, pending).await.expect("an answer") {
                Ok(place) => Told::Answer(place),
                Err(CombineError::Failed { .. }) => Told::Failed,
                Err(error) => panic!("{error}"),
            });
        }
        answers
    }
}

pub(crate) async fn o13_a_failing_operation_fails_alone_and_the_others_keep_their_order<
    DB: TestEngine + CombinerSql,
>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    judge_o13::<DB, Real>(&database, 1).await.expect("it is right");
    for _ in 0..10 {
        // Whatever stood before in the journal.
        database.execute("DELETE FROM journal").await;
        judge_o13::<DB, Real>(&database, 1).await.expect("it is right");
    }
    for caught in
        [judge_o13::<DB, FailsTogether>(&database, 0).await, judge_o13::<DB, ForgetsTheOrder>(&database, 0).await]
    {
        assert!(caught.is_err(), "the double is not caught");
    }
}

async fn judge_o13<DB: TestEngine + CombinerSql, I: Batches<DB>>(
    database: &TestDatabase<DB>,
    before: i64,
) -> Result<(), String> {
    let before = if before == 0 { i64::try_from(amounts(database).await.len()).expect("few") } else { before };
    let answers = I::answers(&database.pool, vec![1, 2, -1, 3, 0, -2, 4]).await;
    let place = |place| Told::Answer(Some(before + place));
    let expected = [place(1), place(2), Told::Failed, place(3), Told::Answer(None), Told::Failed, place(4)];
    if answers != expected {
        return Err(format!("{answers:?}"));
    }
    let written = amounts(database).await;
    if written.ends_with(&[1, 2, 3, 4]) { Ok(()) } else { Err(format!("{written:?}")) }
}

pub(crate) async fn o13_a_panic_and_a_missing_answer_fail_alone<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let gate = Gate::closed();
    let combiner =
        Combiner::builder(&database.pool, Append { gate: gate.clone() }).build().expect("the limits are right");
    let first = combiner.try_submit(AT_THE_GATE).expect("there is room");
    gate.reached().await;
    let [five, panics, six, unanswered, seven] =
        [5, PANICS, 6, UNANSWERED, 7].map(|amount| combiner.try_submit(amount).expect("room"));
    gate.open();
    first.await.expect("the first is applied");
    for (pending, place) in [(five, 2), (six, 3), (seven, 4)] {
        assert_eq!(timeout(LIMIT, pending).await.expect("an answer").expect("it is applied"), Some(place));
    }
    let because = |error| match error {
        CombineError::Failed { source, .. } => source,
        error => panic!("{error}"),
    };
    let source = because(panics.await.expect_err("it panicked"));
    assert!(matches!(&*source, BatchError::Panicked { message } if message == "as the test wants"), "{source:?}");
    let source = because(unanswered.await.expect_err("it has no answer"));
    assert!(matches!(&*source, BatchError::Unanswered { index: 0 }), "{source:?}");
    assert_eq!(amounts(&database).await, [AT_THE_GATE, 5, 6, 7]);
}

/// Submits operations one at a time.
pub(crate) trait Submits<DB: CombinerSql>: Sized {
    fn open(pool: &Pool<DB>, gate: &Gate) -> Self;

    /// Queues the operation at once; the future is its answer, `None` if none can come any more.
    fn queue(&self, amount: i64) -> impl Future<Output = Option<Place>> + Send + 'static;
}

impl<DB: CombinerSql> Submits<DB> for Combiner<DB, Append> {
    fn open(pool: &Pool<DB>, gate: &Gate) -> Self {
        Combiner::builder(pool, Append { gate: gate.clone() }).build().expect("the limits are right")
    }

    fn queue(&self, amount: i64) -> impl Future<Output = Option<Place>> + Send + 'static {
        let pending = self.try_submit(amount).expect("there is room");
        async move { pending.await.ok() }
    }
}

pub(crate) async fn o14_a_caller_dropped_while_queued_is_not_applied<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let gate = Gate::closed();
    let combiner = Combiner::<DB, Append>::open(&database.pool, &gate);
    let first = tokio::spawn(combiner.queue(AT_THE_GATE));
    gate.reached().await;
    let [two, three, four] = [2, 3, 4].map(|amount| combiner.queue(amount));
    let waits_for_its_turn = combiner.clone();
    let with_submit = tokio::spawn(async move { waits_for_its_turn.submit(5).await });
    drop(three);
    gate.open();
    assert_eq!(first.await.expect("no panic"), Some(Some(1)));
    assert_eq!(timeout(LIMIT, two).await.expect("an answer"), Some(Some(2)));
    assert_eq!(timeout(LIMIT, four).await.expect("an answer"), Some(Some(3)));
    assert!(timeout(LIMIT, with_submit).await.expect("an answer").expect("no panic").is_ok());
    let mut written = amounts(&database).await;
    written.sort_unstable();
    assert_eq!(written, [2, 4, 5, AT_THE_GATE]);
}

pub(crate) async fn o14_a_caller_dropped_while_its_batch_commits_is_applied_once<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    judge_o14::<DB, Combiner<DB, Append>>(&database, LIMIT).await.expect("it is right");
    database.execute("DELETE FROM journal").await;
    let caught = judge_o14::<DB, FirstCallerCommits<DB>>(&database, Duration::from_secs(1)).await;
    assert!(caught.is_err(), "the double is not caught");
}

async fn judge_o14<DB: TestEngine + CombinerSql, I: Submits<DB>>(
    database: &TestDatabase<DB>,
    limit: Duration,
) -> Result<(), String> {
    let gate = Gate::closed();
    let combiner = I::open(&database.pool, &gate);
    let gone = tokio::spawn(combiner.queue(AT_THE_GATE));
    gate.reached().await;
    let stays = tokio::spawn(combiner.queue(7));
    gone.abort();
    assert!(gone.await.expect_err("it was dropped").is_cancelled());
    gate.open();
    let answer = timeout(limit, stays).await.map_err(|_| "the queue stands still".to_owned())?.expect("no panic");
    let written = amounts(database).await;
    if answer == Some(Some(2)) && written == [AT_THE_GATE, 7] {
        return Ok(());
    }
    Err(format!("answered {answer:?}, and {written:?} is written"))
}

pub(crate) async fn full_queue_refuses_and_gives_back<DB: TestEngine + CombinerSql>(database: TestDatabase<DB>) {
    journal(&database).await;
    let gate = Gate::closed();
    let combiner = Combiner::builder(&database.pool, Append { gate: gate.clone() });
    let combiner = combiner.max_queue(2).build().expect("the limits are right");
    let first = combiner.try_submit(AT_THE_GATE).expect("there is room");
    gate.reached().await;
    let [one, two] = [1, 2].map(|amount| combiner.try_submit(amount).expect("there is room"));
    assert!(matches!(combiner.try_submit(3), Err(Rejected::Full(3))));
    // Whoever submits waits for room instead.
    let waiting = tokio::spawn({
        let combiner = combiner.clone();
        async move { combiner.submit(4).await }
    });
    gate.open();
    for (pending, place) in [(first, 1), (one, 2), (two, 3)] {
        assert_eq!(timeout(LIMIT, pending).await.expect("an answer").expect("it is applied"), Some(place));
    }
    assert_eq!(timeout(LIMIT, waiting).await.expect("an answer").expect("no panic").expect("it is applied"), Some(4));
}

pub(crate) async fn close_answers_everything_that_was_accepted<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let gate = Gate::closed();
    let combiner = Combiner::builder(&database.pool, Append { gate: gate.clone() });
    let combiner = combiner.max_batch(2).build().expect("the limits are right");
    let mut pending = vec![combiner.try_submit(AT_THE_GATE).expect("there is room")];
    gate.reached().await;
    pending.extend((1..=5).map(|amount| combiner.try_submit(amount).expect("there is room")));
    let closing = tokio::spawn({
        let combiner = combiner.clone();
        async move { combiner.close(LIMIT).await }
    });
    gate.open();
    assert_eq!(closing.await.expect("no panic"), Drained::Whole);
    for (pending, place) in pending.into_iter().zip(1..) {
        assert_eq!(pending.await.expect("it was accepted"), Some(place));
    }
    assert!(matches!(combiner.try_submit(6), Err(Rejected::Closed(6))));
    assert!(matches!(combiner.submit(6).await, Err(CombineError::Closed)));
    assert_eq!(combiner.close(LIMIT).await, Drained::Whole);
}

pub(crate) async fn close_breaks_off_at_its_deadline_and_says_that_nothing_was_applied<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let gate = Gate::closed();
    let combiner = Combiner::<DB, Append>::open(&database.pool, &gate);
    let under_way = combiner.try_submit(AT_THE_GATE).expect("there is room");
    gate.reached().await;
    let queued = combiner.try_submit(1).expect("there is room");
    assert_eq!(combiner.close(Duration::from_millis(20)).await, Drained::BrokenOff);
    for pending in [under_way, queued] {
        let ended = timeout(LIMIT, pending).await.expect("an answer");
        assert!(matches!(ended, Err(CombineError::Closed)), "{ended:?}");
    }
    assert!(amounts(&database).await.is_empty());
}

pub(crate) async fn last_handle_dropped_leaves_what_is_queued_undone<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let gate = Gate::closed();
    let combiner = Combiner::<DB, Append>::open(&database.pool, &gate);
    let other = combiner.clone();
    let under_way = combiner.try_submit(AT_THE_GATE).expect("there is room");
    gate.reached().await;
    let queued = combiner.try_submit(1).expect("there is room");
    drop(combiner);
    drop(other);
    gate.open();
    assert_eq!(timeout(LIMIT, under_way).await.expect("an answer").expect("its batch ends"), Some(1));
    let ended = timeout(LIMIT, queued).await.expect("an answer");
    assert!(matches!(ended, Err(CombineError::Closed)), "{ended:?}");
    assert_eq!(amounts(&database).await, [AT_THE_GATE]);
}

pub(crate) async fn a_pool_without_a_connection_is_no_operations_fault<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let pool = PoolOptions::<DB>::new().max_connections(1).connect(&database.url).await.expect("it opens");
    let held = pool.acquire().await.expect("the only connection");
    let gate = Gate::closed();
    let pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));
    let impatient = Combiner::builder(&pool, Append { gate: gate.clone() }).attempt_time(Duration::from_millis(50));
    let impatient = impatient.attempts(3, pauses).build().expect("the limits are right");
    for pending in [1, 2, 3].map(|amount| impatient.try_submit(amount).expect("there is room")) {
        let failed = timeout(LIMIT, pending).await.expect("an answer").expect_err("there is no connection");
        let CombineError::Failed { attempts: 3, source } = failed else { panic!("{failed:?}") };
        assert!(matches!(&*source, BatchError::Database { source: sqlx::Error::PoolTimedOut }), "{source:?}");
    }
    drop(held);
    let patient = Combiner::builder(&pool, Append { gate }).build().expect("the limits are right");
    assert_eq!(timeout(LIMIT, patient.submit(4)).await.expect("an answer").expect("it is applied"), Some(1));
}

pub(crate) async fn limits_are_checked<DB: TestEngine + CombinerSql>(database: TestDatabase<DB>) {
    let combiner = || Combiner::builder(&database.pool, Append { gate: Gate::closed() });
    let wrong = [
        combiner().max_batch(0).build(),
        combiner().max_queue(0).build(),
        combiner().max_queue(usize::MAX).build(),
        combiner().committers(0).build(),
        combiner().attempts(0, Backoff::default()).build(),
        combiner().lock_wait(Duration::ZERO).build(),
        combiner().attempt_time(Duration::MAX).build(),
    ];
    for wrong in wrong {
        let error = wrong.expect_err("it is out of bounds");
        assert!(error.to_string().contains("must be from 1"), "{error}");
    }
}
