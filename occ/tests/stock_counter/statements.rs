//! How many statements a batch is, as the server hears them.

use std::sync::{Arc, Mutex, PoisonError};

use leastlock_core::{Engine, Statement};
use leastlock_occ::{Counted, Movement, StockCounter, StockSql};
use leastlock_testkit::proxy::{FaultProxy, Proxied, Then};
use leastlock_testkit::{TestDatabase, until};
use tokio::time::timeout;

use super::crowd::LIMIT;
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
    let counter =
        builder.build_with(|combiner| combiner.lock_wait(LIMIT).keep_connection(LIMIT)).expect("the limits are right");
    let heard = Heard::listen(&proxy);

    assert_eq!(counter.submit(take("85123A", 1)).await.expect("an answer"), Counted::Applied);
    let alone: Vec<_> = heard.take().into_iter().filter(|sql| sql.contains("UPDATE")).collect();
    assert_eq!(alone.len(), 1, "it came alone: {alone:?}");

    let in_a_transaction = StockCounter::builder(&pool, &table()).always_in_a_transaction();
    let in_a_transaction = in_a_transaction.build_with(|combiner| combiner.lock_wait(LIMIT).keep_connection(LIMIT));
    let in_a_transaction = in_a_transaction.expect("the limits are right");
    for (counter, has_ids, name) in
        [(&counter, true, "ids"), (&in_a_transaction, false, "none"), (&counter, false, "at once")]
    {
        let few = behind_a_lock(&database, counter, &heard, has_ids, &format!("{name} few"), 2).await;
        let many = behind_a_lock(&database, counter, &heard, has_ids, &format!("{name} many"), 500).await;
        assert_eq!(few, many, "{name}: the same statements for 2 movements and for 500");
        assert!(many.len() < 10, "{many:?}");
        let at_once = many.iter().filter(|sql| sql.contains("bool_and(is_met)")).count();
        let is_at_once = DB::ENGINE == Engine::Postgres && name == "at once";
        assert_eq!(at_once, usize::from(is_at_once), "{name}: {many:?}");
        assert!(
            !is_at_once || many.last().is_some_and(|sql| sql.contains("bool_and(is_met)")),
            "nothing after: {many:?}"
        );
    }
}

pub(crate) async fn a_movement_that_comes_alone_is_one_statement_on_a_kept_connection<DB: Proxied + StockSql>(
    database: TestDatabase<DB>,
) {
    let database = stock(database).await;
    database.execute("UPDATE stock SET units = 100").await;
    let proxy = DB::proxy(&database.url).await;
    let pool = DB::connect(&DB::through(&proxy, &database.url)).await;
    let counter = StockCounter::builder(&pool, &table()).build_with(|combiner| combiner.keep_connection(LIMIT));
    let counter = counter.expect("the limits are right");
    assert_eq!(counter.submit(take("85123A", 1)).await.expect("an answer"), Counted::Applied);
    let heard = Heard::listen(&proxy);
    let ways = if DB::ENGINE == Engine::Postgres { &[false, true][..] } else { &[false][..] };
    for has_id in ways {
        for n in 0..20 {
            let mut one = take("85123A", 1);
            if *has_id {
                one = one.with_order_id(n.to_string()).expect("it is within bounds");
            }
            assert_eq!(counter.submit(one).await.expect("an answer"), Counted::Applied);
        }
        let heard = heard.take();
        assert_eq!(heard.len(), 20, "one each: {heard:?}");
    }
}

/// What is executed for a movement that waits for a row, once it has it, and for those that have come meanwhile.
async fn behind_a_lock<DB: Proxied + StockSql>(
    database: &TestDatabase<DB>,
    counter: &StockCounter<DB>,
    heard: &Heard,
    has_ids: bool,
    name: &str,
    size: usize,
) -> Vec<String> {
    let mut somebody = database.pool.begin().await.expect("a transaction");
    let lock = Statement::new("UPDATE stock SET units = units + 1 WHERE code = '22423'");
    lock.execute::<DB>(&mut somebody).await.expect("the lock");
    let submit = |order| counter.try_submit(order).expect("there is room");
    // Of two rows and with an id, so that it is not tried in one statement, and says nothing of how that goes.
    let first = Movement::give("22423", 1).and_then(|first| first.and_give("85123A", 1)).expect("bounds");
    let mut pending = vec![submit(first.with_order_id(format!("{name} first")).expect("bounds"))];
    until("somebody waits for a lock", LIMIT, async || database.waiting_for_locks().await > 0).await;
    for (key, n) in ["85123A", "85123a"].into_iter().cycle().zip(0..size) {
        let give = Movement::give(key, 1).expect("bounds");
        let order = if has_ids { give.with_order_id(format!("{name} {n}")).expect("bounds") } else { give };
        pending.push(submit(order));
    }
    heard.take();
    somebody.commit().await.expect("the commit");
    for pending in pending {
        assert_eq!(timeout(LIMIT, pending).await.expect("it ends").expect("an answer"), Counted::Applied);
    }
    heard.take()
}
