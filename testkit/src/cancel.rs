//! Futures that are dropped half-way, as when a client hangs up.

use std::pin::pin;
use std::task::Poll;

/// Polls `work` at most `polls` times, and drops it then; what it came to, if it came to its end.
///
/// A test that counts `polls` up from zero until it gets an answer meets every point at which `work` waits, whatever the machine's
/// speed.
pub async fn dropped_after<T>(polls: u32, work: impl Future<Output = T>) -> Option<T> {
    let (mut work, mut polled) = (pin!(work), 0);
    std::future::poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(None);
        }
        polled += 1;
        work.as_mut().poll(context).map(Some)
    })
    .await
}
