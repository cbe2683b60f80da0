//! O18 and O19: several processes on the same rows, and a reply that is lost; what only a server has.

use std::time::Duration;

use leastlock_core::{Backoff, Statement, classify};
use leastlock_occ::combiner::{Apply, Batch, BatchError, CombineError, Combiner};
use leastlock_occ::{Counted, Movement, StockCounter};
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Pool, Postgres, Transaction};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::suite::{counter, stock, table, take};

const LIMIT: Duration = Duration::from_mins(1);
/// Keys that arrive in this order at one combiner, and in the opposite one at the other.
const KEYS: [&str; 3] = ["22423", "85123A", "85123a"];
const PLENTY: &str = "UPDATE stock SET units = 1000000";
const ROUNDS: usize = 300;

/// What both combiners and the double have in common.
trait Takes: Clone + Send + 'static {
    /// A combiner that tries each batch once, so that a deadlock is seen.
    fn open(pool: &Pool<Postgres>) -> Self;

    /// Takes a unit of each key, in this order of arrival.
    fn take_each(&self, keys: &[&'static str]) -> impl Future<Output = Result<(), CombineError>> + Send;
}

const ONCE: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));

impl Takes for StockCounter<Postgres> {
    fn open(pool: &Pool<Postgres>) -> Self {
        let builder = StockCounter::builder(pool, &table());
        builder.build_with(|combiner| combiner.attempts(1, ONCE)).expect("the limits are right")
    }

    async fn take_each(&self, keys: &[&'static str]) -> Result<(), CombineError> {
        let mut pending = Vec::new();
        for key in keys {
            pending.push(self.try_submit(take(key, 1)).expect("there is room"));
        }
        for pending in pending {
            assert_eq!(pending.await?, Counted::Applied);
        }
        Ok(())
    }
}

/// O18: locks rows in the order in which the operations name them.
#[derive(Debug, Clone, Copy)]
struct LocksAsTheyCome;

impl Apply<Postgres> for LocksAsTheyCome {
    type Operation = Vec<&'static str>;
    type Answer = ();

    async fn apply(
        &self,
        tx: &mut Transaction<'_, Postgres>,
        batch: &mut Batch<Vec<&'static str>, ()>,
    ) -> Result<(), BatchError> {
        for key in batch.operations().concat() {
            let take = Statement::new("UPDATE stock SET units = units - 1 WHERE code = $1").bind(key);
            take.execute::<Postgres>(tx).await?;
            // Long enough for the other combiner to take its first row as well, however busy the machine is.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        batch.answer_all(vec![(); batch.operations().len()]);
        Ok(())
    }

    async fn apply_at_once(
        &self,
        _: &mut sqlx::PgConnection,
        _: &[Vec<&'static str>],
    ) -> Result<Option<Vec<()>>, BatchError> {
        Ok(None)
    }

    fn absorbs_repeats(&self, _: &Vec<&'static str>) -> bool {
        false
    }
}

impl Takes for Combiner<Postgres, LocksAsTheyCome> {
    fn open(pool: &Pool<Postgres>) -> Self {
        Combiner::builder(pool, LocksAsTheyCome).attempts(1, ONCE).build().expect("the limits are right")
    }

    async fn take_each(&self, keys: &[&'static str]) -> Result<(), CombineError> {
        self.submit(keys.to_vec()).await
    }
}

/// Two combiners, as in two processes, until one is told of a deadlock or all rounds are done.
async fn opposite<I: Takes>(database: &TestDatabase<Postgres>, rounds: usize) -> Result<(), CombineError> {
    let run = |keys: Vec<&'static str>| {
        let combiner = I::open(&database.pool);
        async move {
            for _ in 0..rounds {
                combiner.take_each(&keys).await?;
            }
            Ok(())
        }
    };
    let mut both = JoinSet::from_iter([run(KEYS.to_vec()), run(KEYS.into_iter().rev().collect())]);
    while let Some(one) = both.join_next().await {
        one.expect("no panic")?;
    }
    Ok(())
}

pub(crate) async fn o18_two_combiners_in_opposite_orders_do_not_deadlock(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    database.execute(PLENTY).await;
    timeout(LIMIT, opposite::<StockCounter<Postgres>>(&database, ROUNDS)).await.expect("it ends").expect("no deadlock");
    let taken = i64::try_from(2 * KEYS.len() * ROUNDS).expect("few");
    assert_eq!(database.int("SELECT sum(units)::bigint FROM stock").await, 3_000_000 - taken);
    assert_eq!(database.int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await, 0);

    let caught = timeout(LIMIT, opposite::<Combiner<Postgres, LocksAsTheyCome>>(&database, 10_000)).await;
    let error = caught.expect("it ends").expect_err("the double is not caught");
    assert!(matches!(&error, CombineError::Failed { source, .. } if is_deadlock(source)), "{error:?}");
}

fn is_deadlock(error: &BatchError) -> bool {
    matches!(error, BatchError::Database { source }
        if classify::<Postgres>(source) == leastlock_core::ErrorClass::Deadlock)
}

pub(crate) async fn o18_two_combiners_with_the_same_order_ids_answer_alike(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    database.execute("UPDATE stock SET units = 100").await;
    let counters = [counter(&database.pool), counter(&database.pool)];
    let order = |number: usize| {
        let (first, second) = if number.is_multiple_of(2) { (KEYS[0], KEYS[2]) } else { (KEYS[2], KEYS[0]) };
        let movement = take(first, 1).and_take(second, 1).expect("it is within bounds");
        movement.with_order_id(format!("order-{number}")).expect("it is within bounds")
    };
    let send = |counter: StockCounter<Postgres>, numbers: Vec<usize>| async move {
        let clients = numbers.into_iter().map(|number| {
            let (counter, order) = (counter.clone(), order(number));
            (number, tokio::spawn(async move { counter.submit(order).await }))
        });
        let mut answers = Vec::new();
        for (number, client) in clients.collect::<Vec<_>>() {
            answers.push((number, client.await.expect("no panic").expect("an answer")));
        }
        answers.sort_by_key(|(number, _)| *number);
        answers
    };
    let [one, two] = counters;
    let both = async { tokio::join!(send(one, (0..150).collect()), send(two, (0..150).rev().collect())) };
    let (one, two) = timeout(LIMIT, both).await.expect("it ends");
    assert_eq!(one, two, "both were told the same of each order");
    assert_eq!(one.iter().filter(|(_, answer)| answer.is_applied()).count(), 100);
    assert_eq!(database.int("SELECT sum(units)::bigint FROM stock").await, 100);
    assert_eq!(database.int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await, 0);
}

pub(crate) async fn o18_a_deadlock_with_a_plain_transaction_is_retried(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    // The plain transaction is never the victim.
    let judge = async |counter: StockCounter<Postgres>, id: &str| {
        let order = take("22423", 1).and_take("85123A", 1).expect("bounds").with_order_id(id).expect("bounds");
        let mut plain = database.pool.begin().await.expect("a transaction");
        plain_update(&mut plain, "SET LOCAL deadlock_timeout = '60s'").await;
        plain_update(&mut plain, "UPDATE stock SET units = units + 10 WHERE code = '85123A'").await;
        let combined = tokio::spawn(async move { counter.submit(order).await });
        waits_for_a_lock(&database, 1).await;
        plain_update(&mut plain, "UPDATE stock SET units = units + 10 WHERE code = '22423'").await;
        plain.commit().await.expect("the commit");
        timeout(LIMIT, combined).await.expect("it ends").expect("no panic")
    };
    let answer = judge(counter(&database.pool), "536365").await;
    assert_eq!(answer.expect("it is tried again"), Counted::Applied);
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '22423'").await, 1 + 10 - 1);
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123A'").await, 5 + 10 - 1);

    // One that does not try again has no answer.
    let caught = judge(StockCounter::open(&database.pool), "536366").await;
    assert!(matches!(&caught, Err(CombineError::Failed { source, .. }) if is_deadlock(source)), "{caught:?}");
}

async fn plain_update(plain: &mut Transaction<'_, Postgres>, sql: &'static str) {
    Statement::new(sql).execute::<Postgres>(plain).await.expect("the plain transaction goes on");
}

async fn waits_for_a_lock(database: &TestDatabase<Postgres>, backends: i64) {
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let until = async {
        while database.int(waiting).await < backends {
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, until).await.expect("somebody waits for a lock");
}

pub(crate) async fn o19_a_lost_reply_is_resolved_by_the_order_id(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let pool = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
    let counter = StockCounter::builder(&pool, &table());
    let counter = counter.build_with(|combiner| combiner.lookup_time(Duration::from_millis(300)));
    let counter = counter.expect("the limits are right");
    let order = |id: &str| take("85123A", 1).with_order_id(id).expect("it is within bounds");

    // Alone: the statement that is the whole transaction.
    proxy.swallow_reply_to(postgres::once(|sql| sql.contains("'applied' FROM moved")), Then::Cut);
    assert_eq!(timeout(LIMIT, counter.submit(order("1"))).await.expect("an answer").expect("told"), Counted::Applied);
    proxy.fired(1, LIMIT).await;
    proxy.swallow_reply_to(postgres::once(|sql: &str| sql.contains("SKIP LOCKED")), Then::Cut);
    let without = timeout(LIMIT, counter.submit(take("85123A", 1))).await.expect("an answer");
    assert!(matches!(without, Err(CombineError::Unknown)), "{without:?}");
    proxy.fired(2, LIMIT).await;
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123A'").await, 3);

    // A batch that was one statement.
    proxy.swallow_reply_to(postgres::once(|sql: &str| sql.contains("bool_and(is_met)")), Then::Cut);
    let both = take("85123a", 1).and_take("22423", 1).expect("it is within bounds");
    let without = timeout(LIMIT, counter.submit(both.clone())).await.expect("an answer");
    assert!(matches!(without, Err(CombineError::Unknown)), "{without:?}");
    proxy.fired(3, LIMIT).await;
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123a'").await, 6);

    // In a batch of which nothing can be looked up: only what has an order id is known.
    let mut lost_commits = postgres::once(postgres::is_commit());
    proxy.swallow_reply_to(move |sql| lost_commits(sql) || sql.contains("pg_xact_status"), Then::Cut);
    let several = |id: Option<&str>| {
        let movement = take("85123A", 1).and_take("85123a", 1).expect("it is within bounds");
        id.map_or(movement.clone(), |id| movement.with_order_id(id).expect("it is within bounds"))
    };
    let [with, without] = [several(Some("2")), several(None)].map(|movement| counter.try_submit(movement));
    let with = timeout(LIMIT, with.expect("room")).await.expect("an answer");
    assert_eq!(with.expect("its id tells"), Counted::Applied);
    let without = timeout(LIMIT, without.expect("room")).await.expect("an answer");
    proxy.fired(4, LIMIT).await;
    // They were in one batch or in two; only the batch whose reply was lost is in doubt.
    assert!(matches!(without, Err(CombineError::Unknown) | Ok(Counted::Applied)), "{without:?}");
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123A'").await, 1, "each was applied once");
}

pub(crate) async fn a_locked_row_sends_a_movement_that_came_alone_the_long_way(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    let counter = counter(&database.pool);
    let mut somebody = database.pool.begin().await.expect("a transaction");
    plain_update(&mut somebody, "UPDATE stock SET units = units + 1 WHERE code = '22423'").await;
    let waiting = tokio::spawn({
        let counter = counter.clone();
        async move { counter.submit(Movement::take("22423", 2).expect("it is within bounds")).await }
    });
    waits_for_a_lock(&database, 1).await;
    somebody.commit().await.expect("the commit");
    let answer = timeout(LIMIT, waiting).await.expect("it ends").expect("no panic");
    assert_eq!(answer.expect("an answer"), Counted::Applied, "it saw what it had waited for");
}

pub(crate) async fn o19_a_batch_in_a_transaction_of_its_own_is_looked_up(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let pool = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
    let counter =
        StockCounter::builder(&pool, &table()).always_in_a_transaction().build().expect("the limits are right");
    proxy.swallow_reply_to(postgres::once(postgres::is_commit()), Then::Cut);
    let both = take("85123A", 1).and_take("85123a", 1).expect("it is within bounds");
    let answer = timeout(LIMIT, counter.submit(both)).await.expect("an answer");
    proxy.fired(1, LIMIT).await;
    assert_eq!(answer.expect("it was looked up"), Counted::Applied);
    assert_eq!(database.int("SELECT sum(units)::bigint FROM stock WHERE code ILIKE '85123A'").await, 4 + 6);
}

pub(crate) async fn a_row_whose_change_is_suppressed_keeps_the_whole_movement_back(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    database.execute("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'").await;
    database
        .execute(
            "CREATE TRIGGER keep BEFORE UPDATE ON stock FOR EACH ROW WHEN (OLD.code = '22423') EXECUTE FUNCTION keep()",
        )
        .await;
    let both = || take("85123A", 1).and_take("22423", 1).expect("it is within bounds");
    let answer = timeout(LIMIT, counter(&database.pool).submit(both())).await.expect("an answer");
    assert!(matches!(answer, Err(CombineError::Failed { .. })), "{answer:?}");
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123A'").await, 5, "half of it was kept");
}
