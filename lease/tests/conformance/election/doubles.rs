//! A store that is away, an observer that draws the wrong conclusion from it, and a leader that does not ask the resource.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, Election, Error, FencedStore, FencingToken, Grant, Inspect, Leadership, LeaseSql, LeaseStore,
    LockName, LockRecord, Observer, Permit, Refusal, Release, Renewal, Scope, StoreError,
};
use leastlock_testkit::TestEngine;
use sqlx::Pool;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::suite::fence;
use crate::world::{A_WRITES, write};

/// Passes requests on, unless it is told to be away.
pub(crate) struct Away<S> {
    pub(crate) store: S,
    pub(crate) is: Arc<AtomicBool>,
    pub(crate) asked: Arc<AtomicU32>,
}

impl<S> Away<S> {
    pub(crate) fn new(store: S) -> (Self, Arc<AtomicBool>, Arc<AtomicU32>) {
        let (is, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        (Self { store, is: Arc::clone(&is), asked: Arc::clone(&asked) }, is, asked)
    }

    fn there(&self) -> Result<&S, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.is.load(Ordering::SeqCst) { Err(StoreError::retryable("the store is away")) } else { Ok(&self.store) }
    }
}

impl<S: FencedStore> LeaseStore for Away<S> {
    type Token = FencingToken;
    type Waiter = S::Waiter;

    const CAPABILITIES: Capabilities = S::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        self.there()?.acquire(claim).await
    }

    fn waiter(&self, claim: Claim<'_>) -> S::Waiter {
        self.store.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        self.there()?.renew(claim, token).await
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.there()?.release(claim).await
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.store.let_expire(claim, remaining);
    }
}

impl<S: FencedStore> FencedStore for Away<S> {}

impl<S: FencedStore + Inspect> Inspect for Away<S> {
    async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>, StoreError> {
        self.there()?.inspect(name).await
    }

    async fn list(&self, after: Option<&LockName>, limit: u32) -> Result<Vec<LockRecord>, StoreError> {
        self.there()?.list(after, limit).await
    }
}

/// The mistake: no answer is taken for one.
pub(crate) async fn looks_carelessly<S: Inspect>(observer: &Observer<S>) -> Leadership {
    observer.look().await.unwrap_or(Leadership::Vacant)
}

/// Each term that was elected, and where it is told whether it has written.
pub(crate) type Elected = mpsc::UnboundedSender<(FencingToken, oneshot::Receiver<bool>)>;

/// A leader that seals, is stopped, and writes when it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leader {
    /// `lead`, whose work asks the resource.
    Right,
    /// The mistake: it was elected, so it leads, as long as nobody tells it otherwise.
    WithoutAsking,
}

impl Leader {
    /// Leads until the shutdown; the first term is stopped until `goes_on`. Answers how many terms it has led, and how many of them
    /// were lost, if it knows.
    pub(crate) async fn leads<S: FencedStore, DB: TestEngine + LeaseSql>(
        self,
        election: Election<S>,
        pool: Pool<DB>,
        shutdown: CancellationToken,
        elected: Elected,
        goes_on: oneshot::Receiver<()>,
    ) -> Option<(u64, u64)> {
        if self == Self::WithoutAsking {
            let term = election.campaign().await.unwrap();
            let permit = term.permit().unwrap();
            fence().seal(&pool, &permit).await.unwrap();
            let (written, outcome) = oneshot::channel();
            elected.send((permit.token(), outcome)).unwrap();
            goes_on.await.unwrap();
            written.send(self.writes(&pool, &permit).await).unwrap();
            return None;
        }
        let goes_on = Arc::new(Mutex::new(Some(goes_on)));
        let work = move |scope: Scope| {
            let (pool, elected, goes_on) = (pool.clone(), elected.clone(), Arc::clone(&goes_on));
            async move {
                let permit = scope.permit()?;
                fence().seal(&pool, &permit).await?;
                let (written, outcome) = oneshot::channel();
                elected.send((permit.token(), outcome)).unwrap();
                if let Some(goes_on) = goes_on.lock().await.take() {
                    let _told = goes_on.await;
                    let _gone = written.send(self.writes(&pool, &permit).await);
                }
                scope.cancelled().await;
                Ok(())
            }
        };
        let led = election.lead(shutdown, work).await.unwrap();
        Some((led.terms, led.lost))
    }

    async fn writes<DB: TestEngine + LeaseSql>(self, pool: &Pool<DB>, permit: &Permit) -> bool {
        let mut tx = leastlock_core::begin(pool).await.unwrap();
        if self == Self::Right {
            match fence().check(&mut tx, permit).await {
                Ok(()) => {}
                Err(Error::Refused { refusal: Refusal::Superseded { .. } | Refusal::Lost { .. }, .. }) => return false,
                Err(other) => panic!("{other}"),
            }
        }
        write(&mut tx, A_WRITES).await.unwrap();
        tx.commit().await.unwrap();
        true
    }
}
