//! The classic mistakes.

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_occ::{StateConflict, Transition};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::Transaction;
use tokio::sync::Barrier;
use tokio::time::timeout;

use super::orders::{Moves, OrderState, Verdict};

const SET: &str = "UPDATE orders SET state = $1, version = version + 1 WHERE id = 'a'";
const SET_MYSQL: &str = "UPDATE orders SET state = ?, version = version + 1 WHERE id = 'a'";
const MOVE: &str = "UPDATE orders SET state = $1, version = version + 1 WHERE id = 'a' AND state = $2";
const MOVE_MYSQL: &str = "UPDATE orders SET state = ?, version = version + 1 WHERE id = 'a' AND state = ?";
const RECORD: &str = "INSERT INTO order_history (id, from_state, to_state) VALUES ('a', $1, $2)";
const RECORD_MYSQL: &str = "INSERT INTO order_history (id, from_state, to_state) VALUES ('a', ?, ?)";

fn stored(state: OrderState) -> &'static str {
    match state {
        OrderState::Placed => "placed",
        OrderState::Paid => "PAID",
        OrderState::PartlyShipped => "partly_shipped",
        OrderState::Shipped => "shipped",
        OrderState::Cancelled => "cancelled",
    }
}

/// Looks at the state, compares it in memory, and writes without a condition.
pub(crate) struct LooksFirst;

impl<DB: TestEngine> Moves<DB> for LooksFirst {
    async fn advance(
        tx: &mut Transaction<'_, DB>,
        from: OrderState,
        to: OrderState,
        all_have_looked: &Barrier,
    ) -> Verdict {
        if !from.successors().contains(&to) {
            return Verdict::Illegal;
        }
        let look = Statement::new("SELECT CAST(state AS CHAR(20)) FROM orders WHERE id = 'a'");
        let found = look.fetch_one::<DB>(tx).await.and_then(|row| row.text(0)).expect("a state");
        // Of those that look after another has written there is no meeting.
        let _ = timeout(Duration::from_secs(2), all_have_looked.wait()).await;
        if found.trim_end() != stored(from) {
            return Verdict::Conflict(StateConflict::Gone);
        }
        Statement::new(sql::<DB>(SET, SET_MYSQL)).bind(stored(to)).execute::<DB>(tx).await.expect("a write");
        Verdict::Applied
    }
}

/// Moves from any state to any other, if it is the right one.
pub(crate) struct KnowsNoEdges;

impl<DB: TestEngine> Moves<DB> for KnowsNoEdges {
    async fn advance(tx: &mut Transaction<'_, DB>, from: OrderState, to: OrderState, _: &Barrier) -> Verdict {
        let update = Statement::new(sql::<DB>(MOVE, MOVE_MYSQL)).bind(stored(to)).bind(stored(from));
        match update.execute::<DB>(tx).await.expect("a write") {
            1 => Verdict::Applied,
            _ => Verdict::Conflict(StateConflict::Gone),
        }
    }
}

/// Writes the history of what it was asked to do, and asks later whether it was done.
pub(crate) struct RecordsFirst;

impl<DB: TestEngine> Moves<DB> for RecordsFirst {
    async fn advance(tx: &mut Transaction<'_, DB>, from: OrderState, to: OrderState, looked: &Barrier) -> Verdict {
        let record = Statement::new(sql::<DB>(RECORD, RECORD_MYSQL)).bind(stored(from)).bind(stored(to));
        record.execute::<DB>(tx).await.expect("a row");
        <KnowsNoEdges as Moves<DB>>::advance(tx, from, to, looked).await
    }
}
