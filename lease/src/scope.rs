//! What the work under a lease may use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::Error;
use crate::held::Held;
use crate::lock_name::LockName;
use crate::permit::Permit;
use crate::state::LeaseStatus;
use crate::token::FencingToken;

/// What the work of a [`run`](crate::CorrectnessLease::run) gets: permits, tasks of its own, and word of its end.
#[derive(Debug, Clone)]
pub struct Scope {
    held: Arc<Held>,
    token: FencingToken,
    tasks: Arc<Tasks>,
}

impl Scope {
    pub(crate) fn new(held: &Arc<Held>, token: FencingToken) -> Self {
        Self { held: Arc::clone(held), token, tasks: Arc::default() }
    }

    /// A permit for a protected resource.
    ///
    /// # Errors
    /// [`Error::Lost`] if the lease is over, which is noticed here after a pause as well; [`Error::Unconfirmed`] while a
    /// renewal is unanswered.
    pub fn permit(&self) -> Result<Permit, Error> {
        Permit::new(&self.held, self.token)
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

    /// The lock.
    #[must_use]
    pub fn name(&self) -> &LockName {
        self.held.name()
    }

    /// The fencing token.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// What may be believed of the lease now.
    #[must_use]
    pub fn status(&self) -> LeaseStatus {
        self.held.status()
    }

    /// How long the lease lasts from now on, unless it is renewed.
    ///
    /// # Errors
    /// [`Error::Lost`] if it is over.
    pub fn remaining(&self) -> Result<Duration, Error> {
        self.held.remaining()
    }

    pub(crate) fn tasks(&self) -> Arc<Tasks> {
        Arc::clone(&self.tasks)
    }
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
