//! What the work under a lease may use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::accessors::{accessors, fenced_accessors};
use crate::held::Held;
use crate::kind::{Correctness, Kind};

/// What the work of a [`run`](crate::Lease::run) gets: tasks of its own, word of its end, and, of a
/// [`CorrectnessLease`](crate::CorrectnessLease), permits.
#[derive(Debug, Clone)]
pub struct Scope<K: Kind = Correctness> {
    held: Arc<Held>,
    kind: K,
    tasks: Arc<Tasks>,
}

impl<K: Kind> Scope<K> {
    pub(crate) fn new(held: &Arc<Held>, kind: K) -> Self {
        Self { held: Arc::clone(held), kind, tasks: Arc::default() }
    }

    /// Spawns a task that belongs to the work: the lease is renewed until it has ended, and it is dropped when the lease is
    /// lost or the work is cancelled. Its handle answers `None` if it was dropped.
    ///
    /// A task that panics or is dropped leaves the work's outcome unknown, and the lease is left to expire.
    pub fn spawn<F>(&self, task: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let count = CountUnfinished { tasks: Arc::clone(&self.tasks), finished: false };
        let dropped = self.tasks.dropped.clone();
        self.tasks.tracker.spawn(async move {
            let mut count = count;
            let output = dropped.run_until_cancelled_owned(task).await;
            count.finished = output.is_some();
            output
        })
    }

    /// Waits until the work should end: it was cancelled, or the lease is lost.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn cancelled(&self) {
        tokio::select! {
            () = self.tasks.cancelled.cancelled() => {}
            () = self.held.over().cancelled() => {}
        }
    }

    accessors!();

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    pub(crate) fn tasks(&self) -> Arc<Tasks> {
        Arc::clone(&self.tasks)
    }
}

impl Scope<Correctness> {
    fenced_accessors!();
}

/// The tasks of one scope.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    /// The work is asked to end.
    cancelled: CancellationToken,
    /// Tasks are dropped at their next await point.
    dropped: CancellationToken,
    unfinished: AtomicUsize,
}

impl Tasks {
    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }

    pub(crate) fn drop_all(&self) {
        self.cancelled.cancel();
        self.dropped.cancel();
        self.tracker.close();
    }

    /// Waits until every task has ended.
    pub(crate) async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Tasks that are running.
    pub(crate) fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Tasks that ended without an output: they panicked or were dropped.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::Acquire)
    }
}

/// Counts its task as unfinished, also when the task panics or is dropped, unless it is told otherwise.
struct CountUnfinished {
    tasks: Arc<Tasks>,
    finished: bool,
}

impl Drop for CountUnfinished {
    fn drop(&mut self) {
        if !self.finished {
            self.tasks.unfinished.fetch_add(1, Ordering::Release);
        }
    }
}
