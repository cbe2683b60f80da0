//! The end of a request's key, within a limit.

use std::time::Duration;

use http::Response;

use super::super::answer::{not_kept, stored_as, unkept};
use super::super::body::{Buffered, Gathered};
use super::super::outcome::{Outcome, Reference};
use super::super::problem::Problem;
use super::super::report::{self, Ended};
use super::Replay;
use crate::error::Error;
use crate::phased::bounded::bounded;
use crate::phased::{PhasedSql, Run};
use crate::response::{HttpResponse, HttpResponseError, Response as _};

/// When asking again makes sense after an answer could not be recorded.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Ends the key without an answer.
pub(super) async fn end<DB: PhasedSql>(replay: &Replay<DB>, run: Run<DB, HttpResponse>, outcome: Outcome) {
    if outcome == Outcome::Release {
        release(run, replay.max_record).await;
    } else {
        hold(replay, run, "the handler's answer leaves its outcome unknown").await;
    }
}

/// Frees the key. If the store fails here, it is in flight until the lease is over and then abandoned.
pub(super) async fn release<DB: PhasedSql>(run: Run<DB, HttpResponse>, max_record: Duration) {
    ended(Ended::Released, &bounded::<DB, _>(max_record, run.release()).await);
}

/// Holds the key; where that cannot be written, it is held by whoever comes once the lease is over.
pub(super) async fn hold<DB: PhasedSql>(replay: &Replay<DB>, run: Run<DB, HttpResponse>, reason: &'static str) {
    report::holds(reason);
    ended(Ended::Held, &bounded::<DB, _>(replay.max_record, run.hold(reason)).await);
}

/// Stores the answer, and hands it on once that is recorded.
pub(super) async fn complete<DB: PhasedSql, B>(
    replay: &Replay<DB>,
    docs: Option<&str>,
    run: Run<DB, HttpResponse>,
    response: Response<Gathered<B>>,
) -> Result<Response<Buffered<B>>, Problem> {
    let (how, stored) = match whole(&response, replay.phased.max_response_bytes) {
        Some(whole) => (Ended::Completed, Ok(whole)),
        None => (Ended::NotKept, not_kept(&response, docs)),
    };
    record(replay, run, how, stored).await?;
    Ok(response.map(|gathered| match gathered {
        Gathered::Whole { bytes, trailers } => Buffered::whole(bytes, trailers),
        Gathered::Larger(body) => body,
    }))
}

/// Completes the key without its answer, and hands that on as it is made.
pub(super) async fn complete_unkept<DB: PhasedSql, B>(
    replay: &Replay<DB>,
    docs: Option<&str>,
    run: Run<DB, HttpResponse>,
    response: Response<B>,
) -> Result<Response<Buffered<B>>, Problem> {
    let stored = unkept(response.status(), response.extensions().get::<Reference>(), docs);
    record(replay, run, Ended::NotKept, stored).await?;
    Ok(response.map(Buffered::passed))
}

async fn record<DB: PhasedSql>(
    replay: &Replay<DB>,
    run: Run<DB, HttpResponse>,
    how: Ended,
    stored: Result<HttpResponse, HttpResponseError>,
) -> Result<(), Problem> {
    let completed = match stored {
        // Dropped at its limit, the run is renewed no more, and its lease ends the claim if nothing was written.
        Ok(stored) => bounded::<DB, _>(replay.max_record, run.complete(stored)).await,
        Err(source) => Err(Error::Serialize { source: source.into() }),
    };
    let is_recorded = ended(how, &completed.map(drop));
    is_recorded.then_some(()).ok_or(Problem::NotRecorded { retry_after: RETRY_AFTER })
}

/// The response as it is stored, if all of it can be: a stored response has a final status, no trailers, and a size within the
/// limit.
fn whole<B>(response: &Response<Gathered<B>>, limit: usize) -> Option<HttpResponse> {
    let Gathered::Whole { bytes, trailers: None } = response.body() else { return None };
    let stored = stored_as(response.status(), response.headers(), bytes).ok()?;
    let size = stored.to_parts().ok()?.bytes();
    (size <= limit).then_some(stored)
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
