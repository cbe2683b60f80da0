//! A store that is down: when the request comes, and when its handler has answered.

use std::time::Duration;

use leastlock_idempotency::IdempotencySql;
use leastlock_idempotency::http::type_uri;
use leastlock_idempotency::phased::PhasedSql;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::client::Call;
use crate::doubles::{Mistake, Naive};
use crate::stacks::{Extracting, Replaying};
use crate::stage::{Stack, Stage};
use crate::suite::{prepared, problem};

#[cfg(feature = "postgres")]
pub(crate) use crate::store_cut::{
    answer_that_cannot_be_recorded_is_not_given_out, lost_reply_to_a_completion_is_recognised,
    store_that_is_cut_off_answers_503_until_it_is_back,
};
#[cfg(feature = "postgres")]
pub(crate) use crate::store_silent::{
    claim_that_comes_too_late_is_given_back, end_that_is_not_answered_is_not_waited_for,
    store_that_does_not_answer_keeps_no_place,
};

/// The lease of a key whose answer cannot be recorded: so long does the layer go on trying.
pub(crate) const SHORT: Duration = Duration::from_secs(1);

pub(crate) async fn store_that_is_down_answers_503_and_runs_nothing<DB: TestEngine + IdempotencySql + PhasedSql>(
    database: TestDatabase<DB>,
) {
    async fn told<DB: TestEngine>(
        database: &TestDatabase<DB>,
        stack: &impl Stack<DB>,
    ) -> ((u16, Option<String>), usize) {
        let stage = Stage::new(database, stack).await;
        stage.keys().close().await;
        let told = stage.ask(&Call::order("plain", "k1", "lamp")).await.outcome();
        assert_eq!(stage.ask(&Call::new("GET", "/orders/plain")).await.status, 201, "safe methods need no store");
        (told, stage.shop.started() - 1)
    }
    let database = prepared(database).await;
    let expected = (problem(503, type_uri::STORE_FAILED), 0);
    assert_eq!(told(&database, &Replaying::default()).await, expected);
    assert_eq!(told(&database, &Extracting::default()).await, expected);
    assert_eq!(told(&database, &Naive(Mistake::None)).await, expected);
    let double = told(&database, &Naive(Mistake::FailsOpen)).await;
    assert_eq!(double, ((201, None), 1), "the double must be seen to run unprotected");
}
