//! MySQL and MariaDB bound waits and idling by connection: what a combiner sets there, and what the pool has again.

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_occ::combiner::{Apply, Batch, BatchError, Combiner, Drained};
use leastlock_testkit::TestDatabase;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{MySql, MySqlConnection, Pool, Transaction};
use tokio::time::timeout;

use super::append::{AT_THE_GATE, Append, Gate, LIMIT, journal};

/// The connection, and its bounds in seconds: of waits, of idling.
type Bounds = (i64, i64, i64);

const READ: &str = "SELECT CAST(CONNECTION_ID() AS SIGNED), CAST(@@SESSION.innodb_lock_wait_timeout AS SIGNED), \
    CAST(@@SESSION.idle_transaction_timeout AS SIGNED)";

/// Answers with the bounds that hold inside of the transaction.
struct Reads;

impl Apply<MySql> for Reads {
    type Operation = ();
    type Answer = Bounds;

    async fn apply(&self, tx: &mut Transaction<'_, MySql>, batch: &mut Batch<(), Bounds>) -> Result<(), BatchError> {
        let bounds = read(tx).await?;
        batch.answer_all(vec![bounds; batch.operations().len()]);
        Ok(())
    }

    async fn apply_at_once(&self, _: &mut MySqlConnection, _: &[()]) -> Result<Option<Vec<Bounds>>, BatchError> {
        Ok(None)
    }

    fn absorbs_repeats(&self, (): &()) -> bool {
        true
    }
}

async fn read(connection: &mut MySqlConnection) -> Result<Bounds, sqlx::Error> {
    sqlx::query_as(READ).fetch_one(connection).await
}

/// A pool of one connection with bounds of its own.
async fn pool(database: &TestDatabase<MySql>, own: &'static str) -> Pool<MySql> {
    let pool = MySqlPoolOptions::new().max_connections(1).after_connect(move |connection, _| {
        Box::pin(async move { Statement::new(own).execute::<MySql>(connection).await.map(|_| ()) })
    });
    pool.connect(&database.url).await.expect("the server answers")
}

pub(crate) async fn a_connection_goes_back_to_its_pool_with_its_own_bounds(database: TestDatabase<MySql>) {
    let pool = pool(&database, "SET SESSION innodb_lock_wait_timeout = 77").await;
    let builder = Combiner::builder(&pool, Reads).lock_wait(Duration::from_millis(1_500));
    let combiner = builder.attempt_time(Duration::from_secs(20)).build().expect("the limits are right");
    for _ in 0..3 {
        let (id, wait, idle) = timeout(LIMIT, combiner.submit(())).await.expect("an answer").expect("it is read");
        assert_eq!((wait, idle), (2, 20), "what was asked for, in whole seconds");
        // Has to wait until the combiner has nothing to do and gives it back.
        let mut connection = timeout(LIMIT, pool.acquire()).await.expect("it comes back").expect("a connection");
        assert_eq!(read(&mut connection).await.expect("they are read"), (id, 77, 0));
    }
    let (id, ..) = timeout(LIMIT, combiner.submit(())).await.expect("an answer").expect("it is read");
    assert_eq!(combiner.close(LIMIT).await, Drained::Whole);
    let mut connection = timeout(LIMIT, pool.acquire()).await.expect("it comes back").expect("a connection");
    assert_eq!(read(&mut connection).await.expect("they are read"), (id, 77, 0));
}

pub(crate) async fn stricter_bounds_of_the_connection_stay(database: TestDatabase<MySql>) {
    let pool = pool(&database, "SET SESSION innodb_lock_wait_timeout = 1, SESSION idle_transaction_timeout = 7").await;
    let combiner = Combiner::builder(&pool, Reads).build().expect("the limits are right");
    let (_, wait, idle) = timeout(LIMIT, combiner.submit(())).await.expect("an answer").expect("it is read");
    assert_eq!((wait, idle), (1, 7));
    assert_eq!(combiner.close(LIMIT).await, Drained::Whole);
}

pub(crate) async fn a_connection_that_cannot_be_given_its_bounds_back_is_closed(database: TestDatabase<MySql>) {
    journal(&database).await;
    let pool = pool(&database, "SET SESSION innodb_lock_wait_timeout = 77").await;
    let (id, ..) = read(&mut pool.acquire().await.expect("a connection")).await.expect("they are read");
    let gate = Gate::closed();
    let combiner = Combiner::builder(&pool, Append { gate: gate.clone() }).build().expect("the limits are right");
    let broken_off = combiner.try_submit(AT_THE_GATE).expect("there is room");
    gate.reached().await;
    assert_eq!(combiner.close(Duration::from_millis(1)).await, Drained::BrokenOff);
    timeout(LIMIT, broken_off).await.expect("an answer").expect_err("it was broken off");
    let mut connection = timeout(LIMIT, pool.acquire()).await.expect("there is room for one").expect("a connection");
    let (other, wait, _) = read(&mut connection).await.expect("they are read");
    assert_ne!(other, id);
    assert_eq!(wait, 77);
}
