//! The renewal of leases in the background, which notices their end as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::held::Held;
use crate::state::LeaseStatus;

/// After a suspension of the machine a task that sleeps by tokio's timers is this late at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);

/// How long the task that begins renewals goes on when there are none to begin.
const LINGER: Duration = Duration::from_secs(10);

/// The renewals of one [`Leases`](crate::Leases) that are not due yet. Most leases end before theirs is, so a renewal is noted here
/// first, and becomes a task when there is something to do. Those of another runtime than that of the task which looks are tasks
/// at once.
#[derive(Debug, Default)]
pub(crate) struct Renewals {
    noted: Mutex<Noted>,
    earlier: Notify,
}

#[derive(Debug, Default)]
struct Noted {
    leases: BTreeMap<Due, Entry>,
    count: u64,
    /// Where the task runs, if it does.
    runs: Option<runtime::Id>,
    /// When the task looks next, if it runs.
    looks_at: Option<Instant>,
}

/// When, and which of those that are due at the same time.
type Due = (Instant, u64);

#[derive(Debug)]
struct Entry {
    held: Arc<Held>,
    begun: Arc<Begun>,
    /// Where the lease was acquired.
    runtime: Handle,
    span: Span,
}

impl Entry {
    fn begin(self) {
        let stop = CancellationToken::new();
        let task = self.runtime.spawn(renew_until(self.held, stop.clone()).instrument(self.span));
        *self.begun.lock() = Some((stop, task));
    }
}

/// The task of a renewal, once there is one.
#[derive(Debug, Default)]
struct Begun(Mutex<Option<(CancellationToken, JoinHandle<()>)>>);

impl Begun {
    fn lock(&self) -> MutexGuard<'_, Option<(CancellationToken, JoinHandle<()>)>> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Renewals {
    fn note(self: &Arc<Self>, at: Instant, held: Arc<Held>) -> RenewalTask {
        let (runtime, begun) = (Handle::current(), Arc::<Begun>::default());
        let entry = Entry { held, begun: Arc::clone(&begun), runtime: runtime.clone(), span: Span::current() };
        let mut noted = self.lock();
        noted.count += 1;
        let due = (at, noted.count);
        let renewal = RenewalTask { renewals: Arc::clone(self), due, begun };
        if noted.runs.is_some_and(|runs| runs != runtime.id()) {
            // Nobody may drive that runtime any more, though it is there.
            drop(noted);
            entry.begin();
            return renewal;
        }
        noted.leases.insert(due, entry);
        let looks_later = noted.looks_at.is_none_or(|looks_at| at < looks_at);
        if looks_later {
            noted.looks_at = Some(at);
        }
        let starts = noted.runs.replace(runtime.id()).is_none();
        drop(noted);
        if starts {
            runtime.spawn(Arc::clone(self).keep());
        } else if looks_later {
            self.earlier.notify_one();
        }
        renewal
    }

    /// Begins what is due, until there has been nothing for a while.
    async fn keep(self: Arc<Self>) {
        let mut ended = Ended(Some(&self));
        let mut idle = false;
        while let Some(next) = self.begin_due(&mut idle) {
            tokio::select! {
                () = sleep_until(next) => {}
                () = self.earlier.notified() => {}
            }
        }
        // Another one may have been started since.
        ended.0 = None;
    }

    /// Begins what is due; answers when to look again, or nothing at the end.
    fn begin_due(&self, idle: &mut bool) -> Option<Instant> {
        let (mut noted, now) = (self.lock(), Instant::now());
        // Under the lock, so that whoever stops a renewal finds it here or begun.
        while let Some(first) = noted.leases.first_entry().filter(|first| first.key().0 <= now) {
            first.remove().begin();
        }
        let was_idle = std::mem::replace(idle, noted.leases.is_empty());
        let next = match noted.leases.first_key_value() {
            Some(((at, _), _)) => Some(*at),
            None if was_idle => None,
            None => Some(now + LINGER),
        };
        noted.looks_at = next;
        if next.is_none() {
            noted.runs = None;
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        // Nothing in here panics half-way.
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins all at once if the task is dropped with its runtime, so that none of them waits for a task that is gone.
struct Ended<'a>(Option<&'a Renewals>);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let Some(renewals) = self.0 else { return };
        let mut noted = renewals.lock();
        if noted.runs.take().is_some() {
            noted.looks_at = None;
            for (_, entry) in std::mem::take(&mut noted.leases) {
                entry.begin();
            }
        }
    }
}

/// The renewal of one lease.
#[derive(Debug)]
pub(crate) struct RenewalTask {
    renewals: Arc<Renewals>,
    due: Due,
    begun: Arc<Begun>,
}

impl RenewalTask {
    pub(crate) fn start(held: Arc<Held>) -> Self {
        let (first, _) = next_step(&held, false);
        Arc::clone(held.renewals()).note(Instant::now() + first, held)
    }

    /// No renewal begins after this; one that is in flight may still be.
    pub(crate) fn stop(&self) {
        let noted = self.renewals.lock().leases.remove(&self.due);
        if noted.is_none()
            && let Some((stop, _)) = &*self.begun.lock()
        {
            stop.cancel();
        }
    }

    /// Stops, and waits for the renewal in flight, at most a sixth of the TTL. After this there is none.
    ///
    /// # Cancel safety
    /// Dropped, it has stopped; the renewal in flight ends by itself.
    pub(crate) async fn join(self) {
        self.stop();
        let begun = self.begun.lock().take();
        if let Some((_, task)) = begun {
            // It can only have ended early by a panic of the store; either way no renewal is left.
            let _ended = task.await;
        }
    }
}

impl Drop for RenewalTask {
    fn drop(&mut self) {
        self.stop();
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
    let ttl = held.ttl();
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
