//! How the waiters of a process hear of releases elsewhere: one listener a store, one bell a lock that is waited for.

#[cfg(feature = "postgres")]
mod postgres;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::lock_name::LockName;

#[cfg(feature = "postgres")]
pub(crate) use postgres::PostgresWaiter;

/// How long a listener goes on when nobody waits any more.
const LINGER: Duration = Duration::from_secs(10);

/// The bells of one store. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Bells(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    names: Mutex<HashMap<LockName, watch::Sender<()>>>,
    runs: AtomicBool,
    listens: watch::Sender<bool>,
}

#[allow(dead_code, reason = "what no store with a listener is built in for has no use")]
impl Bells {
    /// Hangs up a bell, or shares the one that is there.
    pub(crate) fn hang(&self, name: &LockName) -> Bell {
        let rung = self.names().entry(name.clone()).or_default().subscribe();
        Bell { bells: self.clone(), name: name.clone(), rung }
    }

    /// Tells of a release of this lock.
    pub(crate) fn ring(&self, name: &str) {
        // A map of checked names cannot be asked for an unchecked one.
        let Ok(name) = LockName::new(name) else { return };
        if let Some(bell) = self.names().get(&name) {
            bell.send_replace(());
        }
    }

    /// Something may have been missed.
    pub(crate) fn ring_all(&self) {
        for bell in self.names().values() {
            bell.send_replace(());
        }
    }

    /// The listener hears from here on whatever happens. What it may have missed shows when everybody looks again.
    pub(crate) fn listening(&self) {
        self.0.listens.send_replace(true);
        self.ring_all();
    }

    /// Starts `listener` unless it runs. It ends by itself when it fails, and should when nobody has waited
    /// [for a while](Self::unused).
    fn listen_with<F>(&self, listener: impl FnOnce(Self) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.0.runs.swap(true, Ordering::AcqRel) {
            return;
        }
        let (bells, listener) = (self.clone(), listener(self.clone()));
        tokio::spawn(async move {
            // Dropped with its runtime, or by a panic of the driver, it has ended as well.
            let _ended = Ended(bells);
            listener.await;
        });
    }

    /// Waits until nobody has waited for a while.
    pub(crate) async fn unused(&self) {
        let mut idle = false;
        loop {
            tokio::time::sleep(LINGER / 2).await;
            if !self.names().is_empty() {
                idle = false;
            } else if std::mem::replace(&mut idle, true) {
                return;
            }
        }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<LockName, watch::Sender<()>>> {
        // Nothing in here panics half-way.
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Ended(Bells);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.0.listens.send_replace(false);
        self.0.0.runs.store(false, Ordering::Release);
        // Whoever relied on it looks again, and starts another.
        self.0.ring_all();
    }
}

/// One waiter's share of a lock's bell; taken down when it is dropped.
#[derive(Debug)]
pub(crate) struct Bell {
    bells: Bells,
    name: LockName,
    rung: watch::Receiver<()>,
}

#[allow(dead_code, reason = "what no store with a listener is built in for has no use")]
impl Bell {
    /// Has `listener` run, and waits until it hears, for `limit` at most; answers whether it does.
    pub(crate) async fn is_heard<F>(&self, limit: Duration, listener: impl FnOnce(Bells) -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.bells.listen_with(listener);
        let mut listens = self.bells.0.listens.subscribe();
        let heard = timeout(limit, listens.wait_for(|listens| *listens)).await;
        matches!(heard, Ok(Ok(_)))
    }

    /// Waits until it is rung, for `limit` at most. What came between two waits ends the next one.
    pub(crate) async fn rung(&mut self, limit: Duration) {
        // The sender is in the map for as long as this bell hangs.
        let _rung = timeout(limit, self.rung.changed()).await;
    }

    pub(crate) fn name(&self) -> &LockName {
        &self.name
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let mut names = self.bells.names();
        if names.get(&self.name).is_some_and(|bell| bell.receiver_count() <= 1) {
            names.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(20);

    async fn is_rung(bell: &mut Bell) -> bool {
        timeout(MOMENT, bell.rung.changed()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_bell_keeps_what_was_rung_between_two_waits_and_rings_for_its_own_lock_only() {
        let bells = Bells::default();
        let [mut one, mut other] = ["a:1", "a:2"].map(|name| bells.hang(&LockName::new(name).unwrap()));
        let mut shared = bells.hang(&LockName::new("a:1").unwrap());
        bells.ring("a:1");
        assert!(is_rung(&mut one).await && is_rung(&mut shared).await && !is_rung(&mut other).await);
        assert!(!is_rung(&mut one).await, "once");
        bells.ring_all();
        assert!(is_rung(&mut one).await && is_rung(&mut other).await);
        drop((one, other));
        assert_eq!(bells.names().len(), 1, "a shared bell hangs on");
        drop(shared);
        assert!(bells.names().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_ends_is_not_relied_on_and_is_started_again() {
        let bells = Bells::default();
        let mut bell = bells.hang(&LockName::new("a:1").unwrap());
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let listens = |bells: Bells| async move {
            bells.listening();
            let _ = ended.await;
        };
        assert!(bell.is_heard(MOMENT, listens).await);
        assert!(is_rung(&mut bell).await, "what it may have missed before shows when everybody looks");
        drop(end);
        assert!(is_rung(&mut bell).await, "whoever relied on it looks again");
        assert!(!bell.is_heard(MOMENT, |_| std::future::pending()).await, "one that never comes to listen");
        assert!(!bell.is_heard(MOMENT, |_| async { unreachable!("one runs") }).await);
    }
}
