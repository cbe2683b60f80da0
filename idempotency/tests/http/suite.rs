//! What holds in both modes.

use leastlock_idempotency::http::type_uri;
use leastlock_idempotency::phased::PhasedSql;
use leastlock_idempotency::{IdempotencySql, MIGRATIONS};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::task::JoinSet;

use crate::client::{Answer, Call, Connection, ask};
use crate::doubles::{Mistake, Naive};
use crate::shop::{BINARY, tables};
use crate::stacks::{Extracting, Replaying};
use crate::stage::{Stack, Stage};

pub(crate) async fn prepared<DB: TestEngine>(database: TestDatabase<DB>) -> TestDatabase<DB> {
    let database = database.with(&MIGRATIONS).await;
    tables(&database).await;
    database
}

/// A problem of this status and type.
pub(crate) fn problem(status: u16, type_uri: &str) -> (u16, Option<String>) {
    (status, Some(type_uri.to_owned()))
}

/// Sixteen at once. Answers the effects, the firsts, and what was told that was neither the first's answer nor in flight.
async fn crowd<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) -> (i64, usize, Vec<Answer>) {
    let stage = Stage::new(database, stack).await;
    let call = Call::order("plain", "k1", "lamp");
    let mut asked = JoinSet::new();
    for _ in 0..16 {
        let (address, call) = (stage.server.address, call.clone());
        asked.spawn(async move { ask(address, &call).await });
    }
    let answers = asked.join_all().await;
    let (firsts, rest): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 201 && !answer.is_replayed());
    let first = firsts[0].clone().said();
    let in_flight = problem(409, type_uri::IN_FLIGHT);
    let others = rest.into_iter().filter(|answer| {
        let waits = answer.outcome() == in_flight && answer.header("retry-after") == Some("1");
        !waits && answer.clone().said() != first
    });
    let others = others.collect();
    let later = stage.ask(&call).await;
    assert!(later.is_replayed() && later.said() == first, "a repeat gets the first's answer");
    (stage.effects().await, firsts.len(), others)
}

pub(crate) async fn i1_of_many_duplicates_at_once_one_runs<DB: TestEngine + IdempotencySql + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    assert_eq!(crowd(&database, &Replaying::default()).await, (1, 1, vec![]));
    assert_eq!(crowd(&database, &Extracting::default()).await, (1, 1, vec![]));
}

/// A second request while the first is inside its handler: what it is told, or `None` if it gets inside as well.
async fn overlapping<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) -> (Option<Answer>, i64) {
    let stage = Stage::new(database, stack).await;
    let (address, call) = (stage.server.address, Call::order("meets", "k1", "lamp"));
    let asks = || {
        let call = call.clone();
        tokio::spawn(async move { ask(address, &call).await })
    };
    let first = asks();
    stage.shop.is_inside().await;
    let mut second = asks();
    let told = tokio::select! {
        told = &mut second => Some(told.unwrap()),
        () = stage.shop.is_inside() => None,
    };
    stage.shop.let_go_on();
    stage.shop.let_go_on();
    assert_eq!(first.await.unwrap().status, 201);
    if told.is_none() {
        second.await.unwrap();
    }
    (told, stage.effects().await)
}

pub(crate) async fn i1_duplicate_of_a_running_request_is_told_so<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    for (told, effects) in
        [overlapping(&database, &Replaying::default()).await, overlapping(&database, &Naive(Mistake::None)).await]
    {
        let told = told.expect("the second must not get inside");
        assert_eq!((told.outcome(), effects), (problem(409, type_uri::IN_FLIGHT), 1));
        assert_eq!(told.header("retry-after"), Some("1"));
    }
    let (told, effects) = overlapping(&database, &Naive(Mistake::ClaimsAfterwards)).await;
    assert_eq!((told, effects), (None, 2), "the double must be seen to run twice");
}

pub(crate) async fn i1_duplicates_pipelined_on_one_connection_run_once<DB: TestEngine + IdempotencySql + PhasedSql>(
    database: TestDatabase<DB>,
) {
    async fn pipelined<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) {
        let stage = Stage::new(database, stack).await;
        let call = Call::order("plain", "k1", "lamp").bytes();
        let mut connection = Connection::open(stage.server.address).await;
        connection.send(&[&call[..], &call, &call].concat()).await;
        let first = connection.receive().await;
        assert!(first.status == 201 && !first.is_replayed());
        for _ in 0..2 {
            let repeat = connection.receive().await;
            assert!(repeat.is_replayed());
            assert_eq!(repeat.said(), first.clone().said());
        }
        assert_eq!(stage.effects().await, 1);
    }
    let database = prepared(database).await;
    pipelined(&database, &Replaying::default()).await;
    pipelined(&database, &Extracting::default()).await;
}

/// Another payload under the same key: in flight, after completion, after a failure that was stored.
async fn reused<DB: TestEngine, S: Stack<DB>>(database: &TestDatabase<DB>, stack: &S) -> Vec<(u16, Option<String>)> {
    let stage = Stage::new(database, stack).await;
    let address = stage.server.address;
    let asks = |call: Call| tokio::spawn(async move { ask(address, &call).await });
    let first = asks(Call::order("meets", "k1", "lamp"));
    stage.shop.is_inside().await;
    let other = asks(Call::order("meets", "k1", "rug"));
    // Whoever runs a second time must not wait for us.
    stage.shop.let_go_on();
    if S::WAITS {
        stage.shop.let_go_on();
    }
    let in_flight = other.await.unwrap().outcome();
    stage.shop.let_go_on();
    assert_eq!(first.await.unwrap().status, 201);

    let completed = stage.ask(&Call::order("meets", "k1", "rug")).await.outcome();
    assert_eq!(stage.ask(&Call::order("declined", "k2", "lamp")).await.status, 402);
    let declined = stage.ask(&Call::order("declined", "k2", "rug")).await.outcome();
    let repeat = stage.ask(&Call::order("declined", "k2", "lamp")).await;
    assert!(repeat.status == 402 && repeat.is_replayed(), "the owner's record is untouched");
    vec![in_flight, completed, declined]
}

pub(crate) async fn i5_other_payload_under_the_same_key_is_422<DB: TestEngine + IdempotencySql + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let mismatch = || vec![problem(422, type_uri::MISMATCH); 3];
    assert_eq!(reused(&database, &Replaying::default()).await, mismatch());
    assert_eq!(reused(&database, &Extracting::default()).await, mismatch());
    assert_eq!(reused(&database, &Naive(Mistake::None)).await, mismatch());
    let double = reused(&database, &Naive(Mistake::IgnoresTheFingerprint)).await;
    assert!(!double.contains(&problem(422, type_uri::MISMATCH)), "the double must be caught: {double:?}");
}

/// One key from two tenants and for two operations; answers how often the handler ran.
async fn scopes<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) -> usize {
    let stage = Stage::new(database, stack).await;
    let order = Call::order("plain", "k1", "lamp");
    let returned = Call::new("POST", "/returns/plain").keyed("k1").json("lamp");
    for call in [&order, &order.clone().with("x-tenant", "tenant-2"), &returned] {
        stage.ask(call).await;
        stage.ask(call).await;
    }
    stage.shop.started()
}

pub(crate) async fn i12_same_key_of_another_tenant_or_operation_is_another_record<
    DB: TestEngine + IdempotencySql + PhasedSql,
>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    assert_eq!(scopes(&database, &Replaying::default()).await, 3);
    assert_eq!(scopes(&database, &Extracting::default()).await, 3);
    assert_eq!(scopes(&database, &Naive(Mistake::None)).await, 3);
    assert!(scopes(&database, &Naive(Mistake::ForgetsTheTenant)).await < 3, "the double must be caught");
}

/// The first answer and a repeat's, as the handler said them.
async fn twice<DB: TestEngine>(database: &TestDatabase<DB>, stack: &impl Stack<DB>) -> (Answer, Answer) {
    let stage = Stage::new(database, stack).await;
    let call = Call::order("plain", "k1", "lamp");
    let first = stage.ask(&call).await;
    assert!(!first.is_replayed() && first.header("idempotency-replayed").is_none());
    let repeat = stage.ask(&call).await;
    assert!(repeat.is_replayed());
    assert_eq!(stage.effects().await, 1);
    (first.said(), repeat.said())
}

pub(crate) async fn i13_replay_has_the_same_status_headers_and_bytes<DB: TestEngine + IdempotencySql + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    for (first, repeat) in
        [twice(&database, &Replaying::default()).await, twice(&database, &Extracting::default()).await]
    {
        assert_eq!(first, repeat);
        assert_eq!((first.status, first.body), (201, [BINARY, b"lamp"].concat()));
        let head: Vec<(&str, &[u8])> = first.head.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        let expected: [(&str, &[u8]); 7] = [
            ("location", b"/orders/1"),
            ("set-cookie", b"b=2; Path=/"),
            ("set-cookie", b"a=1"),
            ("content-type", b"application/octet-stream"),
            ("x-bytes", b"caf\xe9"),
            ("a-first-letter", b""),
            ("content-length", b"19"),
        ];
        assert_eq!(head, expected);
    }
    let (first, repeat) = twice(&database, &Naive(Mistake::None)).await;
    assert_eq!(first, repeat);
    let (first, repeat) = twice(&database, &Naive(Mistake::KeepsWhatItKnows)).await;
    assert_ne!(first, repeat, "the double must be caught");
}

pub(crate) async fn client_that_hangs_up_in_extract_mode_leaves_nothing<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let stage = Stage::new(&database, &Extracting::default()).await;
    let call = Call::order("meets", "k1", "lamp");
    let mut connection = Connection::open(stage.server.address).await;
    connection.send(&call.bytes()).await;
    stage.shop.is_inside().await;
    drop(connection);
    stage.server.has_dropped_a_request().await;
    assert_eq!(stage.shop.cancelled(), 1, "the handler ends with its client, and its transaction with it");
    stage.shop.let_go_on();
    let retry = stage.ask(&call).await;
    assert_eq!((retry.status, retry.is_replayed(), stage.effects().await), (201, false, 1));
}
