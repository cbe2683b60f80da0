//! The background task that renews a lease and notices its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::held::Held;
use crate::state::LeaseStatus;

/// After a suspension of the machine a task that sleeps by tokio's timers is this late at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// The running renewal of one lease.
#[derive(Debug)]
pub(crate) struct RenewalTask {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RenewalTask {
    pub(crate) fn start(held: Arc<Held>) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(renew_until(held, stop.clone()).in_current_span());
        Self { stop, task }
    }

    /// No renewal begins after this; one that is in flight may still be.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops, and waits for the renewal in flight, at most a sixth of the TTL. After this there is none.
    ///
    /// # Cancel safety
    /// Dropped, it has stopped; the renewal in flight ends by itself.
    pub(crate) async fn join(mut self) {
        self.stop();
        // It can only have ended early by a panic of the store; either way no renewal is left.
        let _ended = (&mut self.task).await;
    }
}

impl Drop for RenewalTask {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn renew_until(held: Arc<Held>, stop: CancellationToken) {
    let mut failed = false;
    while !matches!(held.status(), LeaseStatus::Lost { .. }) {
        let (pause, renews) = next_step(&held, failed);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = held.over().cancelled() => return,
            () = sleep(pause) => {}
        }
        // Never dropped half-way: whoever stops the task can wait for the one in flight.
        if renews && !stop.is_cancelled() && !matches!(held.status(), LeaseStatus::Lost { .. }) {
            failed = matches!(held.renew().await, LeaseStatus::Unconfirmed { .. });
        }
    }
}

/// How long to sleep, and whether a renewal follows. Sleeps are cut short because tokio's timers stand still while the
/// machine is suspended and the lease's clock does not.
fn next_step(held: &Held, failed: bool) -> (Duration, bool) {
    let ttl = held.hold().ttl();
    let remaining = held.remaining().unwrap_or_default();
    let longest = remaining.min(ttl / 6).min(LONGEST_SLEEP);
    let Some(due) = held.renewal_due() else { return (longest, false) };
    let pause = if failed {
        // An attempt that failed fast is not repeated at once: between a 24th and a 12th of the TTL, or 5 to 10 s.
        (ttl / 24).min(LONGEST_SLEEP / 2).mul_f64(1.0 + fastrand::f64())
    } else {
        // Up to a 30th of the TTL (or 5 s) late, so that holders which started together do not stay together.
        due.since(held.now()) + (ttl / 30).min(LONGEST_SLEEP / 2).mul_f64(fastrand::f64())
    };
    if pause <= longest { (pause, true) } else { (longest, false) }
}
