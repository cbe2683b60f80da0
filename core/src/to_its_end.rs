//! Futures that go on when they are dropped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Runs `work` where it is awaited; dropped before its end, a task of the runtime brings it there and drops what it comes to. That is
/// the runtime in which it is dropped, or else the one in which it was made.
///
/// For what must not stop half-way, such as a `BEGIN` whose reply is under way. A task from the start would do the same, at the
/// price of one more task and two more wake-ups each time. Where the runtime is shutting down it stops half-way all the same.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn to_its_end<F>(work: F) -> ToItsEnd<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    ToItsEnd { work: Some(Box::pin(work)), runtime: Handle::current() }
}

/// What [`to_its_end`] answers with.
#[must_use = "a future does nothing until it is awaited"]
pub struct ToItsEnd<F: Future<Output: Send> + Send + 'static> {
    /// `None` while it is polled, and once it has ended.
    work: Option<Pin<Box<F>>>,
    runtime: Handle,
}

impl<F: Future<Output: Send> + Send + 'static> Future for ToItsEnd<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // Taken out, so that work that panics is not gone on with.
        let mut work = self.work.take().expect("a future is not polled after its end");
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> fmt::Debug for ToItsEnd<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ToItsEnd").finish_non_exhaustive()
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for ToItsEnd<F> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            let runtime = Handle::try_current();
            runtime.as_ref().unwrap_or(&self.runtime).spawn(async move { drop(work.await) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::Notify;

    use super::*;

    type Signals = (Arc<AtomicU32>, Arc<Notify>, Arc<Notify>);

    /// Work that waits once, and says when it has gone past that and when what it came to is dropped.
    struct Ended(Arc<AtomicU32>, Arc<Notify>);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            self.1.notify_one();
        }
    }

    fn work(signals: &Signals) -> impl Future<Output = Ended> + Send + use<> {
        let (dropped, gone_on, done) = signals.clone();
        async move {
            gone_on.notified().await;
            Ended(dropped, done)
        }
    }

    async fn poll_once(mut work: Pin<&mut impl Future>) {
        std::future::poll_fn(|context| {
            assert!(work.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    #[tokio::test]
    async fn work_that_is_awaited_ends_once() {
        let signals = Signals::default();
        let (dropped, goes_on, _) = &signals;
        goes_on.notify_one();
        let ended = to_its_end(work(&signals)).await;
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(ended);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn work_that_is_dropped_half_way_ends_all_the_same() {
        let signals = Signals::default();
        let (dropped, goes_on, done) = &signals;
        let mut half_way = Box::pin(to_its_end(work(&signals)));
        poll_once(half_way.as_mut()).await;
        drop(half_way);
        assert_eq!(dropped.load(Ordering::SeqCst), 0, "nothing has let it go on yet");
        goes_on.notify_one();
        done.notified().await;
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn work_that_is_dropped_in_a_runtime_which_ends_is_given_up_with_it() {
        let signals = Signals::default();
        let mut half_way = Box::pin(to_its_end(work(&signals)));
        poll_once(half_way.as_mut()).await;
        let ending = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let handle = ending.handle().clone();
        let entered = handle.enter();
        drop(half_way);
        ending.shutdown_background();
        drop(entered);
        let (dropped, ..) = signals;
        assert_eq!((dropped.load(Ordering::SeqCst), Arc::strong_count(&dropped)), (0, 1), "nothing holds it any more");
    }

    #[tokio::test]
    async fn work_that_panics_is_not_gone_on_with() {
        let panics = to_its_end(async { panic!("on purpose") });
        assert!(tokio::spawn(panics).await.unwrap_err().is_panic());
    }
}
