//! What a lock store says of itself.

/// What differs between stores and is no matter of types; fixed, and shown by the conformance suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Who gets a lock that becomes free.
    pub order: Order,
    /// How a waiter in another process learns of it.
    pub wake_up: WakeUp,
    /// How a lease ends that nobody renews.
    pub ending: LeaseEnding,
    /// What becomes of a claim whose floor the next token does not exceed.
    pub floor: FloorRule,
    /// Whether an acquisition may take the lock over from an owner that is done, in one step: [`Claim::after`](crate::Claim::after).
    pub takes_over: bool,
}

impl Capabilities {
    /// What a plain table has: whoever asks first, polled, leases that run out, tokens raised above the floor, a release before
    /// each acquisition.
    pub const PLAIN: Self = Self {
        order: Order::WhoeverAsks,
        wake_up: WakeUp::Polled,
        ending: LeaseEnding::ByItself,
        floor: FloorRule::Raised,
        takes_over: false,
    };

    /// With another order.
    #[must_use]
    pub const fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// With another wake-up.
    #[must_use]
    pub const fn wake_up(self, wake_up: WakeUp) -> Self {
        Self { wake_up, ..self }
    }

    /// With another ending.
    #[must_use]
    pub const fn ending(self, ending: LeaseEnding) -> Self {
        Self { ending, ..self }
    }

    /// With acquisitions that take over.
    #[must_use]
    pub const fn takes_over(self) -> Self {
        Self { takes_over: true, ..self }
    }

    /// With another rule for the floor.
    #[must_use]
    pub const fn floor(self, floor: FloorRule) -> Self {
        Self { floor, ..self }
    }
}

/// Who gets a lock that becomes free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// Whoever asks first. The waiters of one process take turns among themselves, and one of them asks.
    WhoeverAsks,
    /// The oldest claim, over all processes: [`FairStore`](crate::FairStore).
    Fifo,
}

/// How a waiter in another process learns that a lock is free. (Of a lease that ends in its own process it always hears.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WakeUp {
    /// It asks again, after pauses with full jitter.
    Polled,
    /// The store tells it of a release. A message may be lost, so it asks again now and then, and when the lease that it
    /// waits for would run out.
    Woken,
}

/// How a lease ends that nobody renews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseEnding {
    /// At the store, when its TTL is over, whatever becomes of the process.
    ByItself,
    /// With a session, whose time-out is the store's. While the process lives, [`LeaseStore::let_expire`](crate::LeaseStore::let_expire) ends it.
    WithSession,
}

/// What becomes of a claim whose [floor](crate::Claim::floor) the next token does not exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FloorRule {
    /// The store raises its counter above the floor.
    Raised,
    /// The store cannot: [`Grant::BelowFloor`](crate::Grant::BelowFloor).
    Refused,
    /// There is no token.
    NoToken,
}
