//! Work that ends with its lease, and a lease that ends with its work.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::event;
use crate::held::Held;
use crate::kind::Kind;
use crate::lease::Lease;
use crate::release::{Released, release};
use crate::renewal::RenewalTask;
use crate::scope::{Scope, Tasks};
use crate::state::{LeaseStatus, LossReason};
use crate::work_error::WorkError;

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ending {
    /// The work's outcome is known, so the lease was released; this is what became of it.
    Released(Released),
    /// The work's outcome is not known, so the lease is left to expire by its TTL.
    LeftToExpire {
        /// Tasks of the scope that still ran at the cancel deadline.
        outlived: usize,
    },
}

/// What work under a lease brought, and how its lease ended.
#[derive(Debug)]
#[must_use]
pub struct Finished<T> {
    /// What the work answered.
    pub result: Result<T, Error>,
    /// What became of the lease.
    pub ending: Ending,
}

enum Interruption {
    Lost,
    Cancelled,
}

impl<K: Kind> Lease<K> {
    /// Runs `work` under this lease.
    ///
    /// - The lease is renewed until the work and the tasks that it [spawned](Scope::spawn) have ended.
    /// - When the lease is lost, the work is dropped at its next await point, and so are its tasks.
    /// - When it is [cancelled](Self::cancelled_by), renewal stops first; then [`Scope::cancelled`] wakes the work, which
    ///   has until the cancel deadline to end by itself, and is dropped then.
    /// - The lease is released only when the work's outcome is known: it answered `Ok`, or a [`WorkError`] that is
    ///   [known](WorkError::is_known), and all of its tasks ended by themselves. Otherwise the TTL ends it.
    ///
    /// In the work, `?` takes any error that is `Send + Sync + 'static`, a `Box<dyn std::error::Error + Send + Sync>` among them, but no
    /// `Box<dyn std::error::Error>`. Of one that hides what it is, such as `anyhow::Error`, the outcome is [unknown](WorkError).
    ///
    /// ```
    /// use std::time::Duration;
    /// use leastlock_lease::{Hold, Leases, LockName, SqlLeaseStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # leastlock_lease::MIGRATIONS.run(&pool).await?;
    /// # let leases = Leases::new(SqlLeaseStore::new(&pool));
    /// let lease = leases.acquire(&LockName::new("job:settlement")?, Hold::renewed(Duration::from_secs(30))).await?;
    /// let settled = lease.run(async |scope| {
    ///     let task = scope.spawn(async { 21 });
    ///     let half = task.await?.ok_or("the task was dropped")?;
    ///     Ok(2 * half)
    /// });
    /// assert_eq!(settled.await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the work said: an [`Error`] of this crate as it is, unless its author knows that it leaves more
    /// [unknown](WorkError::unknown) than it says, and anything else as [`Error::Work`]. [`Error::Lost`] and [`Error::Cancelled`] if it was dropped before it ended; whether a commit that it was waiting for took effect is then
    /// not known.
    ///
    /// # Cancel safety
    /// Dropped (a client that hangs up), or by a panic of the work, it stops renewal first and refuses all permits, then drops the
    /// work and its tasks. The lease is left to expire. While it releases already, the release goes on.
    pub async fn run<T, F, Fut>(self, work: F) -> Result<T, Error>
    where
        F: FnOnce(Scope<K>) -> Fut,
        Fut: Future<Output = Result<T, WorkError>>,
    {
        self.run_to_end(work).await.result
    }

    /// As [`run`](Self::run), and tells how the lease ended.
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_to_end<T, F, Fut>(self, work: F) -> Finished<T>
    where
        F: FnOnce(Scope<K>) -> Fut,
        Fut: Future<Output = Result<T, WorkError>>,
    {
        let (held, kind, renewal, cancel, cancel_deadline) = self.into_parts();
        let scope = Scope::new(&held, kind);
        let tasks = scope.tasks();
        // From here on the lease ends whatever happens: what follows is the caller's, and may panic.
        let run = Run { held, tasks, renewal, cancel, cancel_deadline, armed: true };
        let mut work = Box::pin(work(scope));
        // Declared after the work, so dropped before it.
        let run = run;

        let mut result = None;
        let interruption = tokio::select! {
            biased;
            ended = run.ended(&mut result, work.as_mut()) => { let () = ended; None }
            interruption = run.interrupted() => Some(interruption),
        };
        if let Some(interruption) = &interruption {
            run.stop_renewal();
            run.tasks.cancel();
            if let Interruption::Cancelled = interruption {
                let grace = run.cancel_deadline.min(run.held.remaining().unwrap_or_default());
                // Over, the work is dropped.
                let _over = timeout(grace, run.ended(&mut result, work.as_mut())).await;
            }
        }
        drop(work);
        let outlived = run.drop_tasks().await;
        run.finish(result, interruption.as_ref(), outlived).await
    }
}

/// The parts of a run that must end in the right order, however it ends.
struct Run {
    held: Arc<Held>,
    tasks: Arc<Tasks>,
    renewal: Option<RenewalTask>,
    cancel: CancellationToken,
    cancel_deadline: Duration,
    armed: bool,
}

impl Run {
    /// Waits for the work, whose result is kept, then for its tasks. Can be dropped and called again.
    async fn ended<T>(
        &self,
        result: &mut Option<Result<T, WorkError>>,
        work: impl Future<Output = Result<T, WorkError>>,
    ) {
        if result.is_none() {
            *result = Some(work.await);
        }
        self.tasks.ended().await;
    }

    async fn interrupted(&self) -> Interruption {
        tokio::select! {
            biased;
            () = self.held.over().cancelled() => Interruption::Lost,
            () = self.cancel.cancelled() => Interruption::Cancelled,
        }
    }

    fn stop_renewal(&self) {
        if let Some(renewal) = &self.renewal {
            renewal.stop();
        }
    }

    /// Drops the tasks that still run; answers how many are not gone at the cancel deadline.
    async fn drop_tasks(&self) -> usize {
        self.tasks.drop_all();
        match timeout(self.cancel_deadline, self.tasks.ended()).await {
            Ok(()) => 0,
            Err(_elapsed) => {
                let outlived = self.tasks.running();
                event::outlived(&self.held, outlived);
                outlived
            }
        }
    }

    async fn finish<T>(
        mut self,
        result: Option<Result<T, WorkError>>,
        interruption: Option<&Interruption>,
        outlived: usize,
    ) -> Finished<T> {
        self.armed = false;
        let work_known = matches!(&result, Some(Ok(_))) || matches!(&result, Some(Err(error)) if error.is_known());
        let known = work_known && outlived == 0 && self.tasks.unfinished() == 0;
        let result = match result {
            Some(result) => result.map_err(WorkError::into_error),
            None => Err(self.interruption_error(interruption)),
        };
        let (held, renewal) = (Arc::clone(&self.held), self.renewal.take());
        let ending = if known {
            Ending::Released(release(held, renewal).await)
        } else {
            let remaining = held.remaining().ok();
            held.end(LossReason::Abandoned);
            event::left_to_expire(&held, remaining, outlived);
            if let Some(renewal) = renewal {
                renewal.join().await;
            }
            Ending::LeftToExpire { outlived }
        };
        Finished { result, ending }
    }

    fn interruption_error(&self, interruption: Option<&Interruption>) -> Error {
        let name = self.held.name().clone();
        match (interruption, self.held.status()) {
            (Some(Interruption::Lost), LeaseStatus::Lost { reason }) => Error::Lost { name, reason },
            _ => Error::Cancelled { name },
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let remaining = self.held.remaining().ok();
        self.stop_renewal();
        self.held.end(LossReason::Abandoned);
        self.tasks.drop_all();
        event::left_to_expire(&self.held, remaining, 0);
        self.report_outliving();
    }
}

impl Run {
    /// Waits in the background for the tasks of a run that was dropped, and reports those that stay.
    fn report_outliving(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (held, tasks, deadline) = (Arc::clone(&self.held), Arc::clone(&self.tasks), self.cancel_deadline);
        runtime.spawn(async move {
            if timeout(deadline, tasks.ended()).await.is_err() {
                event::outlived(&held, tasks.running());
            }
        });
    }
}
