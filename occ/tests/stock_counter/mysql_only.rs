//! By which index MySQL and MariaDB find, and so lock, the rows.

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_occ::combiner::CombineError;
use leastlock_occ::{Counted, MIGRATIONS, StockCounter, StockTable};
use leastlock_testkit::TestDatabase;
use sqlx::MySql;
use tokio::time::timeout;

use super::crowd::LIMIT;
use super::suite::{counter, stock, take};

pub(crate) async fn a_unique_index_beside_the_primary_key_can_be_named(database: TestDatabase<MySql>) {
    let database = database.with(&MIGRATIONS).await;
    let table = "CREATE TABLE item (id BIGINT AUTO_INCREMENT PRIMARY KEY, sku VARBINARY(20) NOT NULL, \
        units BIGINT NOT NULL, UNIQUE KEY item_sku (sku))";
    database.execute(table).await;
    database.execute("INSERT INTO item (sku, units) VALUES ('b', 2), ('a', 1)").await;
    let counter = |index: &str| {
        let table = StockTable::new("item", "sku", "units").and_then(|table| table.by_index(index));
        StockCounter::builder(&database.pool, &table.expect("plain names")).build().expect("the limits are right")
    };
    let both = || take("b", 1).and_take("a", 1).expect("it is within bounds");
    assert_eq!(counter("item_sku").submit(both()).await.expect("an answer"), Counted::Applied);
    let refused = Counted::Refused { key: "a".to_owned(), units: 0 };
    assert_eq!(counter("item_sku").submit(both()).await.expect("an answer"), refused);
    let misnamed = counter("item_code").submit(both()).await;
    assert!(matches!(misnamed, Err(CombineError::Failed { .. })), "{misnamed:?}");
}

/// A plan that scans the table would wait for a row that nobody asked for.
pub(crate) async fn statements_look_each_key_up_in_a_small_table_too(database: TestDatabase<MySql>) {
    let database = stock(database).await;
    let mut somebody = database.pool.begin().await.expect("a transaction");
    let lock = Statement::new("SELECT units FROM stock WHERE code = '85123A' FOR UPDATE");
    lock.fetch_all::<MySql>(&mut somebody).await.expect("the lock");
    let both = take("22423", 1).and_take("85123a", 1).expect("it is within bounds");
    let order = both.clone().and_give("22423", 1).and_then(|both| both.with_order_id("1")).expect("bounds");
    for movement in [both, order] {
        let answer = timeout(LIMIT, counter(&database.pool).submit(movement)).await.expect("it waits for nobody");
        assert_eq!(answer.expect("an answer"), Counted::Applied);
    }

    // The double: the same read without a word about the plan.
    let scans = "SELECT s.code FROM stock AS s JOIN JSON_TABLE('[\"22423\", \"85123a\"]', '$[*]' COLUMNS (k VARCHAR(20) PATH '$')) \
        AS w ON s.code = w.k FOR UPDATE NOWAIT";
    let mut connection = database.pool.acquire().await.expect("a connection");
    let scanned = Statement::new(scans).fetch_all::<MySql>(&mut connection).await;
    let class = scanned.as_ref().err().map(classify::<MySql>);
    assert_eq!(class, Some(ErrorClass::LockTimeout), "the double is not caught");
}
