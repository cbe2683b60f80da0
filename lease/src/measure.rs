//! Where the figures are taken. Without the feature `metrics` nothing in here does or keeps anything, so that what calls it
//! reads the same with it and without.

#![cfg_attr(
    not(feature = "metrics"),
    allow(unused_variables, clippy::unused_self, clippy::needless_pass_by_value, reason = "nothing is measured")
)]

#[cfg(feature = "metrics")]
use std::time::Instant;

#[cfg(feature = "metrics")]
use ::metrics::{Gauge, counter, gauge, histogram};

use crate::error::Error;
use crate::fence::Refusal;
#[cfg(feature = "metrics")]
use crate::metrics as names;
use crate::state::{LossReason, RenewalAnswer};

/// An acquisition under way. One that is dropped before it has ended was cancelled by its caller.
#[derive(Debug)]
pub(crate) struct Acquiring {
    #[cfg(feature = "metrics")]
    begun: Option<Instant>,
}

impl Acquiring {
    pub(crate) fn begin() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            begun: Some(Instant::now()),
        }
    }

    pub(crate) fn granted(&mut self) {
        self.ended("granted");
    }

    pub(crate) fn handed_on(&mut self) {
        self.ended("handed_on");
    }

    pub(crate) fn failed(&mut self, error: &Error) {
        self.ended(match error {
            Error::Held { .. } => "held",
            Error::Unanswered { .. } => "unanswered",
            _ => "refused",
        });
    }

    fn ended(&mut self, outcome: &'static str) {
        #[cfg(feature = "metrics")]
        if let Some(begun) = self.begun.take() {
            histogram!(names::LEASE_WAIT_SECONDS, "outcome" => outcome).record(begun.elapsed());
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Acquiring {
    fn drop(&mut self) {
        self.ended("cancelled");
    }
}

/// An acquisition that waits, for as long as this lives.
pub(crate) struct Waiting {
    // The same recorder is told of the beginning and of the end.
    #[cfg(feature = "metrics")]
    gauge: Gauge,
}

impl Waiting {
    pub(crate) fn begin() -> Self {
        #[cfg(feature = "metrics")]
        {
            let gauge = gauge!(names::LEASE_WAITERS);
            gauge.increment(1);
            Self { gauge }
        }
        #[cfg(not(feature = "metrics"))]
        Self {}
    }
}

#[cfg(feature = "metrics")]
impl Drop for Waiting {
    fn drop(&mut self) {
        self.gauge.decrement(1);
    }
}

/// A lease that is held.
#[derive(Debug)]
pub(crate) struct Holding {
    #[cfg(feature = "metrics")]
    begun: Instant,
}

impl Holding {
    pub(crate) fn begin() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            begun: Instant::now(),
        }
    }

    /// It has ended; called once.
    pub(crate) fn ended(&self, reason: LossReason) {
        #[cfg(feature = "metrics")]
        {
            let name = match reason {
                LossReason::Expired => "expired",
                LossReason::NotOwner => "not_owner",
                LossReason::MaxHold => "max_hold",
                LossReason::Abandoned => "abandoned",
                LossReason::Released => "released",
            };
            histogram!(names::LEASE_HELD_SECONDS, "ended" => name).record(self.begun.elapsed());
            if reason != LossReason::Released {
                counter!(names::LEASE_LOST_TOTAL, "reason" => name).increment(1);
            }
        }
    }
}

/// An attempt to renew.
pub(crate) struct Renewing {
    #[cfg(feature = "metrics")]
    begun: Instant,
}

impl Renewing {
    pub(crate) fn begin() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            begun: Instant::now(),
        }
    }

    pub(crate) fn ended(self, answer: RenewalAnswer) {
        #[cfg(feature = "metrics")]
        {
            let outcome = match answer {
                RenewalAnswer::Confirmed { .. } => "confirmed",
                RenewalAnswer::NotOwner => "not_owner",
                RenewalAnswer::Unanswered => "unanswered",
            };
            histogram!(names::LEASE_RENEW_SECONDS, "outcome" => outcome).record(self.begun.elapsed());
            if answer == RenewalAnswer::Unanswered {
                counter!(names::LEASE_RENEW_FAILED_TOTAL).increment(1);
            }
        }
    }
}

/// A resource has refused a permit.
pub(crate) fn refused(refusal: Refusal) {
    #[cfg(feature = "metrics")]
    {
        let refusal = match refusal {
            Refusal::Lost { .. } => "lost",
            Refusal::Superseded { .. } => "superseded",
            Refusal::OtherOwner { .. } => "other_owner",
            Refusal::NotSealed => "not_sealed",
            Refusal::Spent => "spent",
            Refusal::Absent => "absent",
        };
        counter!(names::LEASE_STALE_WRITE_REFUSED_TOTAL, "refusal" => refusal).increment(1);
    }
}

#[cfg(all(test, not(feature = "metrics")))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_when_nothing_is_measured() {
        assert_eq!(
            (size_of::<Acquiring>(), size_of::<Waiting>(), size_of::<Holding>(), size_of::<Renewing>()),
            (0, 0, 0, 0)
        );
        assert!(!std::mem::needs_drop::<Acquiring>() && !std::mem::needs_drop::<Waiting>());
    }
}
