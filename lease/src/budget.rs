//! How long a TTL must be.
//!
//! # The reasoning
//!
//! A TTL is a bet between two losses. Too long, and a holder that dies keeps everybody out for all of it. Too short, and a holder that
//! was only slow loses its lease, and its work with it. The first is the TTL itself. The second can be computed from what was
//! measured: how long the work takes, for how long the process stands still (garbage collection, a busy or suspended machine), and how
//! long a request to the lock store takes.
//!
//! A **renewed** lease need not last as long as the work, but from one confirmed renewal to the next. Counted from the sending of the last
//! one, with the rules of [`Hold`]:
//!
//! | | of the TTL |
//! |---|---|
//! | the next renewal is due | 1/3 |
//! | it is late by its jitter, at most | 1/30 |
//! | if it is not answered, it is given up after | 1/6 |
//! | and repeated after at most | 1/12 |
//! | the drift allowance that is taken off the end | 1/100, and 2 ms |
//!
//! What is left must hold a pause `P` and the round trip `R` of the attempt that is answered. Three conditions come of it:
//!
//! 1. A pause of the 99.9th percentile, while every attempt is answered: `P₉₉.₉ + R₉₉.₉ + 2 ms ≤ (1 − 1/100 − 1/3 − 1/30) TTL`, so
//!    `TTL ≥ 1.60 (P₉₉.₉ + R₉₉.₉ + 2 ms)`.
//! 2. A pause of the 99th percentile, and one attempt that is not answered:
//!    `TTL ≥ 2.68 (P₉₉ + R₉₉.₉ + 2 ms)`.
//! 3. An attempt is not given up while its answer may come: `R₉₉.₉ ≤ TTL / 6`.
//!
//! What is then left to chance is that a pause longer than 99 of 100 meets an unanswered attempt. It costs work, never data: the resource
//! refuses the late holder whatever the TTL is.
//!
//! A **fixed** lease must outlast the work itself: `TTL ≥ (W₉₉.₉ + P₉₉.₉ + R₉₉.₉ + 2 ms) / 0.99`. Where that is no longer than the renewed
//! one's TTL, renewals are of no use.
//!
//! What is not in it: the TTL is also the bound for idling inside of a checked transaction, unless
//! [`Fence::idle_timeout`](crate::Fence::idle_timeout) says otherwise, and of one of [`once`](crate::Leases::once) in any case. It must be longer
//! than the longest pause between two statements there.
//!
//! The longest hold is twice the work's 99.9th percentile and what is added to it: work that takes longer hangs.

use std::time::Duration;

use crate::error::Error;
use crate::hold::Hold;

/// The part of the drift allowance that does not depend on the TTL.
const DRIFT: Duration = Duration::from_millis(2);

/// What was measured of something that takes time: 99 and 99.9 of a hundred took no longer.
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::Tail;
///
/// let samples: Vec<Duration> = (1..=1000).map(Duration::from_micros).collect();
/// let tail = Tail::of(&samples).expect("at least a thousand");
/// assert_eq!((tail.p99(), tail.p999()), (Duration::from_micros(990), Duration::from_micros(999)));
/// assert_eq!(Tail::of(&samples[1..]), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    p99: Duration,
    p999: Duration,
}

impl Tail {
    /// How many samples it takes for a 99.9th percentile.
    pub const LEAST_SAMPLES: usize = 1000;

    /// The percentiles as they are known.
    ///
    /// # Errors
    /// [`Error::Hold`] if the 99.9th is below the 99th: the two are the wrong way round, or not of the same thing.
    pub fn new(p99: Duration, p999: Duration) -> Result<Self, Error> {
        if p999 < p99 {
            return Err(Error::Hold { fault: "the 99.9th percentile is below the 99th" });
        }
        Ok(Self { p99, p999 })
    }

    /// The percentiles of `samples`, by nearest rank; `None` of less than [`LEAST_SAMPLES`](Self::LEAST_SAMPLES).
    #[must_use]
    pub fn of(samples: &[Duration]) -> Option<Self> {
        if samples.len() < Self::LEAST_SAMPLES {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let rank = |thousandths: usize| sorted[(sorted.len() * thousandths).div_ceil(1000) - 1];
        Some(Self { p99: rank(990), p999: rank(999) })
    }

    /// What 99 of a hundred did not exceed.
    #[must_use]
    pub const fn p99(&self) -> Duration {
        self.p99
    }

    /// What 999 of a thousand did not exceed.
    #[must_use]
    pub const fn p999(&self) -> Duration {
        self.p999
    }
}

/// A TTL from what was measured.
///
/// The rules, and why: a renewed lease must survive a pause of the 99.9th percentile, and one of the 99th together with an attempt to
/// renew that is not answered; a fixed one must outlast the work. (The arithmetic stands at the top of `src/budget.rs`, and in the guide.)
///
/// It does not know of pauses between two statements of a checked transaction, whose idling the TTL bounds as well, unless
/// [`Fence::idle_timeout`](crate::Fence::idle_timeout) says otherwise.
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::{LeaseBudget, Tail};
///
/// let ms = Duration::from_millis;
/// let budget = LeaseBudget {
///     work: Tail::new(ms(40_000), ms(90_000))?,
///     pause: Tail::new(ms(200), ms(2_000))?,
///     round_trip: Tail::new(ms(5), ms(50))?,
/// };
/// assert_eq!(budget.renewed_ttl(), ms(3_292));
/// assert_eq!(budget.fixed_ttl(), ms(92_982));
/// let hold = budget.hold()?; // the renewed one: whoever dies keeps others out for 3.3 s, not for 93 s
/// assert_eq!(hold.ttl(), ms(3_292));
/// # Ok::<(), leastlock_lease::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseBudget {
    /// The work under the lease.
    pub work: Tail,
    /// How long the process stands still.
    pub pause: Tail,
    /// A request to the lock store, from its sending to its answer.
    pub round_trip: Tail,
}

impl LeaseBudget {
    /// The least TTL of a renewed lease, in whole milliseconds.
    #[must_use]
    pub fn renewed_ttl(&self) -> Duration {
        let answered = self.round_trip.p999.saturating_add(DRIFT);
        // 1 - 1/100 - 1/3 - 1/30 = 187/300, and without 1/6 and 1/12 as well 112/300.
        let long_pause = scaled(self.pause.p999.saturating_add(answered), 300, 187);
        let unanswered = scaled(self.pause.p99.saturating_add(answered), 300, 112);
        let attempt = scaled(self.round_trip.p999, 6, 1);
        long_pause.max(unanswered).max(attempt).max(Hold::MIN_TTL)
    }

    /// The least TTL of a lease that is not renewed, in whole milliseconds.
    #[must_use]
    pub fn fixed_ttl(&self) -> Duration {
        scaled(self.once().saturating_add(DRIFT), 100, 99).max(Hold::MIN_TTL)
    }

    /// The hold with the shorter TTL of the two; a renewed one with a [longest hold](Hold::max_hold).
    ///
    /// # Errors
    /// [`Error::Hold`] if the TTL would be longer than 24 h.
    pub fn hold(&self) -> Result<Hold, Error> {
        let (renewed, fixed) = (self.renewed_ttl(), self.fixed_ttl());
        let hold = if fixed <= renewed {
            Hold::fixed(fixed)
        } else {
            Hold::renewed(renewed).max_hold(self.once().saturating_mul(2).max(renewed))
        };
        hold.check().map(|()| hold)
    }

    /// The work, a pause and an answer.
    fn once(&self) -> Duration {
        self.work.p999.saturating_add(self.pause.p999).saturating_add(self.round_trip.p999)
    }
}

/// `duration * by / over`, to the next whole millisecond above: at its deadline a lease is over.
fn scaled(duration: Duration, by: u128, over: u128) -> Duration {
    let ms = duration.as_nanos() * by / (over * 1_000_000) + 1;
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::BootTime;
    use crate::state::{LeaseState, LeaseStatus, RenewalAnswer};

    fn budget(pause: (u64, u64), round_trip: (u64, u64)) -> LeaseBudget {
        let tail = |(p99, p999)| Tail::new(Duration::from_millis(p99), Duration::from_millis(p999)).unwrap();
        LeaseBudget { work: tail((600_000, 600_000)), pause: tail(pause), round_trip: tail(round_trip) }
    }

    /// Goes from one confirmed renewal to the next as late as the rules of a renewal allow.
    fn survives(ttl: Duration, pause: Duration, round_trip: Duration, unanswered: u32) -> bool {
        let (hold, start) = (Hold::renewed(ttl), BootTime::after_boot(Duration::from_secs(1)));
        let mut state = LeaseState::granted(hold, start, ttl);
        let mut now = state.renewal_due().expect("it is renewed") + ttl / 30;
        for _ in 0..unanswered {
            let sent = now;
            now = now + hold.attempt_timeout();
            state.renewal(now, sent, RenewalAnswer::Unanswered);
            now = now + ttl / 12;
        }
        let sent = now + pause;
        let answered = sent + round_trip;
        matches!(state.renewal(answered, sent, RenewalAnswer::Confirmed { ttl }), LeaseStatus::Held { .. })
    }

    #[test]
    fn a_lease_of_the_budget_survives_what_it_was_made_for_and_a_shorter_one_does_not() {
        for (pause, round_trip) in
            [((10, 2_000), (5, 50)), ((900, 1_000), (5, 50)), ((0, 0), (1, 1)), ((5, 30), (20, 500))]
        {
            let budget = budget(pause, round_trip);
            let ttl = budget.renewed_ttl();
            let last_for = |ttl: Duration| {
                survives(ttl, budget.pause.p999, budget.round_trip.p999, 0)
                    && survives(ttl, budget.pause.p99, budget.round_trip.p999, 1)
                    && budget.round_trip.p999 <= Hold::renewed(ttl).attempt_timeout()
            };
            assert!(last_for(ttl), "{budget:?}: {ttl:?}");
            assert!(ttl == Hold::MIN_TTL || !last_for(ttl * 97 / 100), "{budget:?}: {ttl:?} is more than it takes");
        }
    }

    #[test]
    fn percentiles_that_are_the_wrong_way_round_are_refused() {
        let ms = Duration::from_millis;
        assert!(Tail::new(ms(2), ms(1)).is_err());
        assert_eq!(Tail::new(ms(2), ms(2)).map(|tail| tail.p999()).ok(), Some(ms(2)));
    }

    #[test]
    fn a_fixed_lease_is_chosen_where_the_work_is_short() {
        let mut budget = budget((100, 1_000), (5, 50));
        assert_eq!(budget.hold().unwrap().ttl(), budget.renewed_ttl());
        budget.work = Tail::new(Duration::from_millis(1), Duration::from_millis(2)).unwrap();
        let hold = budget.hold().unwrap();
        assert_eq!(hold, Hold::fixed(budget.fixed_ttl()));
        let validity = hold.validity(hold.ttl());
        let left = validity.checked_sub(budget.once()).unwrap();
        assert!(left < Duration::from_millis(2), "{left:?}");
        budget.pause = Tail::new(Duration::from_hours(20), Duration::from_hours(20)).unwrap();
        budget.work = budget.pause;
        assert!(budget.hold().is_err());
    }
}
