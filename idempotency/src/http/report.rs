//! What is logged and counted. Never a key, a path or a body above TRACE, and none ever in a label.

#[cfg(feature = "metrics")]
use super::metrics;
use super::problem::Problem;
use crate::error::Error;
use crate::key::Key;

/// What the log lines of the layer are filed under.
const TARGET: &str = "leastlock_idempotency";

/// How a key ended in replay mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Completed,
    NotKept,
    Released,
    Held,
    Superseded,
    NotRecorded,
}

impl Ended {
    const fn label(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::NotKept => "not_kept",
            Self::Released => "released",
            Self::Held => "held",
            Self::Superseded => "superseded",
            Self::NotRecorded => "not_recorded",
        }
    }
}

/// A request was given to its handler in extract mode.
pub(super) fn admitted(key: &Key) {
    tracing::trace!(target: TARGET, key = key.as_str(), scope = key.scope().as_str(), "a request has its key");
    metrics::request("admitted");
}

/// A request was given to its handler in replay mode: its key is claimed.
pub(super) fn claimed(key: &Key) {
    tracing::trace!(target: TARGET, key = key.as_str(), scope = key.scope().as_str(), "a key is claimed");
}

/// A request was answered by its handler in replay mode.
pub(super) fn first() {
    metrics::request("first");
}

/// A request was answered with what is stored.
pub(super) fn replayed(key: &Key) {
    tracing::trace!(target: TARGET, key = key.as_str(), scope = key.scope().as_str(), "an answer is given again");
    metrics::request("replay");
}

/// A request was answered by the layer itself.
pub(super) fn refused(problem: Problem) {
    match problem {
        Problem::Overloaded { .. } | Problem::AnswerUnreadable | Problem::NotRecorded { .. } => {
            tracing::warn!(target: TARGET, problem = problem.slug(), "a request was not answered by its handler");
        }
        _ => tracing::debug!(target: TARGET, problem = problem.slug(), "a request was not answered by its handler"),
    }
    metrics::request(problem.slug());
}

/// The store could not say what the request is. What the driver said is not logged: it can quote the key.
pub(super) fn store_failed(error: &Error) -> Problem {
    tracing::warn!(target: TARGET, %error, "a request was not run");
    Problem::from(error)
}

/// The store has not said within the limit what the request is.
pub(super) fn store_silent() -> Problem {
    tracing::warn!(target: TARGET, "a request was not run: the store did not answer within max_claim");
    Problem::StoreFailed { retry_after: Some(super::problem::STORE_RETRY_AFTER) }
}

/// A key is about to be held.
pub(super) fn holds(reason: &'static str) {
    tracing::warn!(target: TARGET, reason, "the outcome of a request is unknown; its key is held");
}

/// A key has ended.
pub(super) fn ended(how: Ended) {
    match how {
        Ended::Superseded | Ended::NotRecorded => {
            tracing::warn!(target: TARGET, ended = how.label(), "the end of a key could not be recorded");
        }
        _ => tracing::debug!(target: TARGET, ended = how.label(), "a key has ended"),
    }
    metrics::key(how.label());
}

/// A handler that runs, for as long as the value exists.
#[derive(Debug)]
pub(super) struct Running {
    #[cfg(feature = "metrics")]
    since: std::time::Instant,
}

impl Running {
    pub(super) fn start() -> Self {
        #[cfg(feature = "metrics")]
        metrics::handler_starts();
        Self {
            #[cfg(feature = "metrics")]
            since: std::time::Instant::now(),
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Running {
    fn drop(&mut self) {
        metrics::handler_ends(self.since.elapsed().as_secs_f64());
    }
}

/// What `metrics` has to do without the feature.
#[cfg(not(feature = "metrics"))]
mod metrics {
    pub(super) fn request(_: &'static str) {}

    pub(super) fn key(_: &'static str) {}
}
