//! What a statement waits for that passes over locked rows: a table's lock, and on PostgreSQL another's order id.

use std::time::Duration;

use leastlock_core::{Backoff, Engine, ErrorClass, Statement, classify};
use leastlock_occ::combiner::{BatchError, CombineError, CombinerBuilder};
use leastlock_occ::{Counted, Movement, StockCounter, StockSql};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::time::timeout;

use super::crowd::LIMIT;
use super::suite::{UNITS, stock, table, take};

const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
const WAITING_MYSQL: &str =
    "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND state LIKE 'Waiting for table%'";
const LOCK: &str = "LOCK TABLE stock IN ACCESS EXCLUSIVE MODE";
const LOCK_MYSQL: &str = "LOCK TABLES stock WRITE";
const ONCE: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(1));

/// A counter that waits for a lock for `lock_wait`, and less long for a reply than a test does.
fn counter<DB: StockSql>(pool: &Pool<DB>, lock_wait: Duration) -> StockCounter<DB> {
    let counter = StockCounter::builder(pool, &table());
    let counter = counter.build_with(|combiner: CombinerBuilder<_, _>| {
        combiner.lock_wait(lock_wait).attempt_time(Duration::from_secs(5)).attempts(1, ONCE)
    });
    counter.expect("the limits are right")
}

fn both_rows() -> Movement {
    take("85123A", 1).and_take("85123a", 1).expect("it is within bounds")
}

/// Fails for certain, and nobody of its waits on.
async fn judge<DB: TestEngine + StockSql>(
    database: &TestDatabase<DB>,
    counter: &StockCounter<DB>,
    movement: Movement,
    class: ErrorClass,
) {
    let answer = timeout(LIMIT, counter.submit(movement)).await.expect("an answer").expect_err("it waits in vain");
    let CombineError::Failed { source, .. } = &answer else { panic!("it is known not to be applied: {answer:?}") };
    let BatchError::Database { source } = &**source else { panic!("{answer:?}") };
    assert_eq!(classify::<DB>(source), class);
    assert_eq!(database.int(sql::<DB>(WAITING, WAITING_MYSQL)).await, 0, "it may still be applied");
}

pub(crate) async fn a_locked_table_is_waited_for_so_long_and_nothing_is_left_open<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    // A statement that the connection does not know yet waits before it is run: both are tried.
    let [fresh, used] = [(); 2].map(|()| counter(&database.pool, Duration::from_millis(100)));
    assert_eq!(used.submit(take("85123A", 1)).await.expect("an answer"), Counted::Applied);
    let mut somebody = database.pool.begin().await.expect("a transaction");
    let lock = Statement::new(sql::<DB>(LOCK, LOCK_MYSQL));
    lock.execute::<DB>(&mut somebody).await.expect("the lock");
    let order = take("85123A", 1).with_order_id("1").expect("it is within bounds");
    for movement in [take("85123A", 1), both_rows(), order] {
        for counter in [&fresh, &used] {
            judge(&database, counter, movement.clone(), ErrorClass::LockTimeout).await;
        }
    }
    if DB::ENGINE == Engine::MySql {
        Statement::new("UNLOCK TABLES").execute::<DB>(&mut somebody).await.expect("it is free");
    }
    somebody.rollback().await.expect("it is free");
    assert_eq!(database.int(UNITS).await, 4, "what failed was not applied later");
    assert_eq!(fresh.submit(both_rows()).await.expect("an answer"), Counted::Applied);
}

#[cfg(feature = "postgres")]
pub(crate) use on_postgres::{
    a_statement_that_the_server_cancelled_is_not_applied, an_order_id_of_another_is_waited_for_so_long,
};

/// What MySQL cannot have: a statement that writes two tables, and one that was cancelled for certain.
#[cfg(feature = "postgres")]
mod on_postgres {
    use sqlx::Postgres;
    use sqlx::postgres::PgPoolOptions;

    use super::*;

    pub(crate) async fn an_order_id_of_another_is_waited_for_so_long(database: TestDatabase<Postgres>) {
        let database = stock(database).await;
        let counter = counter(&database.pool, Duration::from_millis(100));
        let mut somebody = database.pool.begin().await.expect("a transaction");
        let insert = "INSERT INTO leastlock_occ_order (order_id, operation_digest, answer) VALUES ('1', 1, 'applied')";
        Statement::new(insert).execute::<Postgres>(&mut somebody).await.expect("the id is new");
        let order = take("85123A", 1).with_order_id("1").expect("it is within bounds");
        judge(&database, &counter, order, ErrorClass::LockTimeout).await;
        somebody.rollback().await.expect("it is free");
        assert_eq!(database.int(UNITS).await, 5);
    }

    pub(crate) async fn a_statement_that_the_server_cancelled_is_not_applied(database: TestDatabase<Postgres>) {
        let database = stock(database).await;
        let pool = PgPoolOptions::new().after_connect(|connection, _| {
            Box::pin(async move {
                let bound = Statement::new("SET statement_timeout = '200ms'");
                bound.execute::<Postgres>(connection).await.map(|_| ())
            })
        });
        let pool = pool.connect(&database.url).await.expect("the server answers");
        let counter = counter(&pool, LIMIT);
        let mut somebody = Postgres::connect(&database.url).await.begin().await.expect("a transaction");
        let lock = Statement::new(LOCK);
        lock.execute::<Postgres>(&mut somebody).await.expect("the lock");
        for movement in [take("85123A", 1), both_rows()] {
            judge(&database, &counter, movement, ErrorClass::StatementTimeout).await;
        }
        somebody.rollback().await.expect("it is free");
        assert_eq!(database.int(UNITS).await, 5);
    }
}
