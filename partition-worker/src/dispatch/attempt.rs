//! One attempt of a handler, from `BEGIN` to `COMMIT`.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use sqlx::Transaction;
use sqlx::error::DatabaseError;
use tokio::time::{Instant, timeout};

use leastlock_core::{ErrorClass, classify};

use super::{Dispatch, Job};
use crate::handler::{Failure, Handler};
use crate::progress::Entry;
use crate::sql::WorkerSql;

/// How an attempt ended.
pub(super) enum Outcome {
    /// Its effect is committed.
    Committed,
    /// The record was finished before.
    AlreadyDone,
    /// Another owner has the partition.
    Fenced,
    /// The partition was lost, or the shutdown's drain is over. Rolled back.
    Cancelled,
    /// The handler failed, or the database in a way that the handler must have caused. Rolled back, or, with
    /// `commit_unknown`, perhaps committed.
    Failed(Failure),
    /// The database failed in a way that passes. Rolled back, or, with `commit_unknown`, perhaps committed.
    Disturbed(ErrorClass),
}

/// What a handler did to its transaction without saying so.
#[derive(Debug, thiserror::Error)]
enum Misuse {
    #[error(
        "the handler ignored an error that had aborted its transaction, so there was nothing to commit; let it return \
         the error, or run the statement in a savepoint"
    )]
    IgnoredError(#[source] sqlx::Error),
    #[error("the handler was not done within its time-out of {0:?} and was cancelled")]
    TooSlow(Duration),
}

impl<DB: WorkerSql, H: Handler<DB>> Dispatch<DB, H> {
    pub(super) async fn attempt(&self, job: &mut Job) -> Outcome {
        let (turnstile, cancel) = (std::sync::Arc::clone(&job.turnstile), job.cancel.clone());
        let entering = async {
            let pass = turnstile.read().await;
            let mut tx = self.progress.begin().await?;
            let entry = self.progress.enter(&mut tx, job.record.source(), job.epoch, job.record.offset()).await?;
            Ok((pass, tx, entry))
        };
        let entered = tokio::select! {
            biased;
            () = cancel.cancelled() => return Outcome::Cancelled,
            entered = entering => entered,
        };
        let (_pass, mut tx) = match entered {
            Ok((pass, tx, Entry::Entered)) => (pass, tx),
            Ok((_, _, Entry::AlreadyDone)) => return Outcome::AlreadyDone,
            Ok((_, _, Entry::Fenced)) => return Outcome::Fenced,
            Err(error) => return failed_or_disturbed::<DB>(error),
        };
        let began = Instant::now();
        if let Some(outcome) = self.handle(job, &mut tx).await {
            return outcome;
        }
        let held = began.elapsed();
        match self.progress.commit(tx).await {
            Ok(()) => Outcome::Committed,
            Err(error) => {
                // The next attempt's fence finds out which it was.
                job.commit_unknown |= classify::<DB>(&error).leaves_commit_unknown();
                if DB::is_aborted(&error) {
                    Outcome::Failed(Misuse::IgnoredError(error).into())
                } else if self.is_the_handlers(&error, held) {
                    Outcome::Failed(error.into())
                } else {
                    failed_or_disturbed::<DB>(error)
                }
            }
        }
    }

    /// Runs the handler; answers how the attempt ended, unless it may be committed.
    async fn handle(&self, job: &Job, tx: &mut Transaction<'_, DB>) -> Option<Outcome> {
        let (began, limit) = (Instant::now(), self.settings.handler_timeout);
        let handled = timeout(limit, AssertUnwindSafe(self.handler.handle(&job.record, tx)).catch_unwind());
        let handled = tokio::select! {
            biased;
            () = job.cancel.cancelled() => return Some(Outcome::Cancelled),
            handled = handled => handled,
        };
        let failure = match handled {
            Ok(Ok(Ok(()))) => return None,
            Ok(Ok(Err(failure))) => failure,
            Ok(Err(_panic)) => Failure::retry("the handler panicked"),
            Err(_) => Failure::from(Misuse::TooSlow(limit)),
        };
        let disturbed = failure.database_error().filter(|error| !self.is_the_handlers(error, began.elapsed()));
        let class = disturbed.map(classify::<DB>).filter(|class| class.is_retryable() && !failure.is_permanent());
        Some(class.map_or(Outcome::Failed(failure), Outcome::Disturbed))
    }

    /// Whether the handler has brought the error about, and so might for ever: its statements take too long, or it lets
    /// its transaction, held for so long, sit until the server ends it.
    fn is_the_handlers(&self, error: &sqlx::Error, held: Duration) -> bool {
        match classify::<DB>(error) {
            ErrorClass::StatementTimeout => true,
            ErrorClass::ConnectionLost => is_ended_for_its_time(error) || held >= self.progress.timeouts().idle,
            _ => false,
        }
    }
}

/// `idle_in_transaction_session_timeout` and `transaction_timeout` (PostgreSQL's manual, Appendix A).
fn is_ended_for_its_time(error: &sqlx::Error) -> bool {
    has_code(error, &["25P03", "25P04"])
}

fn has_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| codes.contains(&&*code))
}

fn failed_or_disturbed<DB: WorkerSql>(error: sqlx::Error) -> Outcome {
    match classify::<DB>(&error) {
        class if class.is_retryable() => Outcome::Disturbed(class),
        _ => Outcome::Failed(error.into()),
    }
}
