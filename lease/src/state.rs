//! What the holder may believe: a state machine without I/O, told the time.
//!
//! `Held → Unconfirmed → Held` only on a definite yes; `Lost` on a definite no, at the deadline, at the longest hold, at
//! the end of the hold; `Lost` is final.

use std::fmt;
use std::time::Duration;

use crate::clock::BootTime;
use crate::hold::Hold;

/// What the holder may believe of its lease at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseStatus {
    /// The last attempt was confirmed.
    Held {
        /// Until when: the sending of the last confirmed attempt, plus the TTL, less the drift allowance.
        deadline: BootTime,
    },
    /// A renewal was not answered in time: it may have happened or not. The lease stands until its deadline.
    Unconfirmed {
        /// When the first unanswered attempt was sent.
        since: BootTime,
        /// As in `Held`: an attempt without an answer does not move it.
        deadline: BootTime,
    },
    /// The lease is over. Final.
    Lost {
        /// Why.
        reason: LossReason,
    },
}

/// Why a lease is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// Its deadline passed without a confirmed renewal. Noticed when the lease is looked at, so after a pause as well.
    Expired,
    /// The store said that somebody else owns the lock, or that the lease had run out there.
    NotOwner,
    /// It reached the longest hold.
    MaxHold,
    /// Its holder gave it up without releasing, because what became of its work is not known.
    Abandoned,
    /// Its holder released it.
    Released,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline passed without a confirmed renewal",
            Self::NotOwner => "the store said that it is no longer the owner",
            Self::MaxHold => "it reached the longest hold",
            Self::Abandoned => "its holder gave it up",
            Self::Released => "its holder released it",
        })
    }
}

/// What an attempt to renew brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RenewalAnswer {
    Confirmed {
        ttl: Duration,
    },
    NotOwner,
    /// A timeout or an error: not an answer.
    Unanswered,
}

/// What is left of a lease, on its way from one holder to the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    pub(crate) deadline: BootTime,
    pub(crate) renewal_due: BootTime,
    /// What the store has granted last.
    pub(crate) ttl: Duration,
}

/// The holder's side of one lease.
#[derive(Debug, Clone)]
pub(crate) struct LeaseState {
    hold: Hold,
    /// When the longest hold ends.
    end: BootTime,
    /// What the store has granted last.
    ttl: Duration,
    renewal_due: BootTime,
    status: LeaseStatus,
}

impl LeaseState {
    /// The state after an acquisition that was sent at `sent`; over at once if the answer took too long.
    pub(crate) fn granted(hold: Hold, sent: BootTime, ttl: Duration) -> Self {
        let end = sent + hold.longest_hold();
        let deadline = end.min(sent + hold.validity(ttl));
        let (ttl, renewal_due) = (ttl.min(hold.ttl()), sent + hold.renewal_after(ttl));
        Self { hold, end, ttl, renewal_due, status: LeaseStatus::Held { deadline } }
    }

    /// The state of a lease that another holder has handed on, for a hold that [takes it](Hold::takes_over): its deadline stays,
    /// and the longest hold begins now.
    pub(crate) fn handed_on(hold: Hold, now: BootTime, left: Left) -> Self {
        let (end, Left { deadline, renewal_due, ttl }) = (now + hold.longest_hold(), left);
        Self { hold, end, ttl, renewal_due, status: LeaseStatus::Held { deadline: end.min(deadline) } }
    }

    /// The state at `now`: every look at a lease goes through here, so that a deadline which passed during a pause is
    /// noticed before anything is permitted.
    pub(crate) fn observe(&mut self, now: BootTime) -> LeaseStatus {
        if let LeaseStatus::Held { deadline } | LeaseStatus::Unconfirmed { deadline, .. } = self.status
            && now >= deadline
        {
            let reason = if deadline == self.end { LossReason::MaxHold } else { LossReason::Expired };
            self.status = LeaseStatus::Lost { reason };
        }
        self.status
    }

    /// Takes in what a renewal that was sent at `sent` brought. A yes says what stands at the store now, be it less than before.
    /// One that comes after the deadline is too late: the holder may have acted on the loss.
    pub(crate) fn renewal(&mut self, now: BootTime, sent: BootTime, answer: RenewalAnswer) -> LeaseStatus {
        if matches!(self.observe(now), LeaseStatus::Lost { .. }) {
            return self.status;
        }
        match answer {
            RenewalAnswer::Confirmed { ttl } => {
                self.ttl = ttl.min(self.hold.ttl());
                self.renewal_due = sent + self.hold.renewal_after(ttl);
                let deadline = self.end.min(sent + self.hold.validity(ttl));
                self.status = LeaseStatus::Held { deadline };
            }
            RenewalAnswer::NotOwner => self.status = LeaseStatus::Lost { reason: LossReason::NotOwner },
            RenewalAnswer::Unanswered => {
                if let LeaseStatus::Held { deadline } = self.status {
                    self.status = LeaseStatus::Unconfirmed { since: sent, deadline };
                }
            }
        }
        self.observe(now)
    }

    /// Ends the hold, whatever the store says; a loss that came first keeps its reason.
    pub(crate) fn end(&mut self, now: BootTime, reason: LossReason) -> LeaseStatus {
        if !matches!(self.observe(now), LeaseStatus::Lost { .. }) {
            self.status = LeaseStatus::Lost { reason };
        }
        self.status
    }

    /// When the next renewal is due; `None` if there will be none.
    pub(crate) fn renewal_due(&self) -> Option<BootTime> {
        match self.status {
            LeaseStatus::Held { deadline } | LeaseStatus::Unconfirmed { deadline, .. }
                if self.hold.is_renewed() && deadline < self.end =>
            {
                Some(self.renewal_due)
            }
            _ => None,
        }
    }

    /// What the store has granted last, and no more than was asked for.
    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// What is left to hand on: of a renewed lease, if the last attempt was confirmed.
    pub(crate) fn left(&self) -> Option<Left> {
        let LeaseStatus::Held { deadline } = self.status else { return None };
        Some(Left { deadline, renewal_due: self.renewal_due()?, ttl: self.ttl })
    }

    pub(crate) fn deadline(&self) -> Option<BootTime> {
        match self.status {
            LeaseStatus::Held { deadline } | LeaseStatus::Unconfirmed { deadline, .. } => Some(deadline),
            LeaseStatus::Lost { .. } => None,
        }
    }
}

#[cfg(test)]
#[path = "state/tests.rs"]
mod tests;
