//! What a lock store must do, and what it says of itself.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::capabilities::Capabilities;
use crate::lock_name::LockName;
use crate::token::{FencingToken, OwnerHash, OwnerNonce};

/// A place where locks are kept: one attempt each to acquire, renew and release.
///
/// The rest (retries, deadlines, what may be believed after a timeout, the waiters of one process) is the library's and the
/// same for every store.
///
/// # Contract
/// - **One attempt.** A method sends its request once. It does not retry, and may be dropped at any moment by a time-out;
///   the request may then still take effect at the store.
/// - **An error is not an answer.** It may come although the request took effect. The caller goes on with the same nonce.
/// - **The store's clock decides** when a lease has run out, at the moment when the request is carried out.
/// - [`acquire`](Self::acquire) grants a lock that is free or whose lease has run out, and the one that the same nonce
///   holds already: that one keeps its token, and its lease is extended. The nonce that has released last is not granted the
///   lock again. Where the store has a queue, an attempt that is not granted keeps its place.
/// - Where the store [takes over](Capabilities::takes_over), it grants as well the lock of the owner that the claim comes [after](Claim::after),
///   and of no other, with a token of its own.
/// - [`renew`](Self::renew) extends only a lease that stands, of the same nonce and token. It never creates one: a lease
///   that has run out, or that somebody else took, is [`Renewal::NotOwner`].
/// - [`release`](Self::release) ends only the lease (or the place in the queue) of this nonce; repeating it answers the
///   same until somebody else takes the lock. Nothing else is changed by it.
/// - What a store keeps in this process for a claim (a session, a node, a connection) ends with an answered
///   [`release`](Self::release), or with [`let_expire`](Self::let_expire): one of the two comes for every claim for which
///   [`acquire`](Self::acquire) was called, unless the process or its runtime ends. Where the store takes over, neither comes for the owner
///   that a granted claim came after.
pub trait LeaseStore: Send + Sync + 'static {
    /// [`FencingToken`] where the store issues one, `()` where it cannot.
    type Token: StoreToken;

    /// How a waiter learns that another attempt may be granted: [`Polling`], or of the store's own.
    type Waiter: Waiter;

    /// What differs between stores and is no matter of types.
    const CAPABILITIES: Capabilities;

    /// Tries to take the lock, once.
    fn acquire(&self, claim: Claim<'_>) -> impl Future<Output = Result<Grant<Self::Token>, StoreError>> + Send;

    /// A waiter for this claim, whose first attempt was not granted. It asks nothing of the store before its first
    /// [`wait`](Waiter::wait), and gives up what it uses when it is dropped.
    fn waiter(&self, claim: Claim<'_>) -> Self::Waiter;

    /// Tries to extend the lease, once. `claim` is the one that was granted.
    fn renew(&self, claim: Claim<'_>, token: Self::Token) -> impl Future<Output = Result<Renewal, StoreError>> + Send;

    /// Tries to give the lock (or the place in its queue) up, once.
    fn release(&self, claim: Claim<'_>) -> impl Future<Output = Result<Release, StoreError>> + Send;

    /// Nobody renews this claim any more, and nobody releases it: what its work has done is not known, or a release was not
    /// answered. A store whose leases run out by themselves does nothing. One whose leases last as long as a session sees to
    /// it that this one is over soon after `remaining`, and not before: until then its holder may have believed in it.
    ///
    /// Does not block, and may be called outside of a runtime.
    fn let_expire(&self, claim: Claim<'_>, remaining: Duration);
}

/// A store whose tokens may guard a resource; only such a store gives a [`CorrectnessLease`](crate::CorrectnessLease).
///
/// # Contract
/// By implementing it a store promises, beside the contract of [`LeaseStore`]:
/// - **Monotonic.** A change of owner always raises the lock's token, also after a release and after an expiry.
/// - **Durable.** An issued token is never issued again: not after a crash, a restart or a fail-over of the store, as far as it is set up
///   to keep what it has acknowledged. (One that comes back without its last writes, from a copy or as a replica that lagged behind,
///   needs the [`floor`](Claim::floor).)
///
/// Redlock does not have this, and must not implement it. A store that may lose its last writes has it only as a type of
/// its own, whose name says what the caller accepts.
pub trait FencedStore: LeaseStore<Token = FencingToken> {}

/// A store that grants a lock in the order in which it was asked for: [`Order::Fifo`](crate::Order::Fifo) as a bound, for callers that
/// need turns.
///
/// # Contract
/// An attempt that is not granted keeps its claim's place, however often it is repeated; a lock that becomes free goes to
/// the oldest claim that is still there.
pub trait FairStore: LeaseStore {}

/// How one waiter learns that another attempt may be granted.
///
/// # Contract
/// - [`wait`](Self::wait) returns on the store's event for its lock, or after a bound of `pause`, whichever comes first;
///   returning for no reason costs an attempt and does no harm.
/// - **No event is missed.** What happens after the attempt that was not granted, between two waits included, ends the
///   next wait. A waiter that only now begins to listen therefore looks once more, or returns at once.
/// - If the store cannot be heard, it polls. It answers no error: the next attempt meets it.
/// - It may be dropped at any moment, within a wait too.
pub trait Waiter: Send + 'static {
    /// Waits, as `pause` bounds it.
    fn wait(&mut self, pause: Pause) -> impl Future<Output = ()> + Send;
}

/// The waiter of a store without events: it sleeps for [`Pause::poll`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Polling;

impl Waiter for Polling {
    async fn wait(&mut self, pause: Pause) {
        tokio::time::sleep(pause.poll).await;
    }
}

/// What a store issues with a lock.
pub trait StoreToken: fmt::Debug + Copy + Send + Sync + 'static {
    /// The fencing token, if it is one.
    fn fencing_token(self) -> Option<FencingToken>;
}

impl StoreToken for FencingToken {
    fn fencing_token(self) -> Option<FencingToken> {
        Some(self)
    }
}

impl StoreToken for () {
    fn fencing_token(self) -> Option<FencingToken> {
        None
    }
}

/// Who wants or has which lock, and for how long.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Claim<'a> {
    /// The lock.
    pub name: &'a LockName,
    /// The acquisition.
    pub nonce: OwnerNonce,
    /// How long the lease lasts from the moment at which the store carries the request out.
    pub ttl: Duration,
    /// The generation that is sealed at the resource already: the token must be higher. A store that cannot raise its
    /// counter answers [`Grant::BelowFloor`].
    pub floor: Option<FencingToken>,
    /// What the lock is held for, shown to operators.
    pub job: Option<&'a str>,
    /// An owner whose hold is over, and which has not released: if it still owns the lock, that counts as free, and so its release is a
    /// step of the acquisition. Only a store that [takes over](Capabilities::takes_over) is given one.
    pub after: Option<OwnerNonce>,
}

impl<'a> Claim<'a> {
    /// A claim without floor and job, after nobody.
    #[must_use]
    pub const fn new(name: &'a LockName, nonce: OwnerNonce, ttl: Duration) -> Self {
        Self { name, nonce, ttl, floor: None, job: None, after: None }
    }
}

/// What an attempt to acquire brought.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Grant<Token> {
    /// The lock is held by this nonce.
    Granted {
        /// What the store issued for it.
        token: Token,
        /// How long the lease lasts; may be less than was asked for.
        ttl: Duration,
    },
    /// Somebody else holds it.
    Held(Holder),
    /// The store cannot issue a token above the floor. Nothing is held.
    BelowFloor {
        /// The token that it would have issued.
        token: FencingToken,
    },
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's short hash.
    pub owner: OwnerHash,
    /// Its token, where the store has one.
    pub token: Option<FencingToken>,
    /// How long ago it acquired the lock.
    pub age: Duration,
    /// How long its lease lasts, unless it is renewed.
    pub remaining: Duration,
    /// What it holds the lock for.
    pub job: Option<Box<str>>,
}

impl Holder {
    /// A holder without token and job.
    #[must_use]
    pub const fn new(owner: OwnerHash, age: Duration, remaining: Duration) -> Self {
        Self { owner, token: None, age, remaining, job: None }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {}", self.owner)?;
        if let Some(token) = self.token {
            write!(f, ", token {token}")?;
        }
        if let Some(job) = &self.job {
            write!(f, ", job {job}")?;
        }
        write!(f, ", held for {:.1?}, {:.1?} left", self.age, self.remaining)
    }
}

/// What an attempt to renew brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Renewal {
    /// The lease stands, for this long from the moment at which the request was carried out.
    Renewed {
        /// How long; may be less than was asked for.
        ttl: Duration,
    },
    /// A definite no: the lease had run out, was released, or belongs to somebody else.
    NotOwner,
}

/// What an attempt to release brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Release {
    /// The lock is free of this nonce, and was its own until then.
    Released,
    /// The lock was not this nonce's any more. Nothing was changed.
    NotOwner,
}

/// How long to wait before another attempt, at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pause {
    /// For a waiter that must poll: full jitter, and no longer than the holder's lease.
    pub poll: Duration,
    /// For a waiter that is told: how long it relies on that. Not much longer than the holder's lease, whose end is no event
    /// on most stores.
    pub relying: Duration,
}

impl Pause {
    /// A pause.
    #[must_use]
    pub const fn new(poll: Duration, relying: Duration) -> Self {
        Self { poll, relying }
    }
}

/// A request to a lock store that was refused, or not answered.
#[derive(Debug, Clone)]
pub struct StoreError {
    retryable: bool,
    source: Arc<dyn StdError + Send + Sync>,
}

impl StoreError {
    const fn meaning(&self) -> &'static str {
        if self.retryable {
            "the lock store gave no answer; whether the request took effect is not known"
        } else {
            "the lock store refused the request, as its source says"
        }
    }

    /// An error after which the same request may well be answered.
    pub fn retryable(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { retryable: true, source: source.into().into() }
    }

    /// An error that the same request would meet again, such as a missing table.
    pub fn permanent(source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { retryable: false, source: source.into().into() }
    }

    /// What several have waited for.
    #[allow(dead_code, reason = "what no store with connects of its own is built in for has no use")]
    pub(crate) const fn shared(retryable: bool, source: Arc<dyn StdError + Send + Sync>) -> Self {
        Self { retryable, source }
    }

    /// Whether another attempt can help.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        self.retryable
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.meaning())?;
        let advice = self.source.downcast_ref::<sqlx::Error>().map_or("", crate::error::advice);
        f.write_str(advice)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.source)
    }
}

/// Whole milliseconds, rounded down: a lease is never longer than was asked for.
pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
