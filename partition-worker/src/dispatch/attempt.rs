//! One attempt of a handler, from `BEGIN` to `COMMIT`.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use sqlx::Transaction;
use tokio::time::Instant;

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
    /// The handler failed, or the database in a way that the handler must have caused. Rolled back.
    Failed(Failure),
    /// The database failed in a way that passes. Rolled back, or, with `commit_unknown`, perhaps committed.
    Disturbed(ErrorClass),
}

impl<DB: WorkerSql, H: Handler<DB>> Dispatch<DB, H> {
    pub(super) async fn attempt(&self, job: &mut Job) -> Outcome {
        let turnstile = std::sync::Arc::clone(&job.turnstile);
        let _pass = turnstile.read().await;
        let mut tx = match self.progress.begin().await {
            Ok(tx) => tx,
            Err(error) => return failed_or_disturbed::<DB>(error),
        };
        let (partition, offset) = (job.record.source(), job.record.offset());
        match self.progress.enter(&mut tx, partition, job.epoch, offset).await {
            Ok(Entry::Entered) => {}
            Ok(Entry::AlreadyDone) => return Outcome::AlreadyDone,
            Ok(Entry::Fenced) => return Outcome::Fenced,
            Err(error) => return failed_or_disturbed::<DB>(error),
        }
        if let Some(outcome) = self.handle(job, &mut tx).await {
            return outcome;
        }
        match tx.commit().await {
            Ok(()) => Outcome::Committed,
            Err(error) => {
                // The next attempt's fence finds out which it was.
                job.commit_unknown |= classify::<DB>(&error).leaves_commit_unknown();
                failed_or_disturbed::<DB>(error)
            }
        }
    }

    /// Runs the handler; answers how the attempt ended, unless it may be committed.
    async fn handle(&self, job: &Job, tx: &mut Transaction<'_, DB>) -> Option<Outcome> {
        let began = Instant::now();
        let handled = AssertUnwindSafe(self.handler.handle(&job.record, tx)).catch_unwind();
        let handled = tokio::select! {
            biased;
            () = job.cancel.cancelled() => return Some(Outcome::Cancelled),
            handled = handled => handled,
        };
        let failure = match handled {
            Ok(Ok(())) => return None,
            Ok(Err(failure)) => failure,
            Err(_panic) => Failure::retry("the handler panicked"),
        };
        let class = failure.database_error().map(classify::<DB>);
        // A handler that lets its transaction sit until the server ends it would do so for ever.
        let sat_too_long =
            class == Some(ErrorClass::ConnectionLost) && began.elapsed() >= self.progress.timeouts().idle;
        match class.filter(|class| class.is_retryable() && !failure.is_permanent() && !sat_too_long) {
            Some(class) => Some(Outcome::Disturbed(class)),
            None => Some(Outcome::Failed(failure)),
        }
    }
}

fn failed_or_disturbed<DB: WorkerSql>(error: sqlx::Error) -> Outcome {
    match classify::<DB>(&error) {
        class if class.is_retryable() => Outcome::Disturbed(class),
        _ => Outcome::Failed(error.into()),
    }
}
