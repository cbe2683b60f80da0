//! One request in replay mode, from the claim to the end of its key.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::response::Parts;
use http::{Request, Response};
use http_body::Body;
use tokio_util::task::AbortOnDropHandle;
use tower_service::Service;
use tracing::Instrument;

use super::super::admission::Admitted;
use super::super::answer::{not_kept, replayed, stored_as};
use super::super::body::{BrokeOff, Buffered, Gathered, gather};
use super::super::outcome::{Abandoned, Outcome};
use super::super::problem::Problem;
use super::super::report::{self, Ended, Running};
use super::Replay;
use crate::error::Error;
use crate::phased::{PhasedBegin, PhasedSql, Run};
use crate::response::{HttpResponse, Response as _};

/// When asking again makes sense after an answer could not be recorded.
const RETRY_AFTER: Duration = Duration::from_secs(1);

type Answer<B, E> = Result<Result<Response<Buffered<B>>, E>, Problem>;

/// Claims the key and does what its record says.
pub(super) async fn answer<S, DB, ReqBody, ResBody>(
    inner: S,
    replay: &Replay<DB>,
    docs: Option<&str>,
    admitted: Admitted<ReqBody>,
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
    let begun = replay.phased.begin(&replay.pool, &key, &fingerprint).await;
    match begun.map_err(|error| report::store_failed(&error))? {
        PhasedBegin::First(run) if run.resumed_at().is_some() && replay.abandoned == Abandoned::Hold => {
            // Whoever comes later finds it held; whether that could be written changes nothing for this request.
            hold(run, "the handler was lost with its process").await;
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

/// Runs the handler, in a task of its own so that its panic does not take the claim along, and settles what it says.
async fn handle<S, DB, ReqBody, ResBody>(
    mut inner: S,
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
    let end = Instant::now() + replay.max_run;
    let handler = tokio::spawn(async move { inner.call(request).await }.in_current_span());
    let answered = tokio::time::timeout_at(end.into(), AbortOnDropHandle::new(handler)).await;
    let (parts, body) = match answered {
        Ok(Ok(Ok(response))) => response.into_parts(),
        Ok(Ok(Err(error))) => {
            hold(run, "the handler's service failed").await;
            return Ok(Err(error));
        }
        Ok(Err(_)) => {
            hold(run, "the handler panicked").await;
            return Err(Problem::HandlerFailed);
        }
        Err(_) => {
            hold(run, "the handler took longer than max_run").await;
            return Err(Problem::HandlerFailed);
        }
    };
    let answer = settle(replay, docs, run, parts, body, end).await?;
    report::first();
    Ok(Ok(answer))
}

/// Ends the key as the answer says, and hands the answer on once that is recorded.
async fn settle<DB: PhasedSql, B: Body<Data = Bytes>>(
    replay: &Replay<DB>,
    docs: Option<&str>,
    run: Run<DB, HttpResponse>,
    mut parts: Parts,
    body: B,
    end: Instant,
) -> Result<Response<Buffered<B>>, Problem> {
    let said = parts.extensions.remove::<Outcome>();
    match said.unwrap_or_else(|| (replay.outcome)(parts.status)) {
        Outcome::Release => {
            // If the store fails here, the key is in flight until the lease is over and then held: never a second run.
            ended(Ended::Released, &run.release().await);
            Ok(Response::from_parts(parts, Buffered::passed(body)))
        }
        Outcome::Hold => {
            hold(run, "the handler's answer leaves its outcome unknown").await;
            Ok(Response::from_parts(parts, Buffered::passed(body)))
        }
        Outcome::Complete => complete(replay, docs, run, parts, body, end).await,
    }
}

async fn complete<DB: PhasedSql, B: Body<Data = Bytes>>(
    replay: &Replay<DB>,
    docs: Option<&str>,
    run: Run<DB, HttpResponse>,
    parts: Parts,
    body: B,
    end: Instant,
) -> Result<Response<Buffered<B>>, Problem> {
    let limit = replay.phased.max_response_bytes;
    let gathered = match tokio::time::timeout_at(end.into(), gather(body, limit)).await {
        Ok(Ok(gathered)) => gathered,
        Ok(Err(BrokeOff)) => {
            hold(run, "the handler's answer broke off").await;
            return Err(Problem::HandlerFailed);
        }
        Err(_) => {
            hold(run, "the handler's answer took longer than max_run").await;
            return Err(Problem::HandlerFailed);
        }
    };
    let response = Response::from_parts(parts, gathered);
    let (how, stored) = match whole(&response, limit) {
        Some(whole) => (Ended::Completed, Ok(whole)),
        None => (Ended::NotKept, not_kept(&response, docs)),
    };
    let completed = match stored {
        Ok(stored) => run.complete(stored).await,
        Err(source) => Err(Error::Serialize { source: source.into() }),
    };
    if !ended(how, &completed.map(drop)) {
        return Err(Problem::NotRecorded { retry_after: RETRY_AFTER });
    }
    Ok(response.map(|gathered| match gathered {
        Gathered::Whole { bytes, trailers } => Buffered::whole(bytes, trailers),
        Gathered::Larger(body) => body,
    }))
}

/// The response as it is stored, if all of it can be: a stored response has a final status, no trailers, and a size within the
/// limit.
fn whole<B>(response: &Response<Gathered<B>>, limit: usize) -> Option<HttpResponse> {
    let Gathered::Whole { bytes, trailers: None } = response.body() else { return None };
    let stored = stored_as(response.status(), response.headers(), bytes).ok()?;
    let size = stored.to_parts().ok()?.bytes();
    (size <= limit).then_some(stored)
}

/// Holds the key; where that cannot be written, it is held by whoever comes once the lease is over.
async fn hold<DB: PhasedSql>(run: Run<DB, HttpResponse>, reason: &'static str) {
    report::holds(reason);
    ended(Ended::Held, &run.hold(reason).await);
}

/// Reports the end of a key; answers whether it is recorded.
fn ended(how: Ended, recorded: &Result<(), Error>) -> bool {
    report::ended(match recorded {
        Ok(()) => how,
        Err(Error::Superseded) => Ended::Superseded,
        Err(_) => Ended::NotRecorded,
    });
    recorded.is_ok()
}
