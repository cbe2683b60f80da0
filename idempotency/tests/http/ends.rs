//! Ends of a handler that hide an effect.

use leastlock_idempotency::http::{Abandoned, type_uri};
use leastlock_idempotency::phased::PhasedSql;
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::client::{Answer, Call};
use crate::doubles::{Mistake, Naive};
use crate::replay::settled;
use crate::shop::BINARY;
use crate::stacks::Replaying;
use crate::stage::{Stack, Stage};
use crate::store::SHORT;
use crate::suite::{prepared, problem};

/// A request that has its effect and a repeat of it. Answers what the two are told, and the effects.
async fn asked_twice<DB: TestEngine>(
    database: &TestDatabase<DB>,
    stack: &impl Stack<DB>,
    does: &str,
) -> (Answer, Answer, i64) {
    let stage = Stage::new(database, stack).await;
    let call = Call::order(does, "k1", "lamp");
    let first = stage.ask(&call).await;
    let repeat = settled(stage.server.address, &call).await;
    (first, repeat, stage.effects().await)
}

/// What a handler answers after its effect is not what became of the effect: a time-out below the layer has cut it, or it passes
/// on what somebody else has told it.
pub(crate) async fn refusal_after_an_effect_frees_no_key<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    for (does, status, repeated) in [
        ("lingers", 408, problem(409, type_uri::OUTCOME_UNKNOWN)),
        ("conflict", 409, (409, None)),
        ("too-early", 425, problem(409, type_uri::OUTCOME_UNKNOWN)),
        ("throttled", 429, problem(409, type_uri::OUTCOME_UNKNOWN)),
    ] {
        for (first, repeat, effects) in [
            asked_twice(&database, &Replaying::default(), does).await,
            asked_twice(&database, &Naive(Mistake::None), does).await,
        ] {
            assert_eq!((first.outcome(), repeat.outcome(), effects), ((status, None), repeated.clone(), 1), "{does}");
        }
        let (_, repeat, effects) = asked_twice(&database, &Naive(Mistake::FreesOnRefusal), does).await;
        assert_eq!((repeat.status, effects), (status, 2), "the double must be seen to have the effect twice: {does}");
    }
}

/// The body of an answer is made by the handler's code as well.
pub(crate) async fn panic_in_the_body_of_an_answer_holds_the_key<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    let does = "panics-in-its-body";
    for abandoned in [Abandoned::Hold, Abandoned::RunAgain] {
        let stack = Replaying { lease: SHORT, abandoned, ..Replaying::default() };
        let (first, repeat, effects) = asked_twice(&database, &stack, does).await;
        assert_eq!(first.outcome(), problem(500, type_uri::HANDLER_FAILED));
        assert_eq!((repeat.outcome(), effects), (problem(409, type_uri::OUTCOME_UNKNOWN), 1));
    }
    let (_, _, effects) = asked_twice(&database, &Naive(Mistake::LosesTheClaimToABody), does).await;
    assert_eq!(effects, 2, "the double must be seen to run again");
}

/// Of an answer that must not be stored, what a repeat is told and what of it lies in the table.
async fn shown_once<DB: TestEngine>(
    database: &TestDatabase<DB>,
    stack: &impl Stack<DB>,
    does: &str,
) -> (Answer, Answer, i64) {
    let (first, repeat, effects) = asked_twice(database, stack, does).await;
    assert_eq!(
        (first.status, &first.body, effects),
        (201, &[BINARY, b"lamp"].concat(), 1),
        "the client gets all of it"
    );
    assert!(repeat.is_replayed());
    // Headers that are stored are in the repeat.
    let stored = sql::<DB>(
        "SELECT CAST(count(*) AS BIGINT) FROM leastlock_idempotency WHERE length(response_body) = 19",
        "SELECT count(*) FROM leastlock_idempotency WHERE length(response_body) = 19",
    );
    (first, repeat, database.int(stored).await)
}

pub(crate) async fn answer_that_must_not_be_stored_is_not_and_never_made_again<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let database = prepared(database).await;
    for (does, location) in [("shown-once", None), ("shown-once-with-reference", Some("/secrets/7"))] {
        let (_, repeat, stored) = shown_once(&database, &Replaying::default(), does).await;
        assert_eq!(repeat.outcome(), problem(410, type_uri::ANSWER_NOT_KEPT));
        assert_eq!((repeat.header("location"), repeat.header("set-cookie"), stored), (location, None, 0));
        let document: serde_json::Value = serde_json::from_slice(&repeat.body).unwrap();
        assert_eq!(document["answer_status"], 201);
        let (first, repeat, stored) = shown_once(&database, &Naive(Mistake::StoresEverything), does).await;
        assert_eq!((first.said(), stored), (repeat.said(), 1), "the double must be seen to store it");
    }
}
