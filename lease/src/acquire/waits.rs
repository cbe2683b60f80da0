//! The waits of one acquisition: for its turn among the process's waiters, for others that come first, and for the store.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::attempts::{Answer, Attempts, Last};
use crate::capabilities::WakeUp;
use crate::kind::Kind;
use crate::queue::Place;
use crate::store::{LeaseStore, Pause, Waiter};

/// How long a waiter that is told of a release relies on that: from half of it to all of it.
const LONGEST_RELIANCE: Duration = Duration::from_secs(2);

/// How long others have who are told of a release, when they come first.
const TOLD: Duration = Duration::from_millis(100);
/// How long others have at most who poll.
const LONGEST_WAY: Duration = Duration::from_millis(500);

impl<S: LeaseStore> Attempts<S> {
    /// Waits until this is the first of the process's waiters, or was handed the lease, or has no time left. What an unanswered
    /// attempt may have got is followed up at once.
    pub(super) async fn wait_for_turn<K: Kind>(&mut self, give_up: Instant, answer: &mut Answer<K>) {
        let Some(place) = &self.place else { return };
        if matches!(self.last, Last::Unanswered(_)) {
            return;
        }
        while !place.is_first() {
            tokio::select! {
                () = place.woken() => {}
                () = sleep_until(give_up) => return,
                () = answer.closed() => return,
            }
        }
        // Who is the first because the one before it was granted the lock need not ask before that lease is over.
        while place.is_held_here() && !place.has_baton() {
            let look = Instant::now() + reliance(None);
            tokio::select! {
                () = place.woken() => {}
                () = sleep_until(give_up.min(look)) => return,
                () = answer.closed() => return,
            }
        }
    }

    /// Where others come first, leaves them the time in which they would ask: those who are told hear of a release at once, and those who
    /// poll do it within their longest pause.
    pub(super) async fn give_way<K: Kind>(&mut self, answer: &mut Answer<K>) {
        let Some(place) = self.place.as_ref().filter(|place| place.gives_way()) else { return };
        if matches!(self.last, Last::Unanswered(_)) {
            return;
        }
        let ask = match S::CAPABILITIES.wake_up {
            WakeUp::Woken => TOLD,
            WakeUp::Polled => self.policy.backoff.ceiling(u32::MAX).min(LONGEST_WAY),
        };
        let until = self.give_up.min(Instant::now() + ask);
        while !place.has_baton() && !place.has_succession() {
            tokio::select! {
                () = place.woken() => {}
                () = sleep_until(until) => break,
                () = answer.closed() => return,
            }
        }
        place.has_given_way();
    }

    /// Waits for another attempt: for the store's event, for one of this process, or by polling.
    pub(super) async fn pause<K: Kind>(&mut self, left: Duration, answer: &mut Answer<K>) {
        let holder = if let Last::Held(holder) = &self.last { Some(holder.remaining) } else { None };
        let first = self.place.as_ref().is_none_or(Place::is_first);
        if holder.is_some() && !first {
            // Its turn comes next.
            return;
        }
        let mut poll = self.policy.backoff.delay(self.sent - 1);
        if let Some(remaining) = holder {
            poll = poll.min(remaining.max(Duration::from_millis(1)));
        }
        let pause = Pause::new(poll.min(left), reliance(holder).min(left));
        let waiter = self.waiter.get_or_insert_with(|| self.means.store.waiter(self.acquisition.claim()));
        let woken = async {
            match &self.place {
                Some(place) if first => place.woken().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = waiter.wait(pause) => {}
            () = woken => {}
            () = answer.closed() => {}
        }
    }
}

/// How long to rely on being told: not much longer than the lease that is waited for, whose end is no event.
fn reliance(holder: Option<Duration>) -> Duration {
    let longest = LONGEST_RELIANCE.mul_f64(0.5 + fastrand::f64() / 2.0);
    // A little after its end, so that it is over by then; and spread, so that not all waiters ask at once.
    let after = Duration::from_millis(1) + Duration::from_millis(20).mul_f64(fastrand::f64());
    holder.map_or(longest, |remaining| longest.min(remaining.saturating_add(after)))
}
