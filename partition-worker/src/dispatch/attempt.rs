//! The application's handler, called once: it may panic, take too long, or be ended.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use super::Tenure;
use crate::handler::Failure;
use crate::record::Record;

/// How a call of a handler ended.
pub(super) enum Handled {
    Well,
    Failed(Failure),
    /// The partition was lost, or the shutdown's drain is over.
    Cancelled,
}

#[derive(Debug, thiserror::Error)]
#[error("the handler was not done within its time-out of {0:?} and was cancelled")]
struct TooSlow(Duration);

/// Runs the handler of these records for as long as the partition is owned, and no longer than `limit`. The application's function itself is to be called
/// within `running`: it may panic before it answers its future.
pub(super) async fn call(
    tenure: &Tenure,
    records: &[Record],
    limit: Duration,
    running: impl Future<Output = Result<(), Failure>>,
) -> Handled {
    if tenure.cancel.is_cancelled() {
        return Handled::Cancelled;
    }
    let _watched = tenure.watching(records);
    let mut running = pin!(AssertUnwindSafe(running).catch_unwind());
    // One that waits for nothing needs neither a timer nor to be woken by the end of the tenure.
    let handled = if let Some(handled) = running.as_mut().now_or_never() {
        Ok(handled)
    } else {
        tokio::select! {
            biased;
            () = tenure.cancel.cancelled() => return Handled::Cancelled,
            handled = timeout(limit, running) => handled,
        }
    };
    match handled {
        Ok(Ok(Ok(()))) => Handled::Well,
        Ok(Ok(Err(failure))) => Handled::Failed(failure),
        Ok(Err(_panic)) => Handled::Failed(Failure::retry("the handler panicked")),
        Err(_) => Handled::Failed(TooSlow(limit).into()),
    }
}
