//! A store that takes a connection and then says nothing, or says it late.
#![cfg(feature = "postgres")]

use std::time::Duration;

use leastlock_idempotency::http::type_uri;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::{Then, postgres};
use sqlx::Postgres;

use crate::client::{Answer, Call, PATIENCE};
use crate::doubles::{Mistake, Naive};
use crate::replay::settled;
use crate::stacks::Replaying;
use crate::stage::Stack;
use crate::store_cut::proxied;
use crate::suite::{prepared, problem};

/// A limit that the proxy's silence outlasts.
const LIMIT: Duration = Duration::from_millis(500);

fn is_claim(sql: &str) -> bool {
    sql.contains("INSERT INTO leastlock_idempotency")
}

/// The only place is taken by a request whose claim is never answered. Answers what that one was told, and whether another
/// request got the place; `None` for a client that hears nothing.
async fn silent_at_the_claim(
    database: &TestDatabase<Postgres>,
    stack: &impl Stack<Postgres>,
    patience: Duration,
) -> Option<((u16, Option<String>), usize)> {
    let (proxy, stage) = proxied(database, stack).await;
    proxy.lose_request(postgres::once(is_claim), Then::Hang);
    let call = Call::order("plain", "k1", "lamp");
    let told = tokio::time::timeout(patience, stage.ask(&call)).await.ok()?.outcome();
    proxy.fired(1, PATIENCE).await;
    assert_eq!(stage.shop.started(), 0, "nothing runs unprotected");
    let other = Call::order("plain", "k2", "lamp");
    let accepted = async {
        while stage.ask(&other).await.outcome() == problem(503, type_uri::OVERLOADED) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, accepted).await.expect("the place is free again, with the connection still silent");
    Some((told, stage.shop.started()))
}

pub(crate) async fn store_that_does_not_answer_keeps_no_place(database: TestDatabase<Postgres>) {
    let database = prepared(database).await;
    let stack = Replaying { max_running: 1, max_claim: LIMIT, ..Replaying::default() };
    let told = silent_at_the_claim(&database, &stack, PATIENCE).await;
    assert_eq!(told, Some((problem(503, type_uri::STORE_FAILED), 1)));
    let double = silent_at_the_claim(&database, &Naive(Mistake::None), LIMIT * 4).await;
    assert_eq!(double, None, "a layer without a limit must be caught");
}

/// The claim takes effect, and its answer comes when nobody waits for it any more.
pub(crate) async fn claim_that_comes_too_late_is_given_back(database: TestDatabase<Postgres>) {
    let database = prepared(database).await;
    let stack = Replaying { max_claim: LIMIT, ..Replaying::default() };
    let (proxy, stage) = proxied(&database, &stack).await;
    // From here on the connection has the statement prepared, so that a claim is one message.
    settled(stage.server.address, &Call::order("plain", "k0", "lamp")).await;
    let before = stage.shop.started();
    // Either way: the claim arrives within the limit, and its answer beyond it.
    proxy.delay(Duration::from_millis(400));
    let call = Call::order("plain", "k1", "lamp");
    assert_eq!(stage.ask(&call).await.outcome(), problem(503, type_uri::STORE_FAILED));
    proxy.delay(Duration::ZERO);
    // Its lease is longer than anybody's patience: a key that was left claimed would stay in flight.
    let repeat = settled(stage.server.address, &call).await;
    assert_eq!((repeat.status, repeat.is_replayed(), stage.shop.started() - before), (201, false, 1));
}

/// The statement that ends the key is not answered: it took effect, or it never arrived. Answers what the client and a repeat
/// are told.
async fn silent_at_the_end(
    database: &TestDatabase<Postgres>,
    stack: &impl Stack<Postgres>,
    takes_effect: bool,
    patience: Duration,
) -> Option<(Answer, Answer)> {
    let (proxy, stage) = proxied(database, stack).await;
    let is_end = postgres::once(|sql| sql.contains("SET state = 'completed'"));
    if takes_effect {
        proxy.swallow_reply_to(is_end, Then::Hang);
    } else {
        proxy.lose_request(is_end, Then::Hang);
    }
    let call = Call::order("plain", "k1", "lamp");
    let first = tokio::time::timeout(patience, stage.ask(&call)).await.ok()?;
    proxy.fired(1, PATIENCE).await;
    let repeat = stage.ask(&call).await;
    assert_eq!(stage.effects().await, 1);
    Some((first, repeat))
}

pub(crate) async fn end_that_is_not_answered_is_not_waited_for(database: TestDatabase<Postgres>) {
    let database = prepared(database).await;
    let stack = Replaying { max_record: LIMIT, ..Replaying::default() };
    let not_recorded = problem(503, type_uri::NOT_RECORDED);
    let (first, repeat) = silent_at_the_end(&database, &stack, true, PATIENCE).await.expect("an answer");
    assert_eq!((first.outcome(), repeat.status, repeat.is_replayed()), (not_recorded.clone(), 201, true));
    // What was not written leaves the key to its lease.
    let (first, repeat) = silent_at_the_end(&database, &stack, false, PATIENCE).await.expect("an answer");
    assert_eq!((first.outcome(), repeat.outcome()), (not_recorded, problem(409, type_uri::IN_FLIGHT)));
    let double = silent_at_the_end(&database, &Naive(Mistake::None), true, LIMIT * 4).await;
    assert!(double.is_none(), "a layer without a limit must be caught: {double:?}");
}
