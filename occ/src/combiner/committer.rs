//! The task that turns what has arrived into transactions.

use std::collections::VecDeque;
use std::sync::Arc;

use leastlock_core::classify;
use sqlx::Pool;

use super::apply::Apply;
use super::attempt::Attempt;
use super::builder::Limits;
use super::error::{BatchError, CombineError, Remedy};
use super::fate::{self, Fate};
use super::group::Group;
use super::kept::{Begins, Kept};
use super::queue::{Arrivals, Ending};
use super::sql::CombinerSql;
use crate::measure::{self, BatchAttempt};

/// Takes what has arrived, applies it, answers it, and begins again.
pub(super) struct Committer<DB: CombinerSql, A: Apply<DB>> {
    pub(super) pool: Pool<DB>,
    pub(super) apply: Arc<A>,
    pub(super) arrivals: Arc<Arrivals<A::Operation, A::Answer>>,
    pub(super) ending: Ending,
    pub(super) limits: Limits,
    pub(super) begins: Begins,
}

/// What is still to be done for the operations of one gathering, in the order of arrival.
type Work<O, A> = VecDeque<Group<O, A>>;

impl<DB: CombinerSql, A: Apply<DB>> Committer<DB, A> {
    pub(super) async fn run(self) {
        let mut gathered = Vec::new();
        // Kept from one batch to the next, and given back when there is nothing to do.
        let mut connection: Option<Kept<DB>> = None;
        loop {
            if connection.is_some() {
                let arrival = self.arrivals.gather(&self.ending, &mut gathered);
                if tokio::time::timeout(self.limits.keep_connection, arrival).await.is_err() {
                    self.give_back(connection.take()).await;
                    continue;
                }
            } else {
                self.arrivals.gather(&self.ending, &mut gathered).await;
            }
            if gathered.is_empty() {
                return self.give_back(connection.take()).await;
            }
            measure::batch_taken(gathered.len());
            let mut work = Work::from([Group::of(gathered.drain(..))]);
            while let Some(group) = work.pop_front() {
                self.settle(group, &mut connection, &mut work).await;
            }
        }
    }

    async fn give_back(&self, connection: Option<Kept<DB>>) {
        if let Some(connection) = connection {
            // One that does not answer in time is closed instead.
            let _ = self.bounded(connection.give_back()).await;
        }
    }

    /// One attempt at a group; what is left to do goes to the front of `work`.
    async fn settle(
        &self,
        mut group: Group<A::Operation, A::Answer>,
        connection: &mut Option<Kept<DB>>,
        work: &mut Work<A::Operation, A::Answer>,
    ) {
        if !group.prepare() {
            return;
        }
        let measured = BatchAttempt::begin();
        match self.attempt(connection, &mut group.batch).await {
            Attempt::Done => {
                measured.committed();
                group.answer();
            }
            Attempt::BrokenOff => group.fail(&CombineError::Closed),
            Attempt::RolledBack(error) => self.rolled_back(group, error, work).await,
            Attempt::Unreached(error) => {
                group.failed_because(&error);
                self.try_again(group, error, work).await;
            }
            Attempt::Unanswered => {
                let transaction = group.batch.transaction();
                tracing::debug!(target: "leastlock_occ", "the reply to a commit was lost; looking up what became of it");
                match fate::of(&self.pool, transaction, self.limits.lookup_time, &self.ending.halt).await {
                    Fate::Committed => group.answer(),
                    Fate::Aborted => self.rolled_back(group, BatchError::Database { source: lost() }, work).await,
                    Fate::Unknown => {
                        let again = group.doubt(|operation| self.apply.absorbs_repeats(operation));
                        if self.ending.halt.is_cancelled() || again.failed >= self.limits.attempts {
                            again.fail(&CombineError::Unknown);
                        } else {
                            measure::batch_repeated(again.len());
                            work.push_front(again);
                        }
                    }
                }
            }
        }
    }

    /// Nothing of the group was applied: it is tried again, split, or told why.
    async fn rolled_back(
        &self,
        mut group: Group<A::Operation, A::Answer>,
        error: BatchError,
        work: &mut Work<A::Operation, A::Answer>,
    ) {
        group.failed_because(&error);
        let remedy = error.remedy(classify::<DB>);
        tracing::debug!(target: "leastlock_occ", operations = group.len(), attempt = group.failed, ?remedy, "a batch was rolled back");
        let is_to_split = match remedy {
            Remedy::TryAgain => false,
            // By the second time, what came between at the first is seen.
            Remedy::TryAgainThenIsolate => group.raced > 1,
            Remedy::Isolate | Remedy::IsolateThenTryAgain => true,
        };
        match remedy {
            _ if is_to_split && group.len() > 1 => {
                measure::batch_split();
                let [earlier, later] = group.split();
                work.push_front(later);
                work.push_front(earlier);
            }
            Remedy::Isolate => group.fail_because(error),
            Remedy::TryAgain | Remedy::TryAgainThenIsolate | Remedy::IsolateThenTryAgain => {
                self.try_again(group, error, work).await;
            }
        }
    }

    /// The whole group once more, after a pause, unless it was tried as often as it may be.
    async fn try_again(
        &self,
        group: Group<A::Operation, A::Answer>,
        error: BatchError,
        work: &mut Work<A::Operation, A::Answer>,
    ) {
        if group.failed >= self.limits.attempts {
            return group.fail_because(error);
        }
        let pause = match error {
            BatchError::Raced => std::time::Duration::ZERO,
            _ => self.limits.backoff.delay(group.failed - 1),
        };
        match self.ending.halt.run_until_cancelled(tokio::time::sleep(pause)).await {
            Some(()) => {
                measure::batch_retried::<DB>(&error);
                work.push_front(group);
            }
            None => group.fail(&CombineError::Closed),
        }
    }
}

/// The commit that never arrived.
fn lost() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into())
}
