//! What holds in replay mode, where the layer ends the key.

use std::sync::Arc;
use std::time::Duration;

use leastlock_idempotency::HttpResponse;
use leastlock_idempotency::http::type_uri;
use leastlock_idempotency::phased::{Phased, PhasedSql, Resolution, Resolved};
use leastlock_testkit::{TestDatabase, TestEngine};
use tower_layer::Layer;

use crate::client::{Answer, Call, Connection, PATIENCE, ask};
use crate::doubles::{Mistake, Naive};
use crate::shop::Shop;
use crate::stacks::{LONG, MAX_RESPONSE_BYTES, Replaying};
use crate::stage::{Server, Stack, Stage, handlers};
use crate::suite::{prepared, problem};

/// Asks until the key is not in flight any more.
pub(crate) async fn settled(server: std::net::SocketAddr, call: &Call) -> Answer {
    let asks = async {
        loop {
            let answer = ask(server, call).await;
            if answer.outcome() != problem(409, type_uri::IN_FLIGHT) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asks).await.expect("the key does not stay in flight")
}

/// A client that hangs up while its handler is at work. Answers what a repeat is told and the effects, or that the handler was
/// cancelled.
async fn hangs_up<DB: TestEngine>(
    database: &TestDatabase<DB>,
    stack: &impl Stack<DB>,
) -> Result<(Answer, i64), &'static str> {
    let stage = Stage::new(database, stack).await;
    let call = Call::order("meets", "k1", "lamp");
    let mut connection = Connection::open(stage.server.address).await;
    connection.send(&call.bytes()).await;
    stage.shop.is_inside().await;
    drop(connection);
    stage.server.has_dropped_a_request().await;
    if stage.shop.cancelled() > 0 {
        return Err("the handler was cancelled with its client");
    }
    assert_eq!(stage.ask(&call).await.outcome(), problem(409, type_uri::IN_FLIGHT));
    stage.shop.let_go_on();
    stage.shop.is_finished().await;
    let answer = settled(stage.server.address, &call).await;
    Ok((answer, stage.effects().await))
}

pub(crate) async fn client_that_hangs_up_does_not_cancel_its_handler<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    for right in [hangs_up(&database, &Replaying::default()).await, hangs_up(&database, &Naive(Mistake::None)).await] {
        let (answer, effects) = right.expect("the handler goes on");
        assert_eq!((answer.status, answer.is_replayed(), effects), (201, true, 1));
    }
    let double = hangs_up(&database, &Naive(Mistake::CancelsWithTheClient)).await;
    assert!(double.is_err(), "the double must be seen to cancel");
}

/// What a request and its repeat are told, for all that a handler can say; and whether the repeat was a replay.
async fn outcomes<DB: TestEngine>(
    database: &TestDatabase<DB>,
    stack: &impl Stack<DB>,
) -> Vec<(&'static str, u16, u16, &'static str)> {
    let stage = Stage::new(database, stack).await;
    let mut told = Vec::new();
    for does in [
        "plain",
        "declined",
        "declined-and-released",
        "conflict",
        "conflict-and-released",
        "lingers",
        "throttled",
        "throttled-and-released",
        "too-early",
        "broken",
        "broken-and-stored",
        "unavailable-and-released",
        "made-and-held",
        "panics",
    ] {
        let call = Call::order(does, does, "lamp");
        let first = stage.ask(&call).await;
        let before = stage.shop.started();
        let repeat = stage.ask(&call).await;
        let how = match repeat.outcome() {
            _ if stage.shop.started() > before => "ran again",
            _ if repeat.is_replayed() => "replayed",
            unknown if unknown == problem(409, type_uri::OUTCOME_UNKNOWN) => "unknown",
            _ => "otherwise",
        };
        told.push((does, first.status, repeat.status, how));
    }
    told
}

pub(crate) async fn i11_stored_answers_are_replayed_released_keys_are_free_and_unknown_ones_held<
    DB: TestEngine + PhasedSql,
>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let expected = vec![
        ("plain", 201, 201, "replayed"),
        ("declined", 402, 402, "replayed"),
        ("declined-and-released", 402, 402, "ran again"),
        ("conflict", 409, 409, "replayed"),
        ("conflict-and-released", 409, 409, "ran again"),
        ("lingers", 408, 409, "unknown"),
        ("throttled", 429, 409, "unknown"),
        ("throttled-and-released", 429, 429, "ran again"),
        ("too-early", 425, 409, "unknown"),
        ("broken", 500, 409, "unknown"),
        ("broken-and-stored", 500, 500, "replayed"),
        ("unavailable-and-released", 503, 503, "ran again"),
        ("made-and-held", 201, 409, "unknown"),
        ("panics", 500, 409, "unknown"),
    ];
    assert_eq!(outcomes(&database, &Replaying::default()).await, expected);
    assert_eq!(outcomes(&database, &Naive(Mistake::None)).await, expected);

    let frees = outcomes(&database, &Naive(Mistake::FreesOnFailure)).await;
    for does in ["broken", "panics"] {
        assert!(frees.contains(&(does, 500, 500, "ran again")), "the double must be caught: {frees:?}");
    }
    let stores = outcomes(&database, &Naive(Mistake::StoresEverything)).await;
    assert!(stores.contains(&("throttled", 429, 429, "replayed")), "the double must be caught: {stores:?}");
}

/// What an operator finds out about a held key is what a repeat gets: the answer, or a run of its own.
pub(crate) async fn held_key_is_answered_or_free_once_it_is_resolved<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let stage = Stage::new(&database, &Replaying::default()).await;
    let phased = Phased::default();
    for (does, key, resolution, status, is_replayed) in [
        ("panics", "k1", Resolution::completed(&HttpResponse::new(200, vec![], b"found".to_vec()).unwrap()), 200, true),
        ("made-and-held", "k2", Ok(Resolution::released()), 201, false),
    ] {
        let call = Call::order(does, key, "lamp");
        stage.ask(&call).await;
        assert_eq!(stage.ask(&call).await.outcome(), problem(409, type_uri::OUTCOME_UNKNOWN));
        let unknown = phased.list_unknown(&database.pool, Duration::ZERO, 10).await.unwrap();
        let [unknown] = &unknown[..] else { panic!("one key is held: {unknown:?}") };
        assert_eq!(unknown.key.as_str(), key);
        let resolution = resolution.unwrap();
        let resolved =
            phased.resolve(&database.pool, unknown, resolution, "operator-1", "the effect was looked for").await;
        assert_eq!(resolved.unwrap(), Resolved::Applied);
        let repeat = stage.ask(&call).await;
        assert_eq!((repeat.status, repeat.is_replayed()), (status, is_replayed));
    }
}

pub(crate) async fn answer_over_the_limit_reaches_its_client_and_is_never_made_again<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let stage = Stage::new(&database, &Replaying::default()).await;
    for (key, does, payload) in [("k1", "large", "a lamp"), ("k2", "trailers", "lamp")] {
        let call = Call::order(does, key, payload);
        let before = stage.effects().await;
        let first = stage.ask(&call).await;
        assert_eq!((first.status, first.is_replayed()), (201, false));
        let expected = if does == "large" { payload.len() * 1000 } else { 19 };
        assert_eq!(first.body.len(), expected, "the first client gets all of it");
        if does == "large" {
            assert!(first.body.len() > MAX_RESPONSE_BYTES);
        }
        let repeats = [stage.ask(&call).await, stage.ask(&call).await];
        assert_eq!(repeats[0].clone().said(), repeats[1].clone().said());
        let repeat = &repeats[0];
        assert_eq!(repeat.outcome(), problem(410, type_uri::ANSWER_NOT_KEPT));
        assert_eq!((repeat.header("location"), repeat.is_replayed()), (Some("/orders/1"), true));
        let document: serde_json::Value = serde_json::from_slice(&repeat.body).unwrap();
        assert_eq!(document["answer_status"], 201);
        assert_eq!(stage.effects().await - before, 1);
        let other = stage.ask(&Call::order(does, key, "rug")).await;
        assert_eq!(other.outcome(), problem(422, type_uri::MISMATCH));
    }
}

pub(crate) async fn handler_that_takes_too_long_is_cancelled_and_its_key_held<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let stack = Replaying { max_run: Duration::from_millis(300), ..Replaying::default() };
    let stage = Stage::new(&database, &stack).await;
    let call = Call::order("meets", "k1", "lamp");
    assert_eq!(stage.ask(&call).await.outcome(), problem(500, type_uri::HANDLER_FAILED));
    assert_eq!(stage.ask(&call).await.outcome(), problem(409, type_uri::OUTCOME_UNKNOWN));
    assert_eq!((stage.shop.started(), stage.shop.cancelled()), (1, 1));

    // Its answer takes too long: the head is there and the body never ends.
    let endless = Call::order("endless", "k2", "lamp");
    assert_eq!(stage.ask(&endless).await.outcome(), problem(500, type_uri::HANDLER_FAILED));
    assert_eq!(stage.ask(&endless).await.outcome(), problem(409, type_uri::OUTCOME_UNKNOWN));
    let broken = Call::order("breaks-off", "k3", "lamp");
    assert_eq!(stage.ask(&broken).await.outcome(), problem(500, type_uri::HANDLER_FAILED));
    assert_eq!(stage.ask(&broken).await.outcome(), problem(409, type_uri::OUTCOME_UNKNOWN));
}

pub(crate) async fn more_than_max_running_is_503_and_a_client_that_is_gone_still_counts<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let stage = Stage::new(&database, &Replaying { max_running: 1, ..Replaying::default() }).await;
    let mut connection = Connection::open(stage.server.address).await;
    connection.send(&Call::order("meets", "k1", "lamp").bytes()).await;
    stage.shop.is_inside().await;
    drop(connection);
    stage.server.has_dropped_a_request().await;
    let other = Call::order("plain", "k2", "lamp");
    let refused = stage.ask(&other).await;
    assert_eq!(refused.outcome(), problem(503, type_uri::OVERLOADED));
    assert_eq!((refused.header("retry-after"), stage.shop.started()), (Some("1"), 1));
    stage.shop.let_go_on();
    let accepted = async {
        while stage.ask(&other).await.status != 201 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, accepted).await.expect("the place is free again");
}

pub(crate) async fn drained_waits_for_handlers_whose_client_is_gone<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    database.execute("DELETE FROM effect").await;
    let shop = Shop::new(&database.pool);
    let layer = Replaying::default().layer(&database.pool);
    let server = Server::start(handlers(&shop).layer(layer.clone())).await;
    let call = Call::order("meets", "k1", "lamp");
    let mut connection = Connection::open(server.address).await;
    connection.send(&call.bytes()).await;
    shop.is_inside().await;
    drop(connection);
    server.has_dropped_a_request().await;
    assert_eq!(layer.drained(Duration::from_millis(50)).await, 1);
    let drained = tokio::spawn({
        let layer = layer.clone();
        async move { layer.drained(LONG).await }
    });
    shop.let_go_on();
    assert_eq!(drained.await.unwrap(), 0);
    // What is drained is recorded: a repeat is answered without a handler.
    let repeat = ask(server.address, &call).await;
    assert_eq!((repeat.status, repeat.is_replayed(), shop.started()), (201, true, 1));
}

/// The layer is no axum: any service with any error will do, and its error holds the key.
pub(crate) async fn error_of_a_plain_tower_service_holds_the_key<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    use axum::body::{Body, Bytes};
    use axum::http::{Request, Response};
    use tower_service::Service;

    #[derive(Clone)]
    struct Failing(Arc<std::sync::atomic::AtomicUsize>);

    impl<B: Send + 'static> Service<Request<B>> for Failing {
        type Response = Response<Body>;
        type Error = String;
        type Future = std::future::Ready<Result<Response<Body>, String>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), String>> {
            std::task::Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<B>) -> Self::Future {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            std::future::ready(Err("out of order".to_owned()))
        }
    }

    let database = prepared(database).await;
    let calls = Arc::default();
    let mut service = Replaying::default().layer(&database.pool).layer(Failing(Arc::clone(&calls)));
    let request = || {
        let request = Request::post("/orders/plain").header("idempotency-key", "\"k1\"");
        request.body(Body::from(Bytes::from_static(b"lamp"))).unwrap()
    };
    assert_eq!(service.call(request()).await.unwrap_err(), "out of order");
    let repeat = service.call(request()).await.unwrap();
    assert_eq!((repeat.status().as_u16(), calls.load(std::sync::atomic::Ordering::SeqCst)), (409, 1));
}
