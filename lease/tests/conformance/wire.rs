//! The way to a store, on which replies get lost and requests hang.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, FencedStore, FencingToken, Grant, LeaseStore, Release, Renewal, StoreError,
};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::clock::ManualClock;
use crate::world::LIMIT;

/// Passes requests on to a store as its [`Control`] says.
#[derive(Debug)]
pub(crate) struct Wire<S> {
    store: Arc<S>,
    control: Arc<Control>,
}

/// What happens on the wire, and what has.
#[derive(Debug)]
pub(crate) struct Control {
    /// So many replies to `acquire` are lost, after the store has done it.
    pub(crate) lost_replies: AtomicU32,
    /// Lost replies are not even an error: the request hangs.
    pub(crate) lost_replies_hang: AtomicBool,
    /// Renewals fail before they reach the store.
    pub(crate) renewals_fail: AtomicBool,
    /// Requests wait here, on their way to the store.
    pub(crate) acquire_gate: Semaphore,
    pub(crate) renewal_gate: Semaphore,
    /// For a holder whose renewals are due as soon as the one before was answered: a third of the TTL passes by it with each
    /// answer, and otherwise no time at all. So nothing is waited for, and a machine that stands still loses no lease.
    pub(crate) clock: ManualClock,
    pub(crate) release_gate: Semaphore,
    log: Mutex<Vec<&'static str>>,
    /// The tokens that the store has issued, whether anybody heard of them or not.
    issued: Mutex<Vec<i64>>,
}

const OPEN: usize = 1 << 20;

impl Control {
    pub(crate) fn log(&self) -> Vec<&'static str> {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn issued(&self) -> Vec<i64> {
        self.issued.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, event: &str) -> usize {
        self.log().iter().filter(|logged| **logged == event).count()
    }

    /// Waits until `event` has happened `count` times.
    pub(crate) async fn reached(&self, event: &str, count: usize) {
        let deadline = Instant::now() + LIMIT;
        while self.count(event) < count {
            assert!(Instant::now() < deadline, "no {event} number {count} within {LIMIT:?}: {:?}", self.log());
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn close(gate: &Semaphore) {
        gate.forget_permits(OPEN);
    }

    pub(crate) fn open(gate: &Semaphore) {
        gate.add_permits(OPEN);
    }

    fn note(&self, event: &'static str) {
        self.log.lock().unwrap().push(event);
    }
}

impl<S> Wire<S> {
    /// Whoever has this keeps the store, as a process that goes on does: what lives with a session does not end with its caller.
    pub(crate) fn keep(&self) -> Arc<S> {
        Arc::clone(&self.store)
    }

    pub(crate) fn new(store: S) -> (Self, Arc<Control>) {
        let control = Arc::new(Control {
            lost_replies: AtomicU32::new(0),
            lost_replies_hang: AtomicBool::new(false),
            renewals_fail: AtomicBool::new(false),
            acquire_gate: Semaphore::new(OPEN),
            renewal_gate: Semaphore::new(OPEN),
            clock: ManualClock::new(),
            release_gate: Semaphore::new(OPEN),
            log: Mutex::default(),
            issued: Mutex::default(),
        });
        (Self { store: Arc::new(store), control: Arc::clone(&control) }, control)
    }
}

impl<S: FencedStore> LeaseStore for Wire<S> {
    type Token = FencingToken;
    type Waiter = S::Waiter;

    const CAPABILITIES: Capabilities = S::CAPABILITIES;

    /// What is sent is on its way: it takes effect though nobody waits for the answer any more.
    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        let (store, control) = (Arc::clone(&self.store), Arc::clone(&self.control));
        let (name, nonce, ttl) = (claim.name.clone(), claim.nonce, claim.ttl);
        let (floor, after) = (claim.floor, claim.after);
        let job = claim.job.map(str::to_owned);
        control.note("acquire sent");
        let request = tokio::spawn(async move {
            let mut claim = Claim::new(&name, nonce, ttl);
            (claim.floor, claim.job, claim.after) = (floor, job.as_deref(), after);
            let _pass = control.acquire_gate.acquire().await.unwrap();
            let grant = store.acquire(claim).await;
            if let Ok(Grant::Granted { token, .. }) = &grant {
                control.issued.lock().unwrap().push(token.value());
            }
            control.note("acquire done");
            grant
        });
        let grant = request.await.unwrap()?;
        let lost = |count: u32| count.checked_sub(1);
        if self.control.lost_replies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lost).is_ok() {
            if self.control.lost_replies_hang.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            return Err(StoreError::retryable("the reply was lost"));
        }
        if let Grant::Granted { .. } = grant {
            self.control.clock.jump(claim.ttl / 3);
        }
        Ok(grant)
    }

    /// Made by whoever is the first of its process's waiters, once it has its place among them.
    fn waiter(&self, claim: Claim<'_>) -> S::Waiter {
        self.control.note("waiter made");
        self.store.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        self.control.note("renewal sent");
        let mut given_up = GivenUp(Some(&self.control));
        let _pass = self.control.renewal_gate.acquire().await.unwrap();
        if self.control.renewals_fail.load(Ordering::SeqCst) {
            given_up.0 = None;
            return Err(StoreError::retryable("the store is away"));
        }
        let renewal = self.store.renew(claim, token).await;
        given_up.0 = None;
        self.control.clock.jump(claim.ttl / 3);
        self.control.note("renewal done");
        renewal
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let _pass = self.control.release_gate.acquire().await.unwrap();
        let release = self.store.release(claim).await;
        self.control.note("released");
        release
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.control.note("left to expire");
        self.store.let_expire(claim, remaining);
    }
}

impl<S: FencedStore> FencedStore for Wire<S> {}

/// A renewal that nobody waits for any more.
struct GivenUp<'a>(Option<&'a Control>);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if let Some(control) = self.0 {
            control.note("renewal given up");
        }
    }
}
