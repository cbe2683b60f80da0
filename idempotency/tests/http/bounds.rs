//! How much the layer takes on at a time.

use leastlock_idempotency::http::type_uri;
use leastlock_idempotency::phased::PhasedSql;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::client::{Call, Connection};
use crate::doubles::{Mistake, Naive};
use crate::stacks::Replaying;
use crate::stage::{Stack, Stage};
use crate::suite::{prepared, problem};

/// One request whose body is still to come, and another one meanwhile. Answers what that one is told.
async fn while_a_body_is_read<DB: TestEngine>(
    database: &TestDatabase<DB>,
    stack: &impl Stack<DB>,
) -> (u16, Option<String>) {
    let stage = Stage::new(database, stack).await;
    let call = Call::order("plain", "k1", "lamp").with("expect", "100-continue").bytes();
    let (head, body) = call.split_at(call.len() - 4);
    let mut connection = Connection::open(stage.server.address).await;
    connection.send(head).await;
    connection.is_being_read().await;
    let other = Call::order("plain", "k2", "lamp");
    let told = stage.ask(&other).await.outcome();
    // What is wrong with its head is told all the same.
    assert_eq!(stage.ask(&Call::new("POST", "/orders/plain")).await.outcome(), problem(400, type_uri::KEY_MISSING));
    connection.send(body).await;
    assert_eq!(connection.receive().await.status, 201);
    assert_eq!(stage.ask(&other).await.status, 201, "the place is free again");
    told
}

pub(crate) async fn body_that_is_being_read_counts_as_running<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let stack = Replaying { max_running: 1, ..Replaying::default() };
    assert_eq!(while_a_body_is_read(&database, &stack).await, problem(503, type_uri::OVERLOADED));
    let double = while_a_body_is_read(&database, &Naive(Mistake::None)).await;
    assert_eq!(double, (201, None), "a layer without a bound must be caught");
}
