//! How a lock goes on within the process, how often, and for how long.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::BootTime;
use crate::token::OwnerNonce;

/// How often a lock goes from one to another within the process before it is released at the store, so that other processes get their
/// chance.
pub(super) const HAND_ONS: u32 = 32;

/// For how long the lock is the process's before others come first, and a lease more: then it is free at the store, and the next one of
/// this process asks only when they had time to.
pub(super) const LONGEST_RUN: Duration = Duration::from_secs(2);

/// How often, and until when, a lock may still go on within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turns {
    left: u32,
    /// When others had their turn: the lock was somebody else's, or nobody's.
    began: BootTime,
    /// As the same lease too, and not only as one that begins where this one ends.
    as_it_is: bool,
}

impl Turns {
    /// Of a lock that was free.
    pub(crate) const fn first(now: BootTime) -> Self {
        Self { left: HAND_ONS, began: now, as_it_is: true }
    }

    /// Of a lease that nobody else may have.
    pub(crate) const fn of_ones_own(self) -> Self {
        Self { as_it_is: false, ..self }
    }

    pub(crate) fn handed_on(self, now: BootTime) -> Option<Self> {
        self.passed_on(now).filter(|_| self.as_it_is)
    }

    pub(crate) fn passed_on(self, now: BootTime) -> Option<Self> {
        self.released(now).and_then(|_| Some(Self { left: self.left.checked_sub(1)?, as_it_is: true, ..self }))
    }

    /// For who takes the lock next, if that is one of the process: to be free for a moment gives others a chance, and no turn. `None` once
    /// they come first.
    pub(crate) fn released(self, now: BootTime) -> Option<Self> {
        let over = now.since(self.began) >= LONGEST_RUN;
        (!over).then_some(Self { left: HAND_ONS, as_it_is: true, ..self })
    }
}

/// What an owner leaves to the next one of this process, instead of releasing the lock: the next one's acquisition does both in one trip.
pub(crate) struct Succession {
    pub(crate) nonce: OwnerNonce,
    pub(crate) turns: Turns,
    told: Option<oneshot::Sender<Passed>>,
    /// What its owner says once the next one has it, which comes before anything that one says.
    released: Option<Box<dyn FnOnce() + Send>>,
    taken: bool,
}

/// What became of a lock that was left to the next one. Nothing, if that one has left before it asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The next one has it.
    Taken,
    /// It was somebody else's already.
    NotOwner,
    /// There was no answer.
    Unknown,
}

impl Succession {
    pub(crate) fn of(
        nonce: OwnerNonce,
        turns: Turns,
        released: impl FnOnce() + Send + 'static,
    ) -> (Self, oneshot::Receiver<Passed>) {
        let (told, hears) = oneshot::channel();
        (Self { nonce, turns, told: Some(told), released: Some(Box::new(released)), taken: false }, hears)
    }

    pub(super) fn taken(mut self) -> Self {
        self.taken = true;
        self
    }

    pub(crate) fn tell(mut self, passed: Passed) {
        self.told(passed);
    }

    fn told(&mut self, passed: Passed) {
        // Who does not wait any more has released by itself.
        if let Some(told) = self.told.take().filter(|told| !told.is_closed()) {
            if let Some(released) = self.released.take().filter(|_| passed == Passed::Taken) {
                released();
            }
            let _gone = told.send(passed);
        }
    }
}

impl std::fmt::Debug for Succession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Succession").field("turns", &self.turns).field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Drop for Succession {
    fn drop(&mut self) {
        // With a task that ended within its attempt: what was sent may have arrived.
        if self.taken {
            self.told(Passed::Unknown);
        }
    }
}
