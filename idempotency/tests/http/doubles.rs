//! A layer that does what such layers usually do, and makes one mistake. The suite must catch each.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::middleware::{Next, from_fn};
use leastlock_idempotency::http::{Outcome, Problem, replayed, stored};
use leastlock_idempotency::phased::{Phased, PhasedBegin, PhasedSql, Run};
use leastlock_idempotency::response::HttpResponse;
use leastlock_idempotency::{Fingerprint, Key, Scope};
use leastlock_testkit::TestEngine;
use sqlx::Pool;

use crate::shop::Shop;
use crate::stacks::{LONG, MAX_BODY_BYTES, MAX_RESPONSE_BYTES, scope};
use crate::stage::{Stack, handlers};
use crate::store::SHORT;

/// What it gets wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Nothing: what the others are told apart from.
    None,
    /// It claims the key when the handler has answered.
    ClaimsAfterwards,
    /// It runs the handler in the future of its connection.
    CancelsWithTheClient,
    /// Every request of a key is the same request.
    IgnoresTheFingerprint,
    /// If the store fails, the request is let through.
    FailsOpen,
    /// Requests without a key have the empty one.
    SharesARecordWithoutKey,
    /// The scope is the operation alone.
    ForgetsTheTenant,
    /// It keeps status and body, as text, and one value of each header.
    KeepsWhatItKnows,
    /// It reads whatever comes.
    ReadsAnyBody,
    /// A handler that failed has done nothing.
    FreesOnFailure,
    /// A refusal that asks for a repeat says that nothing has happened.
    FreesOnRefusal,
    /// It reads the answer where the claim is, without a thought of its panics.
    LosesTheClaimToABody,
    /// It stores whatever the handler says.
    StoresEverything,
    /// It gives the answer out, whether it could record it or not.
    AnswersUnrecorded,
}

pub(crate) struct Naive(pub(crate) Mistake);

impl<DB: TestEngine + PhasedSql> Stack<DB> for Naive {
    fn router(&self, shop: Arc<Shop<DB>>, keys: Pool<DB>) -> Router {
        let mistake = self.0;
        handlers(&shop).layer(from_fn(move |request: Request, next: Next| {
            let layer = Layer { mistake, keys: keys.clone() };
            async move { layer.answer(request, next).await.unwrap_or_else(Problem::response) }
        }))
    }
}

struct Layer<DB: TestEngine> {
    mistake: Mistake,
    keys: Pool<DB>,
}

type Claimed<DB> = Result<PhasedBegin<DB, HttpResponse>, leastlock_idempotency::Error>;

impl<DB: TestEngine + PhasedSql> Layer<DB> {
    async fn answer(self, request: Request, next: Next) -> Result<Response<Body>, Problem> {
        if request.method().is_safe() {
            return Ok(next.run(request).await);
        }
        let (parts, body) = request.into_parts();
        let key = self.key(&parts)?;
        let limit = if self.mistake == Mistake::ReadsAnyBody { usize::MAX } else { MAX_BODY_BYTES };
        let body = to_bytes(body, limit).await.map_err(|_| Problem::BodyTooLarge { limit })?;
        let said = if self.mistake == Mistake::IgnoresTheFingerprint { &b""[..] } else { &body[..] };
        let fingerprint = Fingerprint::request(parts.method.as_str(), parts.uri.path(), "").json(said);
        let request = Request::from_parts(parts, Body::from(body));
        if self.mistake == Mistake::ClaimsAfterwards {
            let response = next.run(request).await;
            return match self.claim(&key, &fingerprint).await {
                Ok(PhasedBegin::First(run)) => self.settle(run, response).await,
                _ => Ok(response),
            };
        }
        let run = match self.claim(&key, &fingerprint).await {
            Ok(PhasedBegin::First(run)) => run,
            Ok(PhasedBegin::Replay(stored)) => return replayed(stored),
            Ok(PhasedBegin::Mismatch) => return Err(Problem::Mismatch),
            Ok(PhasedBegin::InFlight { retry_after }) => return Err(Problem::InFlight { retry_after }),
            Ok(PhasedBegin::Unknown(_)) => return Err(Problem::OutcomeUnknown),
            Err(_) if self.mistake == Mistake::FailsOpen => return Ok(next.run(request).await),
            Err(error) => return Err(Problem::from(&error)),
        };
        if self.mistake == Mistake::CancelsWithTheClient {
            let response = next.run(request).await;
            return self.settle(run, response).await;
        }
        let handled = async move {
            match tokio::spawn(next.run(request)).await {
                Ok(response) => self.settle(run, response).await,
                Err(_) if self.mistake == Mistake::FreesOnFailure => {
                    run.release().await.map_err(|error| Problem::from(&error))?;
                    Err(Problem::HandlerFailed)
                }
                Err(_) => {
                    run.hold("it panicked").await.map_err(|error| Problem::from(&error))?;
                    Err(Problem::HandlerFailed)
                }
            }
        };
        tokio::spawn(handled).await.unwrap_or(Err(Problem::NotRecorded { retry_after: SHORT }))
    }

    fn key(&self, parts: &axum::http::request::Parts) -> Result<Key, Problem> {
        let text = header(&parts.headers, "idempotency-key");
        let text = text.map(|text| text.trim_matches('"').to_owned());
        let scope = match self.mistake {
            Mistake::ForgetsTheTenant => Scope::of_operation("place-order").expect("a scope"),
            _ => scope(parts).map_err(|_| Problem::Unscoped { status: StatusCode::UNAUTHORIZED })?,
        };
        let text = match text {
            None if self.mistake == Mistake::SharesARecordWithoutKey => "none".to_owned(),
            None => return Err(Problem::KeyMissing),
            Some(text) => text,
        };
        Key::new(&scope, &text).map_err(|_| Problem::KeyMalformed)
    }

    async fn claim(&self, key: &Key, fingerprint: &Fingerprint) -> Claimed<DB> {
        let is_short = matches!(self.mistake, Mistake::AnswersUnrecorded | Mistake::LosesTheClaimToABody);
        let lease = if is_short { SHORT } else { LONG };
        let phased = Phased::builder().lease(lease).max_response_bytes(MAX_RESPONSE_BYTES).build().expect("valid");
        phased.begin(&self.keys, key, fingerprint).await
    }

    async fn settle(&self, run: Run<DB, HttpResponse>, response: Response<Body>) -> Result<Response<Body>, Problem> {
        let said = response.extensions().get::<Outcome>().copied();
        let outcome = match self.mistake {
            Mistake::StoresEverything => Outcome::Complete,
            Mistake::FreesOnFailure if response.status().is_server_error() => Outcome::Release,
            Mistake::FreesOnRefusal if matches!(response.status().as_u16(), 408 | 409 | 425 | 429) => Outcome::Release,
            _ => said.unwrap_or_else(|| Outcome::of_status(response.status())),
        };
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a body of bytes");
        let response = Response::from_parts(parts, body);
        let ended = match outcome {
            Outcome::Complete | Outcome::CompleteUnkept => run.complete(self.kept(&response)).await.map(drop),
            Outcome::Release => run.release().await,
            Outcome::Hold => run.hold("it failed").await,
        };
        if self.mistake != Mistake::AnswersUnrecorded {
            ended.map_err(|_| Problem::NotRecorded { retry_after: SHORT })?;
        }
        Ok(response.map(Body::from))
    }

    fn kept(&self, response: &Response<axum::body::Bytes>) -> HttpResponse {
        if self.mistake != Mistake::KeepsWhatItKnows {
            return stored(response).expect("a final status");
        }
        let headers = response.headers();
        let first = headers.keys().filter_map(|name| Some((name.as_str(), header(headers, name.as_str())?)));
        let mut kept = Response::builder().status(response.status());
        for (name, value) in first {
            kept = kept.header(name, value);
        }
        let text = String::from_utf8_lossy(response.body()).into_owned();
        stored(&kept.body(text).expect("a response")).expect("a final status")
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}
