//! The task that turns what has arrived into transactions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leastlock_core::{ErrorClass, classify};
use sqlx::Pool;
use tokio::time::Instant;

use super::apply::Apply;
use super::aside::Aside;
use super::attempt::Attempt;
use super::builder::Limits;
use super::error::{BatchError, CombineError, Remedy};
use super::fate::{self, Fate};
use super::group::Group;
use super::kept::{Begins, Kept};
use super::queue::{Arrivals, Ending, Gathered};
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

/// What is still to be done.
struct Work<O, A> {
    /// Of one gathering, in the order of arrival.
    now: VecDeque<Group<O, A>>,
    /// What was found to wait.
    aside: Aside<O, A>,
}

impl<DB: CombinerSql, A: Apply<DB>> Committer<DB, A> {
    pub(super) async fn run(self) {
        let mut gathered = Vec::new();
        // Kept from one batch to the next, and given back when there is nothing to do.
        let mut connection: Option<Kept<DB>> = None;
        let mut work = Work { now: VecDeque::new(), aside: Aside::new(self.limits.queue) };
        loop {
            let keep = connection.is_some().then(|| Instant::now() + self.limits.keep_connection);
            let until = keep.into_iter().chain(work.aside.due()).min();
            match self.arrivals.gather(&self.ending, &mut gathered, until).await {
                Gathered::Arrived => {
                    measure::batch_taken(gathered.len());
                    self.finish(Group::of(gathered.drain(..)), &mut connection, &mut work).await;
                }
                Gathered::Late if !work.aside.is_due() => self.give_back(connection.take()).await,
                Gathered::Late => {}
                Gathered::Ended => {
                    if let Some(due) = work.aside.due() {
                        let due = tokio::time::sleep_until(due);
                        self.ending.discard.run_until_cancelled(due).await;
                    }
                    if self.ending.discard.is_cancelled() {
                        work.aside.fail(&CombineError::Closed);
                    }
                    if work.aside.is_empty() {
                        return self.give_back(connection.take()).await;
                    }
                }
            }
            // After what has arrived since, so that it holds up nobody twice in a row.
            if work.aside.is_due() && !self.ending.discard.is_cancelled() {
                let waiting = work.aside.take(self.limits.batch);
                self.finish(waiting, &mut connection, &mut work).await;
            }
        }
    }

    /// Answers every operation of `group` or sets it aside.
    async fn finish(
        &self,
        group: Group<A::Operation, A::Answer>,
        connection: &mut Option<Kept<DB>>,
        work: &mut Work<A::Operation, A::Answer>,
    ) {
        work.now.push_front(group);
        while let Some(group) = work.now.pop_front() {
            self.settle(group, connection, work).await;
        }
    }

    async fn give_back(&self, connection: Option<Kept<DB>>) {
        if let Some(connection) = connection {
            // One that does not answer in time is closed instead.
            let _ = self.bounded(connection.give_back()).await;
        }
    }

    /// One attempt at a group; what is left to do goes to the front of `work`, or aside.
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
        match self.attempt(connection, &mut group.batch, group.halvings).await {
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
                            work.now.push_front(again);
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
            Remedy::Isolate | Remedy::IsolateThenSetAside => true,
        };
        match remedy {
            _ if is_to_split && group.len() > 1 => {
                measure::batch_split();
                let waited = error.class(classify::<DB>) == Some(ErrorClass::LockTimeout);
                let [earlier, later] = if waited { group.split_sharing_the_wait() } else { group.split() };
                work.now.push_front(later);
                work.now.push_front(earlier);
            }
            Remedy::IsolateThenSetAside if !group.is_used_up(self.limits.attempts) && !work.aside.is_full() => {
                measure::batch_retried::<DB>(&error);
                let pause = self.limits.backoff.delay(group.attempts() - 1);
                work.aside.put(group, pause);
            }
            Remedy::Isolate | Remedy::IsolateThenSetAside => group.fail_because(error),
            Remedy::TryAgain | Remedy::TryAgainThenIsolate => self.try_again(group, error, work).await,
        }
    }

    /// The whole group once more, after a pause, unless it was tried as often as it may be.
    async fn try_again(
        &self,
        group: Group<A::Operation, A::Answer>,
        error: BatchError,
        work: &mut Work<A::Operation, A::Answer>,
    ) {
        if group.is_used_up(self.limits.attempts) {
            return group.fail_because(error);
        }
        let pause = match error {
            BatchError::Raced => Duration::ZERO,
            _ => self.limits.backoff.delay(group.failed - 1),
        };
        match self.ending.halt.run_until_cancelled(tokio::time::sleep(pause)).await {
            Some(()) => {
                measure::batch_retried::<DB>(&error);
                work.now.push_front(group);
            }
            None => group.fail(&CombineError::Closed),
        }
    }
}

/// The commit that never arrived.
fn lost() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into())
}
