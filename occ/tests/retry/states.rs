//! A refused transition in a unit of work: an answer, or, for a unit that reads the state first, a conflict.

use std::sync::atomic::{AtomicU32, Ordering};

use leastlock_core::Dialect;
use leastlock_occ::transition::RowKey;
use leastlock_occ::{
    Attempt, Committed, ConflictClass, Error, MayConflict, Retry, RetryError, StateConflict, StoredState, Transition,
};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

use super::suite::QUICK;
use super::units::begin_open;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Transition)]
#[transition(table = "orders", key = "id", state = "state")]
pub(crate) enum OrderState {
    #[transition(initial, to(Paid, Cancelled))]
    Placed,
    #[transition(to(Cancelled))]
    Paid,
    Cancelled,
}

/// As an application has it, whose units have a fixed `from`.
#[derive(Debug, thiserror::Error)]
enum MoveError {
    #[error(transparent)]
    State(#[from] StateConflict<OrderState>),
    #[error(transparent)]
    Database(#[from] Error),
}

impl<DB: Dialect> MayConflict<DB> for MoveError {
    fn conflict(&self) -> Option<ConflictClass> {
        match self {
            Self::State(conflict) => MayConflict::<DB>::conflict(conflict),
            Self::Database(error) => MayConflict::<DB>::conflict(error),
        }
    }
}

/// Of units that read the state first. With a fixed `from` it is the double: it takes every refusal for a conflict.
#[derive(Debug)]
struct RunsStatesAgain(MoveError);

impl<T: Into<MoveError>> From<T> for RunsStatesAgain {
    fn from(error: T) -> Self {
        Self(error.into())
    }
}

impl<DB: Dialect> MayConflict<DB> for RunsStatesAgain {
    fn conflict(&self) -> Option<ConflictClass> {
        match &self.0 {
            MoveError::State(_) => Some(ConflictClass::State),
            error @ MoveError::Database(_) => MayConflict::<DB>::conflict(error),
        }
    }
}

async fn order<DB: TestEngine>(database: &TestDatabase<DB>) {
    let table = sql::<DB>(
        "CREATE TABLE orders (id VARCHAR(20) PRIMARY KEY, state VARCHAR(20) NOT NULL)",
        "CREATE TABLE orders (id VARBINARY(20) PRIMARY KEY, state VARBINARY(20) NOT NULL)",
    );
    database.execute(table).await;
    database.execute("INSERT INTO orders VALUES ('o', 'paid')").await;
}

/// Pays an order, once for each attempt; answers how many were made, and what came of it.
async fn pay<DB: TestEngine, E>(database: &TestDatabase<DB>, id: &'static str) -> (u32, RetryError<E>)
where
    OrderState: StoredState<DB>,
    &'static str: RowKey<DB>,
    E: MayConflict<DB> + From<Error> + From<StateConflict<OrderState>> + std::fmt::Debug,
{
    let made = AtomicU32::new(0);
    let work = async |mut attempt: Attempt<DB>| -> Result<Committed<()>, E> {
        made.fetch_add(1, Ordering::Relaxed);
        OrderState::transition(attempt.tx(), id, OrderState::Placed, OrderState::Paid).await?.into_result()?;
        Ok(attempt.commit(()).await?)
    };
    let outcome = Retry::default().attempts(3).backoff(QUICK).run(&database.pool, work).await;
    (made.into_inner(), outcome.expect_err("the order cannot be paid"))
}

pub(crate) async fn a_state_that_no_rerun_changes_is_not_run_again<DB: TestEngine>(database: TestDatabase<DB>)
where
    OrderState: StoredState<DB>,
    &'static str: RowKey<DB>,
{
    order(&database).await;
    match pay::<DB, MoveError>(&database, "o").await {
        (1, RetryError::Failed(MoveError::State(StateConflict::State { actual: OrderState::Paid, .. }))) => {}
        other => panic!("an order that is paid already: {other:?}"),
    }
    match pay::<DB, MoveError>(&database, "none").await {
        (1, RetryError::Failed(MoveError::State(StateConflict::Gone))) => {}
        other => panic!("an order that does not exist: {other:?}"),
    }
    for id in ["o", "none"] {
        let (made, double) = pay::<DB, RunsStatesAgain>(&database, id).await;
        assert!(
            matches!(double, RetryError::Exhausted { attempts: 3, class: ConflictClass::State, .. }),
            "the double is not caught: {made} {double:?}"
        );
        assert!(double.to_string().contains("state") && !double.to_string().contains("too hot"), "{double}");
    }
}

/// Cancels the order from whatever state it reads. A rival pays it between the read and the move, the first time.
pub(crate) async fn a_unit_that_reads_the_state_first_may_run_again<DB: TestEngine>(database: TestDatabase<DB>)
where
    OrderState: StoredState<DB>,
    &'static str: RowKey<DB>,
{
    order(&database).await;
    database.execute("UPDATE orders SET state = 'placed'").await;
    let cancel = Retry::default().backoff(QUICK).begin_with(begin_open::<DB>()).run(
        &database.pool,
        async |mut attempt: Attempt<DB>| {
            let from = match database.int("SELECT count(*) FROM orders WHERE state = 'placed'").await {
                1 => OrderState::Placed,
                _ => OrderState::Paid,
            };
            if attempt.number() == 1 {
                database.execute("UPDATE orders SET state = 'paid'").await;
            }
            let moved = OrderState::transition(attempt.tx(), "o", from, OrderState::Cancelled).await?;
            moved.into_result()?;
            let number = attempt.number();
            Ok::<_, RunsStatesAgain>(attempt.commit(number).await?)
        },
    );
    assert_eq!(cancel.await.expect("the second attempt commits"), 2);
    assert_eq!(database.int("SELECT count(*) FROM orders WHERE state = 'cancelled'").await, 1);
}
