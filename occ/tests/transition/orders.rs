//! The machines of the cases, and what a case needs of an implementation.

use leastlock_occ::{StateConflict, StoredState, Transition, Transitioned};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;
use tokio::sync::Barrier;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Transition)]
#[transition(table = "orders", key = "id", state = "state", version = "version", history = "order_history")]
pub(crate) enum OrderState {
    #[transition(initial, to(Paid, Cancelled))]
    Placed,
    #[transition(to(PartlyShipped, Cancelled), value = "PAID")]
    Paid,
    #[transition(to(PartlyShipped, Shipped))]
    PartlyShipped,
    Shipped,
    Cancelled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Transition)]
#[transition(table = "ticket", key = "number", state = "state", integer)]
pub(crate) enum TicketState {
    #[transition(initial, to(Closed))]
    Open = 1,
    #[transition(to(Open), value = 20)]
    Closed = 2,
}

/// What a transition said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Applied,
    Conflict(StateConflict<OrderState>),
    Illegal,
}

/// Moves order `a`.
pub(crate) trait Moves<DB: TestEngine>: 'static {
    /// `all_have_looked` is for those who look first.
    fn advance(
        tx: &mut Transaction<'_, DB>,
        from: OrderState,
        to: OrderState,
        all_have_looked: &Barrier,
    ) -> impl Future<Output = Verdict> + Send;
}

/// The library's.
pub(crate) struct Real;

impl<DB: TestEngine> Moves<DB> for Real
where
    OrderState: StoredState<DB>,
    &'static str: leastlock_occ::transition::RowKey<DB>,
{
    async fn advance(tx: &mut Transaction<'_, DB>, from: OrderState, to: OrderState, _: &Barrier) -> Verdict {
        match OrderState::transition(tx, "a", from, to).await {
            Ok(Transitioned::Applied) => Verdict::Applied,
            Ok(Transitioned::Conflict(conflict)) => Verdict::Conflict(conflict),
            Err(leastlock_occ::Error::IllegalTransition { machine: "OrderState", .. }) => Verdict::Illegal,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The tables, with order `a` placed.
pub(crate) async fn order_tables<DB: TestEngine>(database: &TestDatabase<DB>) {
    let orders = sql::<DB>(
        "CREATE TABLE orders (id VARCHAR(9) PRIMARY KEY, state VARCHAR(20), version BIGINT)",
        "CREATE TABLE orders (id VARBINARY(9) PRIMARY KEY, state VARCHAR(20), version BIGINT)",
    );
    let history = sql::<DB>(
        "CREATE TABLE order_history (id VARCHAR(9) NOT NULL, from_state VARCHAR(20) NOT NULL, to_state VARCHAR(20) NOT NULL, \
            at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)",
        "CREATE TABLE order_history (id VARBINARY(9) NOT NULL, from_state VARCHAR(20) NOT NULL, to_state VARCHAR(20) NOT NULL, \
            at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)",
    );
    database.execute(orders).await;
    database.execute(history).await;
    database.execute("INSERT INTO orders VALUES ('a', 'placed', 1)").await;
}

/// Order `a` as it was at the start, without a history.
pub(crate) async fn reset<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("DELETE FROM order_history").await;
    database.execute("UPDATE orders SET state = 'placed', version = 1").await;
}
