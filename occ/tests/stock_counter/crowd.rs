//! O18: several processes on the same rows, which only a server can have.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::{Backoff, Engine, ErrorClass, Statement, classify};
use leastlock_occ::combiner::{Apply, Batch, BatchError, CombineError, Combiner};
use leastlock_occ::{Counted, Movement, StockCounter, StockSql};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine, until};
use sqlx::{Pool, Transaction};
use tokio::sync::Barrier;
use tokio::time::timeout;

pub(crate) use super::suite::LIMIT;
use super::suite::{counter, stock, table, take};

/// Keys that arrive in this order at one combiner, and in the opposite one at the other.
const KEYS: [&str; 3] = ["22423", "85123A", "85123a"];
const PLENTY: &str = "UPDATE stock SET units = 1000000";
const ROUNDS: usize = 300;
const TAKE: &str = "UPDATE stock SET units = units - 1 WHERE code = $1";
const TAKE_MYSQL: &str = "UPDATE stock SET units = units - 1 WHERE code = ?";

/// What keeps a transaction from being chosen as a deadlock's victim: looking for one later than others do on PostgreSQL; on
/// MySQL having changed more rows.
const SPARED: [&str; 2] = [
    "SET LOCAL deadlock_timeout = '60s'",
    "INSERT INTO weight WITH RECURSIVE n AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM n WHERE n < 200) SELECT n FROM n",
];

/// What both combiners and the double have in common.
trait Takes<DB: StockSql>: Send + 'static {
    /// A combiner that tries each batch once, so that a deadlock is seen.
    fn open(pool: &Pool<DB>, meeting: &Arc<Barrier>) -> Self;

    /// Takes a unit of each key, in this order of arrival.
    fn take_each(&self, keys: &[&'static str]) -> impl Future<Output = Result<(), CombineError>> + Send;
}

const ONCE: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));

impl<DB: StockSql> Takes<DB> for StockCounter<DB> {
    fn open(pool: &Pool<DB>, _: &Arc<Barrier>) -> Self {
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

/// A counter that waits for rows from the beginning, where the one statement would pass over them.
struct InATransaction<DB: StockSql>(StockCounter<DB>);

impl<DB: StockSql> Takes<DB> for InATransaction<DB> {
    fn open(pool: &Pool<DB>, _: &Arc<Barrier>) -> Self {
        let builder = StockCounter::builder(pool, &table()).always_in_a_transaction();
        Self(builder.build_with(|combiner| combiner.attempts(1, ONCE)).expect("the limits are right"))
    }

    async fn take_each(&self, keys: &[&'static str]) -> Result<(), CombineError> {
        self.0.take_each(keys).await
    }
}

/// O18: locks rows in the order in which they are named.
struct LocksAsTheyCome {
    /// Where both combiners come with their first row locked.
    meeting: Arc<Barrier>,
}

impl<DB: StockSql> Apply<DB> for LocksAsTheyCome {
    type Operation = Vec<&'static str>;
    type Answer = ();

    async fn apply(
        &self,
        tx: &mut Transaction<'_, DB>,
        batch: &mut Batch<Vec<&'static str>, ()>,
    ) -> Result<(), BatchError> {
        for (n, key) in batch.operations().concat().into_iter().enumerate() {
            Statement::new(sql::<DB>(TAKE, TAKE_MYSQL)).bind(key).execute::<DB>(tx).await?;
            if n == 0 {
                // One of them may be waiting for a row of the other's, and not come.
                let _ = timeout(Duration::from_millis(500), self.meeting.wait()).await;
            }
        }
        batch.answer_all(vec![(); batch.operations().len()]);
        Ok(())
    }

    async fn apply_at_once(
        &self,
        _: &mut DB::Connection,
        _: &[Vec<&'static str>],
    ) -> Result<Option<Vec<()>>, BatchError> {
        Ok(None)
    }

    fn absorbs_repeats(&self, _: &Vec<&'static str>) -> bool {
        false
    }
}

impl<DB: StockSql> Takes<DB> for Combiner<DB, LocksAsTheyCome> {
    fn open(pool: &Pool<DB>, meeting: &Arc<Barrier>) -> Self {
        let builder = Combiner::builder(pool, LocksAsTheyCome { meeting: Arc::clone(meeting) });
        builder.attempts(1, ONCE).build().expect("the limits are right")
    }

    async fn take_each(&self, keys: &[&'static str]) -> Result<(), CombineError> {
        self.submit(keys.to_vec()).await
    }
}

/// Two combiners, as in two processes, until one is told of a deadlock or all rounds are done.
async fn opposite<DB: TestEngine + StockSql, I: Takes<DB>>(
    database: &TestDatabase<DB>,
    rounds: usize,
) -> Result<(), CombineError> {
    let meeting = Arc::new(Barrier::new(2));
    let run = |keys: Vec<&'static str>| {
        let combiner = I::open(&database.pool, &meeting);
        async move {
            for _ in 0..rounds {
                combiner.take_each(&keys).await?;
            }
            Ok(())
        }
    };
    // Not on after one has failed: the double's other half would wait for it in vain.
    tokio::try_join!(run(KEYS.to_vec()), run(KEYS.into_iter().rev().collect())).map(|_| ())
}

pub(crate) async fn o18_two_combiners_in_opposite_orders_do_not_deadlock<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    database.execute(PLENTY).await;
    timeout(LIMIT, opposite::<DB, StockCounter<DB>>(&database, ROUNDS)).await.expect("it ends").expect("no deadlock");
    let always = timeout(LIMIT, opposite::<DB, InATransaction<DB>>(&database, ROUNDS)).await;
    always.expect("it ends").expect("no deadlock");
    let taken = i64::try_from(2 * 2 * KEYS.len() * ROUNDS).expect("few");
    assert_eq!(sum(&database).await, 3_000_000 - taken);
    assert_eq!(database.deadlocks().await, 0);

    let caught = timeout(LIMIT, opposite::<DB, Combiner<DB, LocksAsTheyCome>>(&database, ROUNDS)).await;
    let error = caught.expect("it ends").expect_err("the double is not caught");
    assert!(matches!(&error, CombineError::Failed { source, .. } if is_deadlock::<DB>(source)), "{error:?}");
}

async fn sum<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    let sum = sql::<DB>("SELECT CAST(sum(units) AS BIGINT) FROM stock", "SELECT CAST(sum(units) AS SIGNED) FROM stock");
    database.int(sum).await
}

fn is_deadlock<DB: StockSql>(error: &BatchError) -> bool {
    matches!(error, BatchError::Database { source } if classify::<DB>(source) == ErrorClass::Deadlock)
}

pub(crate) async fn o18_two_combiners_with_the_same_order_ids_answer_alike<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    database.execute("UPDATE stock SET units = 100").await;
    let counters = [counter(&database.pool), counter(&database.pool)];
    let order = |number: usize| {
        let (first, second) = if number.is_multiple_of(2) { (KEYS[0], KEYS[2]) } else { (KEYS[2], KEYS[0]) };
        let movement = take(first, 1).and_take(second, 1).expect("it is within bounds");
        movement.with_order_id(format!("order-{number}")).expect("it is within bounds")
    };
    let send = |counter: StockCounter<DB>, numbers: Vec<usize>| async move {
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
    assert_eq!(sum(&database).await, 100);
    assert_eq!(database.deadlocks().await, 0);
}

pub(crate) async fn o18_a_deadlock_with_a_plain_transaction_is_retried<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    database.execute("CREATE TABLE weight (n INTEGER)").await;
    let judge = async |counter: StockCounter<DB>, id: &str| {
        let order = take("22423", 1).and_take("85123A", 1).expect("bounds").with_order_id(id).expect("bounds");
        let mut plain = database.pool.begin().await.expect("a transaction");
        plain_update(&mut plain, SPARED[usize::from(matches!(DB::ENGINE, Engine::MySql))]).await;
        plain_update(&mut plain, "UPDATE stock SET units = units + 10 WHERE code = '85123A'").await;
        let combined = tokio::spawn(async move { counter.submit(order).await });
        until("somebody waits for a lock", LIMIT, async || database.waiting_for_locks().await > 0).await;
        plain_update(&mut plain, "UPDATE stock SET units = units + 10 WHERE code = '22423'").await;
        plain.commit().await.expect("the commit");
        timeout(LIMIT, combined).await.expect("it ends").expect("no panic")
    };
    let answer = judge(counter(&database.pool), "536365").await;
    assert_eq!(answer.expect("it is tried again"), Counted::Applied);
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '22423'").await, 1 + 10 - 1);
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123A'").await, 5 + 10 - 1);

    // One that does not try again has no answer.
    let caught = judge(Takes::open(&database.pool, &Arc::new(Barrier::new(2))), "536366").await;
    assert!(matches!(&caught, Err(CombineError::Failed { source, .. }) if is_deadlock::<DB>(source)), "{caught:?}");
}

async fn plain_update<DB: StockSql>(plain: &mut Transaction<'_, DB>, sql: &'static str) {
    Statement::new(sql).execute::<DB>(plain).await.expect("the plain transaction goes on");
}

pub(crate) async fn a_locked_row_sends_a_movement_that_came_alone_the_long_way<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    let counter = counter(&database.pool);
    let mut somebody = database.pool.begin().await.expect("a transaction");
    plain_update(&mut somebody, "UPDATE stock SET units = units + 1 WHERE code = '22423'").await;
    let waiting = tokio::spawn({
        let counter = counter.clone();
        async move { counter.submit(Movement::take("22423", 2).expect("it is within bounds")).await }
    });
    until("somebody waits for a lock", LIMIT, async || database.waiting_for_locks().await > 0).await;
    somebody.commit().await.expect("the commit");
    let answer = timeout(LIMIT, waiting).await.expect("it ends").expect("no panic");
    assert_eq!(answer.expect("an answer"), Counted::Applied, "it saw what it had waited for");
}
