//! How many statements a batch is, as the server hears them.

use std::sync::{Arc, Mutex, PoisonError};

use leastlock_core::Statement;
use leastlock_occ::{Counted, Movement, StockCounter, StockSql};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::{FaultProxy, Proxied, Then};
use tokio::time::timeout;

use super::crowd::LIMIT;
use super::server::waits_for_a_lock;
use super::suite::{stock, table, take};

/// What was executed since it was last asked.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    fn listen(proxy: &FaultProxy) -> Self {
        let heard = Self::default();
        let listener = heard.clone();
        let listen = move |sql: &str| {
            listener.0.lock().unwrap_or_else(PoisonError::into_inner).push(sql.to_owned());
            false
        };
        proxy.swallow_reply_to(listen, Then::Cut);
        heard
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) async fn a_batch_is_as_many_statements_whatever_its_size<DB: Proxied + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    let proxy = DB::proxy(&database.url).await;
    let pool = DB::connect(&DB::through(&proxy, &database.url)).await;
    let builder = StockCounter::builder(&pool, &table());
    let counter = builder.build_with(|combiner| combiner.lock_wait(LIMIT)).expect("the limits are right");
    let heard = Heard::listen(&proxy);

    assert_eq!(counter.submit(take("85123A", 1)).await.expect("an answer"), Counted::Applied);
    let alone: Vec<_> = heard.take().into_iter().filter(|sql| sql.contains("UPDATE")).collect();
    assert_eq!(alone.len(), 1, "it came alone: {alone:?}");

    let few = behind_a_lock(&database, &counter, &heard, "few", 2).await;
    let many = behind_a_lock(&database, &counter, &heard, "many", 500).await;
    assert_eq!(few, many, "the same statements for 2 movements and for 500");
    assert!(many.len() < 10, "{many:?}");
}

/// What is executed for a movement that waits for a row, once it has it, and for those that have come meanwhile.
async fn behind_a_lock<DB: Proxied + StockSql>(
    database: &TestDatabase<DB>,
    counter: &StockCounter<DB>,
    heard: &Heard,
    name: &str,
    size: usize,
) -> Vec<String> {
    let mut somebody = database.pool.begin().await.expect("a transaction");
    let lock = Statement::new("UPDATE stock SET units = units + 1 WHERE code = '22423'");
    lock.execute::<DB>(&mut somebody).await.expect("the lock");
    let order = |key: &str, id: String| Movement::give(key, 1).and_then(|give| give.with_order_id(id)).expect("bounds");
    let submit = |order| counter.try_submit(order).expect("there is room");
    let mut pending = vec![submit(order("22423", format!("{name} first")))];
    waits_for_a_lock(database).await;
    let keys = ["85123A", "85123a"].into_iter().cycle();
    pending.extend(keys.zip(0..size).map(|(key, n)| submit(order(key, format!("{name} {n}")))));
    heard.take();
    somebody.commit().await.expect("the commit");
    for pending in pending {
        assert_eq!(timeout(LIMIT, pending).await.expect("it ends").expect("an answer"), Counted::Applied);
    }
    heard.take()
}
