//! The same on PostgreSQL, through a proxy that cuts the connections or loses a reply.
#![cfg(feature = "postgres")]

use leastlock_idempotency::http::type_uri;
use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Postgres;

use crate::client::{Answer, Call, PATIENCE, ask};
use crate::doubles::{Mistake, Naive};
use crate::replay::settled;
use crate::stacks::{Extracting, Replaying};
use crate::stage::{Stack, Stage};
use crate::store::SHORT;
use crate::suite::{prepared, problem};

/// A stage whose keys, and nothing else, are behind the proxy.
pub(crate) async fn proxied<'a>(
    database: &'a TestDatabase<Postgres>,
    stack: &impl Stack<Postgres>,
) -> (FaultProxy, Stage<'a, Postgres>) {
    let proxy = FaultProxy::to_postgres(&database.url).await;
    let keys = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
    let stage = Stage::with_keys(database, stack, keys).await;
    (proxy, stage)
}

pub(crate) async fn store_that_is_cut_off_answers_503_until_it_is_back(database: TestDatabase<Postgres>) {
    async fn cut(database: &TestDatabase<Postgres>, stack: &impl Stack<Postgres>) {
        let (proxy, stage) = proxied(database, stack).await;
        let call = Call::order("plain", "k1", "lamp");
        proxy.cut().await;
        let refused = stage.ask(&call).await;
        assert_eq!(refused.outcome(), problem(503, type_uri::STORE_FAILED));
        assert_eq!((refused.header("retry-after"), stage.shop.started()), (Some("1"), 0));
        proxy.heal();
        let back = async {
            while stage.ask(&call).await.status == 503 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, back).await.expect("the store is back");
        assert_eq!((stage.shop.started(), stage.effects().await), (1, 1));
    }
    let database = prepared(database).await;
    cut(&database, &Replaying::default()).await;
    cut(&database, &Extracting::default()).await;
}

/// The store goes away while the handler is inside. Answers what its client and a later repeat are told, and the effects.
async fn cut_before_the_answer(
    database: &TestDatabase<Postgres>,
    stack: &impl Stack<Postgres>,
) -> (Answer, Answer, i64) {
    let (proxy, stage) = proxied(database, stack).await;
    let (address, call) = (stage.server.address, Call::order("meets", "k1", "lamp"));
    let first = tokio::spawn({
        let call = call.clone();
        async move { ask(address, &call).await }
    });
    stage.shop.is_inside().await;
    proxy.cut().await;
    stage.shop.let_go_on();
    let first = first.await.expect("the client is answered");
    proxy.heal();
    // For whoever runs it a second time.
    stage.shop.let_go_on();
    let repeat = settled(address, &call).await;
    (first, repeat, stage.effects().await)
}

pub(crate) async fn answer_that_cannot_be_recorded_is_not_given_out(database: TestDatabase<Postgres>) {
    let database = prepared(database).await;
    let stack = Replaying { lease: SHORT, ..Replaying::default() };
    let (first, repeat, effects) = cut_before_the_answer(&database, &stack).await;
    assert_eq!(first.outcome(), problem(503, type_uri::NOT_RECORDED));
    assert_eq!((repeat.outcome(), effects), (problem(409, type_uri::OUTCOME_UNKNOWN), 1));

    let (first, repeat, effects) = cut_before_the_answer(&database, &Naive(Mistake::AnswersUnrecorded)).await;
    let double = (first.status, repeat.is_replayed(), effects);
    assert_eq!(double, (201, false, 2), "the double must be seen to run again after its client saw a success");
}

pub(crate) async fn lost_reply_to_a_completion_is_recognised(database: TestDatabase<Postgres>) {
    let database = prepared(database).await;
    let (proxy, stage) = proxied(&database, &Replaying::default()).await;
    proxy.swallow_reply_to(postgres::once(|sql| sql.contains("SET state = 'completed'")), Then::Cut);
    let call = Call::order("plain", "k1", "lamp");
    let first = stage.ask(&call).await;
    proxy.fired(1, PATIENCE).await;
    assert_eq!((first.status, first.is_replayed()), (201, false));
    let repeat = stage.ask(&call).await;
    assert!(repeat.is_replayed());
    assert_eq!((repeat.said(), stage.effects().await), (first.said(), 1));
}
