//! Requests that are not as they should be, in both modes.

use std::time::Duration;

use leastlock_idempotency::IdempotencySql;
use leastlock_idempotency::http::{IdempotencyLayer, type_uri};
use leastlock_idempotency::phased::{Phased, PhasedSql};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::client::{Call, Connection};
use crate::doubles::{Mistake, Naive};
use crate::stacks::{Extracting, MAX_BODY_BYTES, Replaying, scope};
use crate::stage::{Stack, Stage};
use crate::suite::{prepared, problem};

/// Requests whose key is missing or cannot be read; answers what each was told, and how many handlers ran.
async fn keyless<DB: TestEngine>(
    database: &TestDatabase<DB>,
    stack: &impl Stack<DB>,
) -> (Vec<(u16, Option<String>)>, usize) {
    let stage = Stage::new(database, stack).await;
    let call = |method| Call::new(method, "/orders/plain").json("lamp");
    let mut told = Vec::new();
    for call in [
        call("POST"),
        call("PATCH"),
        call("POST").keyed("k1").keyed("k1"),
        call("POST").with("idempotency-key", "\"k1"),
        call("POST").keyed(""),
        call("POST").keyed("two words"),
        call("POST").keyed(&"k".repeat(256)),
        call("POST").keyed("k1").with("x-tenant", "nobody"),
    ] {
        told.push(stage.ask(&call).await.outcome());
    }
    (told, stage.shop.started())
}

pub(crate) async fn i9_unsafe_method_without_a_key_never_runs<DB: TestEngine + IdempotencySql + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let missing = problem(400, type_uri::KEY_MISSING);
    let malformed = problem(400, type_uri::KEY_MALFORMED);
    let expected = vec![
        missing.clone(),
        missing.clone(),
        problem(400, type_uri::KEY_REPEATED),
        malformed.clone(),
        missing,
        malformed.clone(),
        malformed,
        problem(401, type_uri::UNSCOPED),
    ];
    assert_eq!(keyless(&database, &Replaying::default()).await, (expected.clone(), 0));
    assert_eq!(keyless(&database, &Extracting::default()).await, (expected, 0));
    let (told, _) = keyless(&database, &Naive(Mistake::SharesARecordWithoutKey)).await;
    assert_eq!((told[0].0, told[1].0), (201, 422), "the double's requests must be seen to meet in one record");
}

pub(crate) async fn safe_methods_pass_and_put_and_delete_need_a_key_by_setting<
    DB: TestEngine + IdempotencySql + PhasedSql,
>(
    database: TestDatabase<DB>,
) {
    async fn told<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) -> Vec<u16> {
        let stage = Stage::new(database, stack).await;
        let mut told = Vec::new();
        for method in ["GET", "OPTIONS", "PUT", "DELETE"] {
            told.push(stage.ask(&Call::new(method, "/orders/plain")).await.status);
            // Twice with one key is twice.
            told.push(stage.ask(&Call::new(method, "/orders/plain").keyed("k1")).await.status);
        }
        told
    }
    let database = prepared(database).await;
    assert_eq!(told(&database, &Replaying::default()).await, [201; 8]);
    assert_eq!(told(&database, &Extracting::default()).await, [201; 8]);
    let strict = [201, 201, 201, 201, 400, 201, 400, 422];
    assert_eq!(told(&database, &Replaying { strict: true, ..Replaying::default() }).await, strict);
    assert_eq!(told(&database, &Extracting { strict: true }).await, strict);
}

pub(crate) async fn a_bare_key_is_taken_by_setting_only<DB: TestEngine + IdempotencySql + PhasedSql>(
    database: TestDatabase<DB>,
) {
    async fn told<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) -> (u16, bool) {
        let stage = Stage::new(database, stack).await;
        let bare = Call::new("POST", "/orders/plain").with("idempotency-key", "8e03978e-40d5").json("lamp");
        let status = stage.ask(&bare).await.status;
        (status, stage.ask(&Call::order("plain", "8e03978e-40d5", "lamp")).await.is_replayed())
    }
    let database = prepared(database).await;
    assert_eq!(told(&database, &Replaying::default()).await, (201, true));
    assert_eq!(told(&database, &Replaying { strict: true, ..Replaying::default() }).await, (400, false));
    assert_eq!(told(&database, &Extracting::default()).await, (201, true));
    assert_eq!(told(&database, &Extracting { strict: true }).await, (400, false));
}

/// Bodies up to the limit and beyond, with their length and in chunks; answers statuses and how many handlers ran.
async fn bodies<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) -> (Vec<u16>, usize) {
    let stage = Stage::new(database, stack).await;
    let within = "x".repeat(MAX_BODY_BYTES);
    let beyond = "x".repeat(MAX_BODY_BYTES + 1);
    let (half, rest) = beyond.as_bytes().split_at(MAX_BODY_BYTES / 2);
    let chunked = |key| Call::new("POST", "/orders/plain").keyed(key);
    let mut told = Vec::new();
    for call in [
        Call::order("plain", "k1", &within),
        Call::order("plain", "k2", &beyond),
        chunked("k3").chunked(&[half, &rest[1..]]),
        chunked("k4").chunked(&[half, rest]),
    ] {
        told.push(stage.ask(&call).await.status);
    }
    // Refused by its head alone: the body never comes.
    let mut connection = Connection::open(stage.server.address).await;
    connection.send(b"POST /orders/plain HTTP/1.1\r\nhost: localhost\r\nidempotency-key: \"k5\"\r\ncontent-length: 4000000000\r\n\r\n").await;
    if told[1] == 413 {
        let answer = connection.receive().await;
        assert_eq!(answer.outcome(), problem(413, type_uri::BODY_TOO_LARGE));
    }
    (told, stage.shop.started())
}

pub(crate) async fn i20_body_over_the_limit_is_413_and_never_runs<DB: TestEngine + IdempotencySql + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let expected = (vec![201, 413, 201, 413], 2);
    assert_eq!(bodies(&database, &Replaying::default()).await, expected);
    assert_eq!(bodies(&database, &Extracting::default()).await, expected);
    let strict = (vec![201, 413, 411, 411], 1);
    assert_eq!(bodies(&database, &Replaying { strict: true, ..Replaying::default() }).await, strict);
    assert_eq!(bodies(&database, &Extracting { strict: true }).await, strict);
    assert_eq!(bodies(&database, &Naive(Mistake::ReadsAnyBody)).await.0, [201; 4], "the double must be caught");
}

pub(crate) async fn client_that_stops_in_the_middle_of_its_body_runs_nothing<
    DB: TestEngine + IdempotencySql + PhasedSql,
>(
    database: TestDatabase<DB>,
) {
    async fn half<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) {
        let stage = Stage::new(database, stack).await;
        let call = Call::order("plain", "k1", "a lamp with a shade");
        let bytes = call.bytes();
        let mut connection = Connection::open(stage.server.address).await;
        connection.send(&bytes[..bytes.len() - 10]).await;
        drop(connection);
        stage.server.has_ended_a_request().await;
        assert_eq!((stage.shop.started(), stage.effects().await), (0, 0));
        let retry = stage.ask(&call).await;
        assert!(retry.status == 201 && !retry.is_replayed(), "the key is free");
    }
    let database = prepared(database).await;
    half(&database, &Replaying::default()).await;
    half(&database, &Extracting::default()).await;
}

pub(crate) async fn limits_that_make_no_sense_are_refused_at_build<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let extract = || IdempotencyLayer::extract(scope);
    let replay = || IdempotencyLayer::replay(&database.pool, Phased::default(), scope);
    let little = Phased::builder().max_response_bytes(100).build().unwrap();
    let refused = [
        extract().max_body_bytes(usize::MAX).build().err(),
        extract().max_body_wait(Duration::ZERO).build().err(),
        extract().problem_docs("x".repeat(1025)).build().err(),
        replay().max_claim(Duration::ZERO).build().err(),
        replay().max_run(Duration::ZERO).build().err(),
        replay().max_record(Duration::from_hours(25)).build().err(),
        replay().max_running(0).build().err(),
        IdempotencyLayer::replay(&database.pool, little, scope).build().err(),
    ];
    let settings = refused.map(|error| error.map(|error| error.setting));
    let expected = [
        "max_body_bytes",
        "max_body_wait",
        "problem_docs",
        "max_claim",
        "max_run",
        "max_record",
        "max_running",
        "max_response_bytes",
    ];
    assert_eq!(settings, expected.map(Some));
    assert!(extract().max_body_bytes(0).build().is_ok() && replay().build().is_ok());
}
