//! What only PostgreSQL has: a batch in one statement, the fate of a transaction, and triggers that suppress a write.

use leastlock_occ::combiner::CombineError;
use leastlock_occ::{Counted, StockCounter};
use leastlock_testkit::proxy::statement::{is_commit, once};
use leastlock_testkit::proxy::{Proxied, Then};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Postgres;
use tokio::time::timeout;

use super::crowd::LIMIT;
use super::suite::{counter, stock, table, take};

pub(crate) async fn o19_a_batch_in_one_statement_whose_reply_was_lost_is_unknown(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    let proxy = Postgres::proxy(&database.url).await;
    let pool = Postgres::connect(&Postgres::through(&proxy, &database.url)).await;
    let counter = counter(&pool);
    proxy.swallow_reply_to(once(|sql: &str| sql.contains("bool_and(is_met)")), Then::Cut);
    let both = take("85123a", 1).and_take("22423", 1).expect("it is within bounds");
    let without = timeout(LIMIT, counter.submit(both.clone())).await.expect("an answer");
    assert!(matches!(without, Err(CombineError::Unknown)), "{without:?}");
    proxy.fired(1, LIMIT).await;
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123a'").await, 6);
}

pub(crate) async fn o19_a_batch_in_a_transaction_of_its_own_is_looked_up(database: TestDatabase<Postgres>) {
    let database = stock(database).await;
    let proxy = Postgres::proxy(&database.url).await;
    let pool = Postgres::connect(&Postgres::through(&proxy, &database.url)).await;
    let counter =
        StockCounter::builder(&pool, &table()).always_in_a_transaction().build().expect("the limits are right");
    proxy.swallow_reply_to(once(is_commit()), Then::Cut);
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
