//! O19: a reply that is lost, and what an order id tells then.

use std::time::Duration;

use leastlock_occ::combiner::CombineError;
use leastlock_occ::{Counted, StockCounter, StockSql};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::statement::{is_commit, once};
use leastlock_testkit::proxy::{Proxied, Then};
use tokio::time::timeout;

use super::crowd::LIMIT;
use super::suite::{stock, table, take};

pub(crate) async fn o19_a_lost_reply_is_resolved_by_the_order_id<DB: Proxied + StockSql>(database: TestDatabase<DB>) {
    let database = stock(database).await;
    let proxy = DB::proxy(&database.url).await;
    let pool = DB::connect(&DB::through(&proxy, &database.url)).await;
    let counter = StockCounter::builder(&pool, &table());
    let counter = counter.build_with(|combiner| combiner.lookup_time(Duration::from_millis(300)));
    let counter = counter.expect("the limits are right");
    let order = |id: &str| take("85123A", 1).with_order_id(id).expect("it is within bounds");

    // Alone: on PostgreSQL one statement is the whole transaction, with an order id and without; on MySQL without only.
    let mut is_the_commit = is_commit();
    let stores = move |sql: &str| sql.contains("'applied' FROM moved") || is_the_commit(sql);
    proxy.swallow_reply_to(once(stores), Then::Cut);
    assert_eq!(timeout(LIMIT, counter.submit(order("1"))).await.expect("an answer").expect("told"), Counted::Applied);
    proxy.fired(1, LIMIT).await;
    proxy.swallow_reply_to(once(|sql: &str| sql.contains("UPDATE stock")), Then::Cut);
    let without = timeout(LIMIT, counter.submit(take("85123A", 1))).await.expect("an answer");
    assert!(matches!(without, Err(CombineError::Unknown)), "{without:?}");
    proxy.fired(2, LIMIT).await;
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123A'").await, 3);

    // In a batch of which nothing can be looked up: only what has an order id is known.
    let mut lost_commits = once(is_commit());
    proxy.swallow_reply_to(move |sql| lost_commits(sql) || sql.contains("pg_xact_status"), Then::Cut);
    let several = |id: Option<&str>| {
        let movement = take("85123A", 1).and_take("85123a", 1).expect("it is within bounds");
        id.map_or(movement.clone(), |id| movement.with_order_id(id).expect("it is within bounds"))
    };
    let [with, without] = [several(Some("2")), several(None)].map(|movement| counter.try_submit(movement));
    let with = timeout(LIMIT, with.expect("room")).await.expect("an answer");
    assert_eq!(with.expect("its id tells"), Counted::Applied);
    let without = timeout(LIMIT, without.expect("room")).await.expect("an answer");
    proxy.fired(3, LIMIT).await;
    // They were in one batch or in two; only the batch whose reply was lost is in doubt.
    assert!(matches!(without, Err(CombineError::Unknown) | Ok(Counted::Applied)), "{without:?}");
    assert_eq!(database.int("SELECT units FROM stock WHERE code = '85123A'").await, 1, "each was applied once");
}
