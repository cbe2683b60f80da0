//! What the ways into the database have in common: taking over, the handler's transaction, and folding.

use std::sync::Arc;
use std::time::Duration;

use sqlx::error::DatabaseError;
use tokio::sync::RwLockReadGuard;

use leastlock_core::{Backoff, ErrorClass, classify};

use super::{Disturbance, Job, Origin, Outcome, Tenure};
use crate::error::Error;
use crate::handler::Failure;
use crate::own_transaction::OwnTransaction;
use crate::partition::TopicPartition;
use crate::polling::Start;
use crate::progress::{Entry, Progress, Seal, Sealed};
use crate::runs::Runs;
use crate::sql::WorkerSql;

/// The database as a worker uses it.
pub(crate) struct Database<DB: WorkerSql> {
    pub(crate) progress: Progress<DB>,
    pub(crate) origin: Origin,
    pub(crate) backoff: Backoff,
    pub(crate) handler_timeout: Duration,
}

/// A transaction that a fence is to let in; no fold runs beside it.
pub(super) struct Begun<'a, DB: WorkerSql> {
    pub(super) tx: OwnTransaction<DB>,
    _pass: RwLockReadGuard<'a, ()>,
}

/// What a handler did to its transaction without saying so.
#[derive(Debug, thiserror::Error)]
#[error(
    "the handler ignored an error that had aborted its transaction, so there was nothing to commit; let it return \
     the error, or run the statement in a savepoint"
)]
struct IgnoredError(#[source] sqlx::Error);

impl<DB: WorkerSql> Database<DB> {
    /// Seals a partition, from the first step again for as long as the database fails in a way that passes: after an anchor
    /// whose reply was lost, the seal answers what was fixed.
    pub(super) async fn seal(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        let mut attempt = 0;
        loop {
            match self.try_seal(partition).await {
                Err(error) if error.is_retryable::<DB>() => {
                    tracing::warn!(%partition, %error, attempt, "a partition is sealed again");
                    tokio::time::sleep(self.backoff.delay(attempt)).await;
                    attempt = attempt.saturating_add(1);
                }
                sealed => return sealed,
            }
        }
    }

    async fn try_seal(&self, partition: &TopicPartition) -> Result<Option<Start>, Error> {
        let failed = |operation| {
            let partition = partition.clone();
            move |source| Error::Database { operation, partition, source }
        };
        let Seal::Sealed(sealed) = self.progress.seal(partition).await.map_err(failed("sealing"))? else {
            tracing::warn!(%partition, "another worker has sealed this partition meanwhile; it is not taken");
            return Ok(None);
        };
        let Sealed { epoch, next_offset, topic_id, finished, blockers: _ } = sealed;
        if !self.recognises(partition, epoch, topic_id).await? {
            return Ok(None);
        }
        let finished: Runs = finished.into_iter().collect();
        if let Some(offset) = next_offset {
            self.origin.reaches(partition, offset).await?;
            tracing::debug!(%partition, %epoch, offset, runs = finished.runs(), "sealed");
            return Ok(Some(Start { epoch, offset, finished }));
        }
        let offset = self.origin.find(partition).await.offset;
        let anchored = self.progress.anchor(partition, epoch, offset).await.map_err(failed("anchoring"))?;
        tracing::debug!(%partition, %epoch, offset, anchored, "sealed for the first time");
        Ok(anchored.then_some(Start { epoch, offset, finished }))
    }

    /// Finishes a record without its handler: the fence alone.
    pub(super) async fn give_up(&self, job: &mut Job) -> Outcome {
        let tenure = Arc::clone(&job.tenure);
        let begun = match self.let_in(&tenure, job).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Outcome::Done,
            Err(outcome) => return outcome,
        };
        self.commit(begun, Duration::ZERO, std::slice::from_mut(job)).await
    }

    /// Begins the transaction of one record's handler, and has the fence let it in; `None`: the record is finished.
    pub(super) async fn let_in<'a>(&self, tenure: &'a Tenure, job: &mut Job) -> Result<Option<Begun<'a, DB>>, Outcome> {
        let entering = async {
            let mut begun = self.begin(tenure).await?;
            let (partition, offset) = (job.record.source(), job.record.offset());
            let entry = self.progress.enter(&mut begun.tx, partition, tenure.epoch, offset).await?;
            Ok((begun, entry))
        };
        let (begun, entry) = self.while_owned(tenure, entering).await?;
        job.found_done = entry == Entry::AlreadyDone;
        match entry {
            Entry::Entered => Ok(Some(begun)),
            Entry::AlreadyDone => Ok(None),
            Entry::Fenced => Err(Outcome::Fenced),
        }
    }

    pub(super) async fn begin<'a>(&self, tenure: &'a Tenure) -> Result<Begun<'a, DB>, sqlx::Error> {
        let pass = tenure.turnstile.read().await;
        Ok(Begun { tx: self.progress.begin().await?, _pass: pass })
    }

    /// What the database answers, unless the partition is lost before.
    pub(super) async fn while_owned<T>(
        &self,
        tenure: &Tenure,
        request: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, Outcome> {
        tokio::select! {
            biased;
            () = tenure.cancel.cancelled() => Err(Outcome::Cancelled),
            answer = request => answer.map_err(failed_or_disturbed::<DB>),
        }
    }

    /// How an attempt ended whose handler failed after so long a time.
    pub(super) fn judge(&self, failure: Failure, took: Duration) -> Outcome {
        let disturbed = failure.database_error().filter(|error| !self.is_the_handlers(error, took));
        let class = disturbed.map(classify::<DB>).filter(|class| class.is_retryable() && !failure.is_permanent());
        class.map_or_else(|| Outcome::failed(failure), disturbed_by)
    }

    /// Commits what a handler did that held its transaction for so long a time.
    pub(super) async fn commit(&self, begun: Begun<'_, DB>, held: Duration, hand: &mut [Job]) -> Outcome {
        let Err(error) = self.progress.commit(begun.tx).await else { return Outcome::Done };
        // The next attempt's fence finds out which it was.
        let unknown = classify::<DB>(&error).leaves_commit_unknown();
        for job in hand {
            job.commit_unknown |= unknown;
        }
        if DB::is_aborted(&error) {
            Outcome::failed(IgnoredError(error))
        } else if self.is_the_handlers(&error, held) {
            Outcome::failed(error)
        } else {
            failed_or_disturbed::<DB>(error)
        }
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
        class if class.is_retryable() => disturbed_by(class),
        _ => Outcome::failed(error),
    }
}

const fn disturbed_by(class: ErrorClass) -> Outcome {
    Outcome::Disturbed(Disturbance::Database(class))
}
