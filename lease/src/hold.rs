//! How long a lease is held, and by which rules.

use std::time::Duration;

use crate::error::Error;

/// A request that hangs for longer is lost, however long the TTL is.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(30);

/// How long a lease is held: its TTL, whether it is renewed, and for how long at most.
///
/// The TTL is also how long a [checked](crate::Fence::check) transaction may idle between two of its statements, unless
/// [`Fence::idle_timeout`](crate::Fence::idle_timeout) says otherwise, and one of [`once`](crate::Leases::once) in any case: let it be longer
/// than the longest pause there, however well the lease is renewed.
///
/// | limit | default |
/// |---|---|
/// | TTL | given; 10 ms to 24 h |
/// | longest hold, renewals included | 1 h ([`max_hold`](Self::max_hold)), or the TTL if that is longer |
/// | drift allowance, taken off what the client believes | TTL/100 + 2 ms |
/// | renewal begins when less remains than | two thirds of the TTL |
/// | one attempt to renew or release takes at most | a sixth of the TTL, and 30 s |
/// | one attempt to acquire takes at most | a third of the TTL, and 30 s |
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::Hold;
///
/// let hold = Hold::renewed(Duration::from_secs(30)).max_hold(Duration::from_secs(600));
/// assert_eq!(hold.ttl(), Duration::from_secs(30));
/// assert_eq!(hold.drift(), Duration::from_millis(302));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    ttl: Duration,
    renewed: bool,
    limit: Option<Duration>,
    drift: Option<Duration>,
    permits_while_unconfirmed: bool,
}

impl Hold {
    /// The shortest TTL.
    pub const MIN_TTL: Duration = Duration::from_millis(10);
    /// The longest TTL.
    pub const MAX_TTL: Duration = Duration::from_hours(24);
    /// The longest hold of a renewed lease, unless [`max_hold`](Self::max_hold) says otherwise.
    pub const DEFAULT_MAX_HOLD: Duration = Duration::from_hours(1);

    /// Held for `ttl` from each confirmed renewal, and renewed in the background at about every third of it.
    ///
    /// A holder that dies keeps others out for up to `ttl`, or for as long as the store makes of it: etcd has a shortest TTL, and ZooKeeper
    /// goes by its session. A holder that is paused for longer loses the lease.
    #[must_use]
    pub const fn renewed(ttl: Duration) -> Self {
        Self { ttl, renewed: true, limit: None, drift: None, permits_while_unconfirmed: false }
    }

    /// Held for `ttl` and never renewed.
    #[must_use]
    pub const fn fixed(ttl: Duration) -> Self {
        Self { ttl, renewed: false, limit: None, drift: None, permits_while_unconfirmed: false }
    }

    /// The lease is lost this long after it was acquired, however well its renewals go: work that hangs does not keep the
    /// lock for ever.
    #[must_use]
    pub const fn max_hold(mut self, max_hold: Duration) -> Self {
        self.limit = Some(max_hold);
        self
    }

    /// How far the client's clock may have fallen behind the store's within one TTL.
    #[must_use]
    pub const fn drift_allowance(mut self, drift: Duration) -> Self {
        self.drift = Some(drift);
        self
    }

    /// Gives new permits while a renewal is unanswered too, up to the deadline. By default the lease must be confirmed.
    #[must_use]
    pub const fn permits_while_unconfirmed(mut self) -> Self {
        self.permits_while_unconfirmed = true;
        self
    }

    /// The TTL asked for.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The drift allowance.
    #[must_use]
    pub fn drift(&self) -> Duration {
        self.drift.unwrap_or(self.ttl / 100 + Duration::from_millis(2))
    }

    pub(crate) const fn is_renewed(&self) -> bool {
        self.renewed
    }

    pub(crate) const fn gives_permits_while_unconfirmed(&self) -> bool {
        self.permits_while_unconfirmed
    }

    pub(crate) fn longest_hold(&self) -> Duration {
        self.limit.unwrap_or(Self::DEFAULT_MAX_HOLD.max(self.ttl))
    }

    /// Whether a lease of the `other` may go on as one of this: only if both ask the store for the same and allow for the same. A
    /// renewal for less than stands, whose answer is lost, would have left the store with less than the holder knows of.
    pub(crate) fn takes_over(&self, other: &Self) -> bool {
        self.renewed && other.renewed && self.ttl == other.ttl && self.drift() == other.drift()
    }

    /// How long after its sending a confirmed attempt lets the client believe that it holds; the store may have granted
    /// less than was asked for.
    pub(crate) fn validity(&self, granted: Duration) -> Duration {
        granted.min(self.ttl).saturating_sub(self.drift())
    }

    /// How long after its sending a confirmed attempt makes the next one due.
    pub(crate) fn renewal_after(&self, granted: Duration) -> Duration {
        granted.min(self.ttl) / 3
    }

    pub(crate) fn acquire_timeout(&self) -> Duration {
        LONGEST_ATTEMPT.min(self.ttl / 3)
    }

    pub(crate) fn attempt_timeout(&self) -> Duration {
        LONGEST_ATTEMPT.min(self.ttl / 6)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.ttl < Self::MIN_TTL || self.ttl > Self::MAX_TTL {
            return Err(Error::Hold { fault: "the TTL must be from 10 ms to 24 h" });
        }
        if self.drift() >= self.ttl / 2 {
            return Err(Error::Hold { fault: "the drift allowance must be less than half of the TTL" });
        }
        if self.longest_hold().is_zero() {
            return Err(Error::Hold { fault: "max_hold must not be zero" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_outside_their_limits_are_refused() {
        let second = Duration::from_secs(1);
        assert!(Hold::renewed(second).check().is_ok());
        assert!(Hold::renewed(Hold::MIN_TTL).check().is_ok());
        assert!(Hold::renewed(Duration::from_millis(9)).check().is_err());
        assert!(Hold::fixed(Hold::MAX_TTL + second).check().is_err());
        assert!(Hold::fixed(second).drift_allowance(second / 2).check().is_err());
        assert!(Hold::fixed(second).max_hold(Duration::ZERO).check().is_err());
    }
}
