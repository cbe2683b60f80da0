//! The cases: each scenario comes out right for the library and is failed by its double.

use std::sync::Arc;

use leastlock_core::Engine;
use leastlock_occ::transition::RowKey;
use leastlock_occ::{
    Conflict, Error, StateConflict, Stored, StoredState, Transition, Transitioned, Update, Version, Versioned,
};
#[cfg(feature = "mysql")]
use leastlock_testkit::database::MySql;
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::sync::Barrier;

use super::doubles::{KnowsNoEdges, LooksFirst, RecordsFirst};
use super::orders::{Moves, OrderState, Real, TicketState, Verdict, order_tables, reset};

const CLIENTS: usize = 6;
const RECORDED: &str = "SELECT count(*) FROM order_history";
#[cfg(feature = "mysql")]
const IN_BETWEEN: StateConflict<OrderState> =
    StateConflict::State { expected: OrderState::Placed, actual: OrderState::Cancelled };

/// The row of the machine, as a value.
#[derive(Debug, Clone, PartialEq, Versioned)]
#[versioned(table = "orders", key = "id", version = "version")]
pub(crate) struct Order {
    id: String,
    state: Option<String>,
    version: Version,
}

pub(crate) async fn one_of_many_transitions_out_of_a_state_is_applied<DB: TestEngine>(database: TestDatabase<DB>)
where
    OrderState: StoredState<DB>,
    &'static str: RowKey<DB>,
{
    order_tables(&database).await;
    for _ in 0..5 {
        reset(&database).await;
        let verdicts = raced::<DB, Real>(&database, DB::BEGIN_WRITE).await;
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Applied).count(), 1, "{verdicts:?}");
        for verdict in verdicts.iter().filter(|verdict| **verdict != Verdict::Applied) {
            let is_right = matches!(
                verdict,
                Verdict::Conflict(StateConflict::State {
                    expected: OrderState::Placed,
                    actual: OrderState::Paid | OrderState::Cancelled,
                })
            );
            assert!(is_right, "{verdict:?}");
        }
        assert_eq!(database.int(RECORDED).await, 1);
    }
    // Whoever looks under SQLite's one write lock looks alone, and a write after a look without it fails.
    if DB::ENGINE != Engine::Sqlite {
        reset(&database).await;
        let verdicts = raced::<DB, LooksFirst>(&database, DB::BEGIN_WRITE).await;
        let applied = verdicts.iter().filter(|verdict| **verdict == Verdict::Applied).count();
        assert!(applied > 1, "the double is not caught");
    }
}

/// Half of the clients pay the order, half of them cancel it.
async fn raced<DB: TestEngine, I: Moves<DB>>(database: &TestDatabase<DB>, begin: &'static str) -> Vec<Verdict> {
    let all_have_looked = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (pool, all_have_looked) = (database.pool.clone(), Arc::clone(&all_have_looked));
            let to = if client % 2 == 0 { OrderState::Paid } else { OrderState::Cancelled };
            tokio::spawn(async move {
                let mut tx = pool.begin_with(begin).await.expect("a transaction");
                let verdict = I::advance(&mut tx, OrderState::Placed, to, &all_have_looked).await;
                tx.commit().await.expect("the commit");
                verdict
            })
        })
        .collect();
    let mut verdicts = Vec::new();
    for client in clients {
        verdicts.push(client.await.expect("a client ends"));
    }
    verdicts
}

pub(crate) async fn an_illegal_edge_fails_before_any_sql<DB: TestEngine>(database: TestDatabase<DB>)
where
    OrderState: StoredState<DB>,
    &'static str: RowKey<DB>,
{
    // There is no table yet, so whatever reaches the database fails otherwise.
    for from in OrderState::STATES {
        for to in OrderState::STATES.iter().filter(|to| !from.successors().contains(to)) {
            assert_eq!(moved::<DB, Real>(&database, *from, *to).await, Verdict::Illegal, "{from:?} to {to:?}");
        }
    }
    order_tables(&database).await;
    let double = moved::<DB, KnowsNoEdges>(&database, OrderState::Placed, OrderState::Shipped).await;
    assert_eq!(double, Verdict::Applied, "the double is not caught");
}

async fn moved<DB: TestEngine, I: Moves<DB>>(database: &TestDatabase<DB>, from: OrderState, to: OrderState) -> Verdict {
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let verdict = I::advance(&mut tx, from, to, &Barrier::new(1)).await;
    tx.commit().await.expect("the commit");
    verdict
}

pub(crate) async fn the_history_is_written_with_the_transition_or_not_at_all<DB: TestEngine>(database: TestDatabase<DB>)
where
    OrderState: StoredState<DB>,
    &'static str: RowKey<DB>,
{
    order_tables(&database).await;
    assert_eq!(recorded_and_done::<DB, Real>(&database).await, (2, 2));
    let steps = "SELECT count(*) FROM order_history WHERE (from_state = 'placed' AND to_state = 'PAID') \
        OR (from_state = 'PAID' AND to_state = 'partly_shipped')";
    assert_eq!(database.int(steps).await, 2);
    reset(&database).await;
    assert_eq!(recorded_and_done::<DB, RecordsFirst>(&database).await, (3, 2), "the double is not caught");
}

/// Two transitions, one that meets a conflict, one that is rolled back.
async fn recorded_and_done<DB: TestEngine, I: Moves<DB>>(database: &TestDatabase<DB>) -> (i64, i64) {
    let mut done = 0;
    for (from, to) in [
        (OrderState::Placed, OrderState::Paid),
        (OrderState::Placed, OrderState::Cancelled),
        (OrderState::Paid, OrderState::PartlyShipped),
    ] {
        done += i64::from(moved::<DB, I>(database, from, to).await == Verdict::Applied);
    }
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let rolled_back = I::advance(&mut tx, OrderState::PartlyShipped, OrderState::Shipped, &Barrier::new(1)).await;
    assert_eq!(rolled_back, Verdict::Applied);
    tx.rollback().await.expect("the rollback");
    (database.int(RECORDED).await, done)
}

pub(crate) async fn a_transition_raises_the_version_and_may_check_it<DB: TestEngine>(database: TestDatabase<DB>)
where
    OrderState: StoredState<DB>,
    Order: Stored<DB>,
    &'static str: RowKey<DB>,
{
    order_tables(&database).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let loaded = Order::load(&mut *tx, "a").await.expect("a read").expect("the order");
    let (placed, paid) = (OrderState::Placed, OrderState::Paid);
    let wrong = OrderState::transition_at(&mut tx, "a", Version::new(7), placed, paid).await.expect("an outcome");
    let stale = StateConflict::Stale { expected: Version::new(7), actual: Version::new(1) };
    assert_eq!(wrong, Transitioned::Conflict(stale));
    let right = OrderState::transition_at(&mut tx, "a", loaded.version, placed, paid).await.expect("an outcome");
    assert_eq!(right, Transitioned::Applied);
    let outcome = loaded.update(&mut *tx, |order| order.state = None).await.expect("an outcome");
    let stale = Conflict::Stale { expected: Version::new(1), actual: Version::new(2) };
    assert_eq!(outcome, Update::Conflict(stale));
    tx.commit().await.expect("the commit");
    assert_eq!(database.int("SELECT version FROM orders").await, 2);

    database.execute("UPDATE orders SET version = 9223372036854775807").await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let last = OrderState::transition(&mut tx, "a", paid, OrderState::Cancelled).await;
    assert!(matches!(last, Err(Error::VersionOverflow { .. })), "{last:?}");
}

pub(crate) async fn a_row_that_is_missing_or_in_no_state_is_told_apart<DB: TestEngine>(database: TestDatabase<DB>)
where
    OrderState: StoredState<DB>,
    &'static str: RowKey<DB>,
{
    order_tables(&database).await;
    database.execute("INSERT INTO orders VALUES ('b', 'lost', 1), ('c', NULL, 1), ('d', 'placed', NULL)").await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let missing = OrderState::transition(&mut tx, "none", OrderState::Placed, OrderState::Paid).await;
    assert_eq!(missing.expect("an outcome"), Transitioned::Conflict(StateConflict::Gone));
    for id in ["b", "c"] {
        let unknown = OrderState::transition(&mut tx, id, OrderState::Placed, OrderState::Paid).await;
        assert!(matches!(unknown, Err(Error::UnknownState { machine: "OrderState", .. })), "{id}: {unknown:?}");
    }
    let unversioned = OrderState::transition(&mut tx, "d", OrderState::Placed, OrderState::Paid).await;
    assert!(matches!(unversioned, Err(Error::NullVersion { .. })), "{unversioned:?}");
    tx.commit().await.expect("nothing was done");
    assert_eq!(database.int(RECORDED).await, 0);
}

pub(crate) async fn states_may_be_integers<DB: TestEngine>(database: TestDatabase<DB>)
where
    TicketState: StoredState<DB>,
    i64: RowKey<DB>,
{
    database.execute("CREATE TABLE ticket (number BIGINT PRIMARY KEY, state SMALLINT NOT NULL)").await;
    database.execute("INSERT INTO ticket VALUES (7, 1)").await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let (open, closed) = (TicketState::Open, TicketState::Closed);
    let outcome = TicketState::transition(&mut tx, 7_i64, open, closed).await.expect("an outcome");
    assert_eq!(outcome, Transitioned::Applied);
    let outcome = TicketState::transition(&mut tx, 7_i64, open, closed).await.expect("an outcome");
    assert_eq!(outcome.into_result(), Err(StateConflict::State { expected: open, actual: closed }));
    tx.commit().await.expect("the commit");
    assert_eq!(
        database
            .int(sql::<DB>("SELECT CAST(state AS BIGINT) FROM ticket", "SELECT CAST(state AS SIGNED) FROM ticket"))
            .await,
        20
    );
}

/// The default isolation level of MySQL, whose snapshot a plain read shows.
#[cfg(feature = "mysql")]
pub(crate) async fn an_old_snapshot_does_not_hide_the_state(database: TestDatabase<MySql>) {
    const BEGIN: &str = "SET innodb_snapshot_isolation = OFF; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
        START TRANSACTION WITH CONSISTENT SNAPSHOT";
    order_tables(&database).await;
    let mut tx = database.pool.begin_with(BEGIN).await.expect("a transaction");
    let now = Order::load(&mut *tx, "a").await.expect("a read").expect("the order");
    database.execute("UPDATE orders SET state = 'cancelled', version = version + 1").await;
    let verdict =
        <Real as Moves<MySql>>::advance(&mut tx, OrderState::Placed, OrderState::Paid, &Barrier::new(1)).await;
    assert_eq!(verdict, Verdict::Conflict(IN_BETWEEN));
    // The double: a plain read, which says that nothing has happened.
    assert_eq!(Order::load(&mut *tx, "a").await.expect("a read"), Some(now), "the double is not caught");
}
