//! Connects that go on without whoever asked for them: an attempt may be shorter than it takes to connect, to log in and to be
//! known, and no other would ever come to its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

/// How long one connect is waited for by all who come: it may hang, or its runtime may stand still. Another is begun then, beside it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The connects of one store that are under way, to each of its servers one at a time.
#[derive(Debug)]
pub(crate) struct Connecting<E> {
    under_way: Mutex<HashMap<usize, UnderWay<E>>>,
    connected: Arc<Notify>,
}

#[derive(Debug)]
struct UnderWay<E> {
    since: Instant,
    outcome: watch::Receiver<Option<Result<(), E>>>,
}

impl<E> UnderWay<E> {
    fn goes_on(&self) -> bool {
        // An error here: it was dropped with its runtime.
        self.since.elapsed() < PATIENCE && self.outcome.borrow().is_none() && self.outcome.has_changed().is_ok()
    }
}

impl<E: Clone + Send + Sync + 'static> Connecting<E> {
    /// Waits until there is a connection to any of the servers, or until what is under way to this one has failed. If nothing is,
    /// `connect` begins. It keeps the connection where its owner finds it, and is to look there first whether there is one by now.
    pub(crate) async fn to<F>(&self, server: usize, connect: impl FnOnce() -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let mut connected = std::pin::pin!(self.connected.notified());
        connected.as_mut().enable();
        let mut outcome = self.join(server, connect);
        let ended = async {
            match outcome.wait_for(Option::is_some).await {
                Ok(ended) => ended.clone().unwrap_or(Ok(())),
                // Dropped with its runtime. Whoever asked finds no connection.
                Err(_closed) => Ok(()),
            }
        };
        tokio::select! {
            () = connected => Ok(()),
            ended = ended => ended,
        }
    }

    fn join<F>(&self, server: usize, connect: impl FnOnce() -> F) -> watch::Receiver<Option<Result<(), E>>>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let mut under_way = self.lock();
        if let Some(found) = under_way.get(&server).filter(|found| found.goes_on()) {
            return found.outcome.clone();
        }
        let (tell, outcome) = watch::channel(None);
        under_way.insert(server, UnderWay { since: Instant::now(), outcome: outcome.clone() });
        let (connect, connected) = (connect(), Arc::clone(&self.connected));
        tokio::spawn(async move {
            let ended = connect.await;
            let succeeded = ended.is_ok();
            tell.send_replace(Some(ended));
            if succeeded {
                connected.notify_waiters();
            }
        });
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, UnderWay<E>>> {
        // Nothing panics half-way while it is locked.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E> Default for Connecting<E> {
    fn default() -> Self {
        Self { under_way: Mutex::default(), connected: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_connect_goes_on_without_who_asked_for_it_and_one_at_a_time() {
        let connecting = Connecting::<&str>::default();
        let (gate, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let connect = |ends: Result<(), &'static str>| {
            let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
            move || async move {
                begun.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                ends
            }
        };
        for _ in 0..3 {
            assert!(timeout(MOMENT, connecting.to(0, connect(Ok(())))).await.is_err());
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        let second = timeout(MOMENT, connecting.to(1, connect(Err("refused"))));
        assert!(second.await.is_err());
        assert_eq!(begun.load(Ordering::SeqCst), 2, "each server has its own");

        // Whoever comes shares what becomes of it, be that a success at another server.
        let (first, other) = (connecting.to(0, connect(Err("not begun"))), connecting.to(1, connect(Err("not begun"))));
        let (first, other, ()) = tokio::join!(first, other, async { gate.add_permits(1) });
        assert_eq!((first, other), (Ok(()), Ok(())));
        let (refused, ()) = tokio::join!(connecting.to(1, connect(Ok(()))), async { gate.add_permits(1) });
        assert_eq!((refused, begun.load(Ordering::SeqCst)), (Err("refused"), 2));
        gate.add_permits(1);
        assert_eq!(connecting.to(1, connect(Ok(()))).await, Ok(()), "the next one is begun anew");
    }

    #[test]
    fn a_runtime_that_stands_still_or_is_gone_keeps_nobody_from_connecting() {
        let connecting = Arc::new(Connecting::<()>::default());
        let [idle, driven] =
            [(); 2].map(|()| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
        let begun_there = |server| {
            let begun = async { timeout(MOMENT, connecting.to(server, std::future::pending)).await };
            assert!(idle.block_on(begun).is_err());
        };
        begun_there(0);
        begun_there(1);
        driven.block_on(async {
            assert!(timeout(MOMENT, connecting.to(0, || async { Ok(()) })).await.is_err(), "it is under way");
            let deadline = Instant::now() + 20 * PATIENCE;
            while timeout(MOMENT, connecting.to(0, || async { Ok(()) })).await.is_err() {
                assert!(Instant::now() < deadline, "it is begun anew");
            }
        });
        drop(idle);
        driven.block_on(async { assert_eq!(connecting.to(1, || async { Ok(()) }).await, Ok(())) });
    }
}
