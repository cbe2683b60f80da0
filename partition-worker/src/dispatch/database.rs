//! What the ways into the database have in common: taking over, the handler's transaction, and folding.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Transaction;
use sqlx::error::DatabaseError;
use tokio::sync::RwLockReadGuard;

use leastlock_core::{Backoff, ErrorClass, classify};

use super::failed::{MAX_PARKED, NotStarted};
use super::memory::Parted;
use super::seat::Seat;
use super::{Course, Disturbance, Failures, GivenUp, GroupStart, Job, Outcome, Tenure};
use crate::error::Error;
use crate::handler::Failure;
use crate::on_failure::OnFailure;
use crate::own_transaction::OwnTransaction;
use crate::parked::{Copied, Due, Park, Parking};
use crate::partition::{Epoch, TopicPartition};
use crate::poison::Suspects;
use crate::polling::Start;
use crate::progress::{Entry, Progress, Seal, Sealed, answered};
use crate::sql::WorkerSql;

mod remembered;

/// The database as a worker uses it.
pub(crate) struct Database<DB: WorkerSql> {
    pub(crate) progress: Progress<DB>,
    pub(crate) origin: GroupStart,
    pub(crate) backoff: Backoff,
    pub(crate) handler_timeout: Duration,
    pub(crate) parking: Parking<DB>,
    pub(crate) suspects: Suspects<DB>,
    /// As many records as an owner can have been handling when it died.
    pub(crate) held: u64,
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
        if let Some(offset) = next_offset {
            self.origin.reaches(partition, offset).await?;
            tracing::debug!(%partition, %epoch, offset, runs = finished.runs(), "sealed");
            let failures = self.failures(partition, epoch).await.map_err(failed("reading the failed records"))?;
            return Ok(Some(Start { epoch, offset, finished, failures }));
        }
        let offset = self.origin.find(partition).await.offset;
        let anchored = self.progress.anchor(partition, epoch, offset).await.map_err(failed("anchoring"))?;
        tracing::debug!(%partition, %epoch, offset, anchored, "sealed for the first time");
        if !anchored {
            return Ok(None);
        }
        let failures = self.failures(partition, epoch).await.map_err(failed("reading the failed records"))?;
        Ok(Some(Start { epoch, offset, finished, failures }))
    }

    /// What there is of failed records for the owner of this epoch.
    async fn failures(&self, partition: &TopicPartition, epoch: Epoch) -> Result<Failures, sqlx::Error> {
        let within = self.progress.timeouts().request;
        // Those that were about to be parked when the last one was may have gone beyond it.
        let limit = u32::try_from(2 * MAX_PARKED).unwrap_or(u32::MAX);
        let parked = answered(within, self.parking.queues(partition, limit)).await?;
        let suspects = answered(within, self.suspects.begin(partition, epoch, self.held)).await?;
        Ok(Failures { parked, begun: self.begun(partition, epoch, suspects.suspects), suspects })
    }

    /// If the partition is taken away before anything of it has started, that is an orderly end too.
    fn begun(&self, partition: &TopicPartition, epoch: Epoch, left: u64) -> NotStarted {
        let (suspects, partition, within) =
            (self.suspects.clone(), partition.clone(), self.progress.timeouts().request);
        NotStarted::new(async move {
            if let Err(error) = answered(within, suspects.end(&partition, epoch, left)).await {
                tracing::debug!(%partition, %error, "it could not be noted that nothing of the partition was started");
            }
        })
    }

    /// Finishes a record without its handler: what the policy leaves to do in the database, and the fence.
    pub(super) async fn give_up(&self, job: &mut Job) -> Outcome {
        let tenure = Arc::clone(&job.tenure);
        let mut begun = match self.let_in(&tenure, job, None).await {
            Ok(Some(begun)) => begun,
            Ok(None) => return Outcome::Done,
            Err(outcome) => return outcome,
        };
        match self.while_owned(&tenure, self.note_given_up(&mut begun.tx, job)).await {
            Ok(true) => self.commit(begun, Duration::ZERO, std::slice::from_mut(job)).await,
            Ok(false) => Outcome::NotParked,
            Err(outcome) => outcome,
        }
    }

    /// `false`: the record was to follow a key that is not parked any more.
    async fn note_given_up(&self, tx: &mut Transaction<'_, DB>, job: &Job) -> Result<bool, sqlx::Error> {
        let partition = job.record.source();
        let copy = job.copied.map(|(parking_partition, parking_offset)| Copied {
            offset: job.record.offset(),
            parking_partition,
            parking_offset,
            attempts: job.attempts,
        });
        match (&job.course, copy) {
            (Course::Follow { queue, .. }, Some(copy))
                if !self.parking.follow(tx, partition, *queue, &copy).await? =>
            {
                return Ok(false);
            }
            (Course::GiveUp(given), Some(copy)) => {
                if let OnFailure::ParkKey(topic) = &given.policy {
                    let ((queue, blocks), key) = (GivenUp::queue(job), job.record.key());
                    let (cause, reason) = (given.cause, given.reason.as_str());
                    let park = Park { queue, key, blocks, parking_topic: topic, cause, reason };
                    self.parking.park(tx, partition, &park, &copy).await?;
                }
            }
            _ => {}
        }
        if job.suspect.is_some() {
            self.suspects.cleared(tx, partition, job.record.offset()).await?;
        }
        Ok(true)
    }

    /// Begins the transaction of a record that leaves a released queue; `None`: it has left.
    pub(super) async fn let_out<'a>(
        &self,
        tenure: &'a Tenure,
        partition: &TopicPartition,
        parted: &Parted<'_>,
    ) -> Result<Option<Begun<'a, DB>>, Outcome> {
        let leaving = async {
            let mut begun = self.begin(tenure, None).await?;
            if !self.progress.hold(&mut begun.tx, partition, tenure.epoch).await? {
                return Ok((begun, None));
            }
            let due = self.parking.take(&mut begun.tx, partition, parted.queue, parted.offset).await?;
            if parted.suspect {
                self.suspects.cleared(&mut begun.tx, partition, parted.offset).await?;
            }
            Ok((begun, Some(due)))
        };
        match self.while_owned(tenure, leaving).await? {
            (begun, Some(Due::Now)) => Ok(Some(begun)),
            (_, Some(Due::Gone)) => Ok(None),
            (_, Some(Due::NotReleased)) => Err(Outcome::Cancelled),
            (_, None) => Err(Outcome::Fenced),
        }
    }

    /// Begins a transaction of the owner's about its partition.
    async fn hold<'a>(&self, tenure: &'a Tenure, partition: &TopicPartition) -> Result<Begun<'a, DB>, Outcome> {
        let holding = async {
            let mut begun = self.begin(tenure, None).await?;
            let is_owner = self.progress.hold(&mut begun.tx, partition, tenure.epoch).await?;
            Ok(is_owner.then_some(begun))
        };
        self.while_owned(tenure, holding).await?.ok_or(Outcome::Fenced)
    }

    /// Begins the transaction of one record's handler, and has the fence let it in; `None`: the record is finished.
    pub(super) async fn let_in<'a>(
        &self,
        tenure: &'a Tenure,
        job: &mut Job,
        kept: Option<OwnTransaction<DB>>,
    ) -> Result<Option<Begun<'a, DB>>, Outcome> {
        let entering = async {
            let mut begun = self.begin(tenure, kept).await?;
            let (partition, offset) = (job.record.source(), job.record.offset());
            let entry = self.progress.enter(&mut begun.tx, partition, tenure.epoch, offset).await?;
            if job.suspect.is_some() && matches!(job.course, Course::Handle) {
                self.suspects.cleared(&mut begun.tx, partition, offset).await?;
            }
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

    /// Begins a transaction, or goes on with the one that was kept; unless a fold has to be waited for, which may need its
    /// connection.
    pub(super) async fn begin<'a>(
        &self,
        tenure: &'a Tenure,
        kept: Option<OwnTransaction<DB>>,
    ) -> Result<Begun<'a, DB>, sqlx::Error> {
        if let (Some(tx), Ok(pass)) = (kept, tenure.turnstile.try_read()) {
            return Ok(Begun { tx, _pass: pass });
        }
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
        match self.progress.commit(begun.tx).await {
            Ok(()) => Outcome::Done,
            Err(error) => self.not_committed(error, held, hand),
        }
    }

    /// The same with what the handler did to one record, and keeps the connection for the next if it may.
    pub(super) async fn commit_and_keep(
        &self,
        begun: Begun<'_, DB>,
        held: Duration,
        job: &mut Job,
        seat: &mut Seat<DB>,
    ) -> Outcome {
        if !seat.may_keep(self.progress.pool()) {
            return self.commit(begun, held, std::slice::from_mut(job)).await;
        }
        match self.progress.commit_and_begin(begun.tx).await {
            Ok(next) => {
                seat.keep(next);
                Outcome::Done
            }
            Err(error) => self.not_committed(error, held, std::slice::from_mut(job)),
        }
    }

    fn not_committed(&self, error: sqlx::Error, held: Duration, hand: &mut [Job]) -> Outcome {
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
