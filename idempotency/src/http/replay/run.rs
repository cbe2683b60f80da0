//! One request in replay mode, from the claim to the end of its key.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::AbortOnDropHandle;
use tower_service::Service;
use tracing::Instrument;

use super::super::admission::Admitted;
use super::super::answer::replayed;
use super::super::body::{BrokeOff, Buffered, Gathered, gather};
use super::super::outcome::{Abandoned, Outcome};
use super::super::problem::Problem;
use super::super::report::{self, Running};
use super::claim::claim;
use super::end::{complete, complete_unkept, end, hold};
use super::{OutcomeOf, Replay};
use crate::phased::{PhasedBegin, PhasedSql, Run};
use crate::response::HttpResponse;

type Answer<B, E> = Result<Result<Response<Buffered<B>>, E>, Problem>;

/// Claims the key and does what its record says. `permit` is the request's place.
pub(super) async fn answer<S, DB, ReqBody, ResBody>(
    inner: S,
    replay: &Replay<DB>,
    docs: Option<&str>,
    admitted: Admitted<ReqBody>,
    permit: OwnedSemaphorePermit,
) -> Answer<ResBody, S::Error>
where
    DB: PhasedSql,
    S: Service<Request<Buffered<ReqBody>>, Response = Response<ResBody>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    ResBody: Body<Data = Bytes> + Send + 'static,
{
    let Admitted { request, key, fingerprint } = admitted;
    let (begun, _permit) = claim(replay, &key, fingerprint, permit).await?;
    match begun {
        PhasedBegin::First(run) if run.resumed_at().is_some() && replay.abandoned == Abandoned::Hold => {
            // Whoever comes later finds it held; whether that could be written changes nothing for this request.
            hold(replay, run, "the handler was lost with its process").await;
            Err(Problem::OutcomeUnknown)
        }
        PhasedBegin::First(run) => {
            report::claimed(&key);
            handle(inner, request, replay, docs, run).await
        }
        PhasedBegin::Replay(stored) => {
            report::replayed(&key);
            Ok(Ok(replayed(stored)?))
        }
        PhasedBegin::Mismatch => Err(Problem::Mismatch),
        PhasedBegin::InFlight { retry_after } => Err(Problem::InFlight { retry_after }),
        PhasedBegin::Unknown(_) => Err(Problem::OutcomeUnknown),
    }
}

/// What the handler has said, with as much of its body as the outcome needs.
enum Said<B> {
    Ends(Outcome, Response<B>),
    Completes(Response<Gathered<B>>),
    BrokeOff,
}

/// Runs the handler and settles what it says.
async fn handle<S, DB, ReqBody, ResBody>(
    inner: S,
    request: Request<Buffered<ReqBody>>,
    replay: &Replay<DB>,
    docs: Option<&str>,
    run: Run<DB, HttpResponse>,
) -> Answer<ResBody, S::Error>
where
    DB: PhasedSql,
    S: Service<Request<Buffered<ReqBody>>, Response = Response<ResBody>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    ReqBody: Send + 'static,
    ResBody: Body<Data = Bytes> + Send + 'static,
{
    let _running = Running::start();
    // All that is the application's runs in a task of its own, so that its panic does not take the claim along: the service,
    // the function that judges its status, and the body of its answer.
    let handler = listen(inner, request, Arc::clone(&replay.outcome), replay.phased.max_response_bytes);
    let handler = AbortOnDropHandle::new(tokio::spawn(handler.in_current_span()));
    let reason = match tokio::time::timeout(replay.max_run, handler).await {
        Ok(Ok(Ok(Said::Ends(Outcome::CompleteUnkept, response)))) => {
            let answer = complete_unkept(replay, docs, run, response).await?;
            report::first();
            return Ok(Ok(answer));
        }
        Ok(Ok(Ok(Said::Ends(outcome, response)))) => {
            end(replay, run, outcome).await;
            report::first();
            return Ok(Ok(response.map(Buffered::passed)));
        }
        Ok(Ok(Ok(Said::Completes(response)))) => {
            let answer = complete(replay, docs, run, response).await?;
            report::first();
            return Ok(Ok(answer));
        }
        Ok(Ok(Err(error))) => {
            hold(replay, run, "the handler's service failed").await;
            return Ok(Err(error));
        }
        Ok(Ok(Ok(Said::BrokeOff))) => "the handler's answer broke off",
        Ok(Err(_)) => "the handler panicked, or the body of its answer did",
        Err(_) => "the handler, with its whole answer, took longer than max_run",
    };
    hold(replay, run, reason).await;
    Err(Problem::HandlerFailed)
}

/// Calls the service, and reads the body of an answer that is to be stored.
async fn listen<S, ReqBody, ResBody>(
    mut inner: S,
    request: Request<Buffered<ReqBody>>,
    outcome_of: Arc<OutcomeOf>,
    limit: usize,
) -> Result<Said<ResBody>, S::Error>
where
    S: Service<Request<Buffered<ReqBody>>, Response = Response<ResBody>>,
    ResBody: Body<Data = Bytes>,
{
    let mut response = inner.call(request).await?;
    let said = response.extensions_mut().remove::<Outcome>();
    let outcome = said.unwrap_or_else(|| outcome_of(response.status()));
    if outcome != Outcome::Complete {
        return Ok(Said::Ends(outcome, response));
    }
    let (parts, body) = response.into_parts();
    Ok(match gather(body, limit).await {
        Ok(gathered) => Said::Completes(Response::from_parts(parts, gathered)),
        Err(BrokeOff) => Said::BrokeOff,
    })
}
