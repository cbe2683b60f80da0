//! Who has allowed it, why, and for how long.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::Error;

/// Somebody's leave to take a lock away from its holder.
///
/// It is written into the audit as it is. It ends by itself: a command that was prepared in the night must not take the lock from
/// whoever has it in the morning.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use leastlock_lease::Approval;
///
/// let until = SystemTime::now() + Duration::from_secs(600);
/// assert!(Approval::new("r.devi", "INC-4711: the holder's machine is gone", until).is_ok());
/// assert!(Approval::new("r.devi", "", until).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    approver: Box<str>,
    reason: Box<str>,
    until: SystemTime,
}

impl Approval {
    /// The longest name of an approver, in bytes.
    pub const MAX_APPROVER_BYTES: usize = 200;
    /// The longest reason, in bytes.
    pub const MAX_REASON_BYTES: usize = 1000;

    /// A leave that ends at `until`, by the clock of the store.
    ///
    /// # Errors
    /// [`Error::Approval`] if approver or reason is empty, longer than allowed or has control characters, or the time is before 1970.
    pub fn new(approver: impl Into<String>, reason: impl Into<String>, until: SystemTime) -> Result<Self, Error> {
        let (approver, reason) = (approver.into(), reason.into());
        if approver.trim().is_empty() || approver.len() > Self::MAX_APPROVER_BYTES {
            return Err(Error::Approval { fault: "the approver must have 1 to 200 bytes" });
        }
        if reason.trim().is_empty() || reason.len() > Self::MAX_REASON_BYTES {
            return Err(Error::Approval { fault: "the reason must have 1 to 1000 bytes" });
        }
        if approver.chars().chain(reason.chars()).any(char::is_control) {
            return Err(Error::Approval { fault: "approver and reason must not have control characters" });
        }
        if until < UNIX_EPOCH {
            return Err(Error::Approval { fault: "it must not end before 1970" });
        }
        Ok(Self { approver: approver.into(), reason: reason.into(), until })
    }

    /// Who has allowed it.
    #[must_use]
    pub fn approver(&self) -> &str {
        &self.approver
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Until when.
    #[must_use]
    pub const fn until(&self) -> SystemTime {
        self.until
    }

    /// Whole milliseconds since 1970, rounded down, and not so many that an engine's times end before.
    pub(crate) fn until_ms(&self) -> i64 {
        /// The end of the year 9999.
        const LAST_MS: i64 = 253_402_300_799_000;
        let since = self.until.duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(LAST_MS).min(LAST_MS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn approvals_name_somebody_and_a_reason() {
        let until = UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(Approval::new("a", "b", until).unwrap().until_ms(), 1000);
        let long = "x".repeat(1001);
        for (approver, reason) in [("", "b"), ("a", ""), (" ", "b"), ("a\n", "b"), ("a", &long), (&long, "b")] {
            assert!(Approval::new(approver, reason, until).is_err(), "{approver:?} {reason:?}");
        }
        assert!(Approval::new("a", "b", UNIX_EPOCH - Duration::from_secs(1)).is_err());
    }
}
