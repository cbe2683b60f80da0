//! Servers bound waits by connection, MySQL and MariaDB idling too: what a combiner sets there, and what the pool has again.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_occ::combiner::{Apply, Batch, BatchError, Combiner, CombinerSql, Drained};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::pool::PoolOptions;
use sqlx::{Pool, Transaction};
use tokio::time::timeout;

use super::append::{AT_THE_GATE, Append, Gate, LIMIT, journal};

/// The connection, and its bounds in milliseconds: of waits, of idling.
type Bounds = (i64, i64, i64);

const READ: &str = "SELECT pg_backend_pid()::bigint, \
    (extract(epoch FROM current_setting('lock_timeout')::interval) * 1000)::bigint, \
    (extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000)::bigint";
/// Waits for rows and for tables are bounded alike.
const READ_MYSQL: &str = "SELECT CAST(CONNECTION_ID() AS SIGNED), \
    CAST(IF(@@SESSION.innodb_lock_wait_timeout = @@SESSION.lock_wait_timeout, @@SESSION.lock_wait_timeout, -1) * 1000 AS SIGNED), \
    CAST(@@SESSION.idle_transaction_timeout * 1000 AS SIGNED)";
const WAITS: &str = "SET lock_timeout = '77s'";
const WAITS_MYSQL: &str = "SET SESSION innodb_lock_wait_timeout = 77, SESSION lock_wait_timeout = 77";
const STRICTER: &str =
    "SELECT set_config('lock_timeout', '1s', false), set_config('idle_in_transaction_session_timeout', '7s', false)";
const STRICTER_MYSQL: &str = "SET SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 1, \
    SESSION idle_transaction_timeout = 7";

/// Answers with the bounds that hold inside of the transaction.
struct Reads;

impl<DB: CombinerSql> Apply<DB> for Reads {
    type Operation = ();
    type Answer = Bounds;

    async fn apply(&self, tx: &mut Transaction<'_, DB>, batch: &mut Batch<(), Bounds>) -> Result<(), BatchError> {
        let bounds = read::<DB>(tx).await?;
        batch.answer_all(vec![bounds; batch.operations().len()]);
        Ok(())
    }

    async fn apply_at_once(&self, _: &mut DB::Connection, _: &[()]) -> Result<Option<Vec<Bounds>>, BatchError> {
        Ok(None)
    }

    fn absorbs_repeats(&self, (): &()) -> bool {
        true
    }
}

async fn read<DB: CombinerSql>(connection: &mut DB::Connection) -> Result<Bounds, sqlx::Error> {
    let row = Statement::new(sql::<DB>(READ, READ_MYSQL)).fetch_one::<DB>(connection).await?;
    Ok((row.int(0)?, row.int(1)?, row.int(2)?))
}

/// A pool of one connection with bounds of its own.
async fn pool<DB: CombinerSql>(url: &str, own: &'static str) -> Pool<DB> {
    let pool = PoolOptions::<DB>::new().max_connections(1).after_connect(move |connection, _| {
        Box::pin(async move { Statement::new(own).execute::<DB>(connection).await.map(|_| ()) })
    });
    pool.connect(url).await.expect("the server answers")
}

pub(crate) async fn a_connection_goes_back_to_its_pool_with_its_own_bounds<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    let pool = pool::<DB>(&database.url, sql::<DB>(WAITS, WAITS_MYSQL)).await;
    let builder = Combiner::builder(&pool, Reads).lock_wait(Duration::from_millis(1_500));
    let combiner = builder.attempt_time(Duration::from_secs(20)).build().expect("the limits are right");
    // What was asked for; MySQL counts whole seconds.
    let asked = if DB::ENGINE == Engine::MySql { 2_000 } else { 1_500 };
    for _ in 0..3 {
        let (id, wait, idle) = timeout(LIMIT, combiner.submit(())).await.expect("an answer").expect("it is read");
        assert_eq!((wait, idle), (asked, 20_000));
        // Has to wait until the combiner has nothing to do and gives it back.
        let mut connection = timeout(LIMIT, pool.acquire()).await.expect("it comes back").expect("a connection");
        assert_eq!(read::<DB>(&mut connection).await.expect("they are read"), (id, 77_000, 0));
    }
    let (id, ..) = timeout(LIMIT, combiner.submit(())).await.expect("an answer").expect("it is read");
    assert_eq!(combiner.close(LIMIT).await, Drained::Whole);
    let mut connection = timeout(LIMIT, pool.acquire()).await.expect("it comes back").expect("a connection");
    assert_eq!(read::<DB>(&mut connection).await.expect("they are read"), (id, 77_000, 0));
}

pub(crate) async fn stricter_bounds_of_the_connection_stay<DB: TestEngine + CombinerSql>(database: TestDatabase<DB>) {
    let pool = pool::<DB>(&database.url, sql::<DB>(STRICTER, STRICTER_MYSQL)).await;
    let combiner = Combiner::builder(&pool, Reads).build().expect("the limits are right");
    let (_, wait, idle) = timeout(LIMIT, combiner.submit(())).await.expect("an answer").expect("it is read");
    assert_eq!((wait, idle), (1_000, 7_000));
    assert_eq!(combiner.close(LIMIT).await, Drained::Whole);
}

pub(crate) async fn a_connection_that_cannot_be_given_its_bounds_back_is_closed<DB: TestEngine + CombinerSql>(
    database: TestDatabase<DB>,
) {
    journal(&database).await;
    let pool = pool::<DB>(&database.url, sql::<DB>(WAITS, WAITS_MYSQL)).await;
    let (id, ..) = read::<DB>(&mut *pool.acquire().await.expect("a connection")).await.expect("they are read");
    let gate = Gate::closed();
    let combiner = Combiner::builder(&pool, Append { gate: gate.clone() }).build().expect("the limits are right");
    let broken_off = combiner.try_submit(AT_THE_GATE).expect("there is room");
    gate.reached().await;
    assert_eq!(combiner.close(Duration::from_millis(1)).await, Drained::BrokenOff);
    timeout(LIMIT, broken_off).await.expect("an answer").expect_err("it was broken off");
    let mut connection = timeout(LIMIT, pool.acquire()).await.expect("there is room for one").expect("a connection");
    let (other, wait, _) = read::<DB>(&mut connection).await.expect("they are read");
    assert_ne!(other, id);
    assert_eq!(wait, 77_000);
}
