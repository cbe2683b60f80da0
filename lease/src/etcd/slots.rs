//! Which names a process gives to its claims' keys: as few as it has claims at a time, and the same ones again and again.
//!
//! etcd's index keeps each name that there ever was until the cluster compacts, and a request for a range reads past all of them. With a name of
//! its own for each claim, a lock gets slower with each time that it is taken.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock::{BootClock, BootTime, Clock};
use crate::lock_name::LockName;

/// So many locks are kept beside those that are in use before it is looked which of them are not.
const SPARE: usize = 64;

/// The slots of each lock that is in use. Which claim has which is only a matter of names: at the server a key is put if it is absent, and says
/// whose it is.
#[derive(Debug, Default)]
pub(super) struct Slots {
    locks: HashMap<LockName, Vec<Slot>>,
    /// With how many it is looked next.
    most: usize,
}

#[derive(Debug, Clone, Copy)]
enum Slot {
    Free,
    Taken,
    /// Something may stand there until then.
    Rests(BootTime),
}

impl Slot {
    fn is_free(self, now: BootTime) -> bool {
        match self {
            Self::Free => true,
            Self::Taken => false,
            Self::Rests(until) => until <= now,
        }
    }
}

impl Slots {
    /// The first slot of the lock that is free.
    pub(super) fn take(&mut self, name: &LockName) -> usize {
        let now = BootClock.now();
        if self.locks.len() > self.most {
            self.locks.retain(|_, slots| slots.iter().any(|slot| !slot.is_free(now)));
            self.most = 2 * self.locks.len() + SPARE;
        }
        let slots = self.locks.entry(name.clone()).or_default();
        let free = slots.iter().position(|slot| slot.is_free(now)).unwrap_or(slots.len());
        slots.resize(slots.len().max(free + 1), Slot::Free);
        slots[free] = Slot::Taken;
        free
    }

    /// Nothing stands there any more.
    pub(super) fn free(&mut self, name: &LockName, slot: usize) {
        self.put(name, slot, Slot::Free);
    }

    /// Something may stand there, for as long as its lease lasts.
    pub(super) fn rest(&mut self, name: &LockName, slot: usize, ttl: Duration) {
        self.put(name, slot, Slot::Rests(BootClock.now() + ttl));
    }

    fn put(&mut self, name: &LockName, slot: usize, state: Slot) {
        if let Some(found) = self.locks.get_mut(name).and_then(|slots| slots.get_mut(slot)) {
            *found = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_each_by_one_claim_at_a_time() {
        let (mut slots, name) = (Slots::default(), LockName::new("job:settlement").unwrap());
        assert_eq!([slots.take(&name), slots.take(&name), slots.take(&name)], [0, 1, 2]);
        slots.free(&name, 1);
        slots.rest(&name, 0, Duration::from_hours(1));
        assert_eq!([slots.take(&name), slots.take(&name)], [1, 3], "one that rests is left alone");
        slots.rest(&name, 2, Duration::ZERO);
        assert_eq!(slots.take(&name), 2, "until its time is over");
    }

    #[test]
    fn locks_that_are_not_used_are_not_kept() {
        let mut slots = Slots::default();
        for number in 0..20 * SPARE {
            let name = LockName::new(format!("job:{number}")).unwrap();
            let slot = slots.take(&name);
            slots.free(&name, slot);
        }
        assert!(slots.locks.len() <= 2 * SPARE, "{}", slots.locks.len());
    }
}
