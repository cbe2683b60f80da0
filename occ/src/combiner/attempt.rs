//! One transaction: begin, apply, commit.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use futures_util::FutureExt;
use leastlock_core::{ErrorClass, Statement, classify};
use sqlx::{Connection, Transaction};
use tokio::time::timeout;

use super::apply::Apply;
use super::batch::Batch;
use super::committer::Committer;
use super::error::BatchError;
use super::kept::Kept;
use super::sql::CombinerSql;
use crate::error::Error;
use crate::measure;

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The answers stand.
    Done,
    /// Nothing was applied.
    RolledBack(BatchError),
    /// Nothing was applied: there was no connection to be had, which is no operation's fault.
    Unreached(BatchError),
    /// Nothing was applied, because the combiner was told to end.
    BrokenOff,
    /// The commit was sent, and what became of it is not known.
    Unanswered,
}

/// The part of an attempt after which nothing but the commit is missing.
enum Applied<'c, DB: CombinerSql> {
    ToCommit(Transaction<'c, DB>),
    WroteNothing(Transaction<'c, DB>),
    Failed(Option<Transaction<'c, DB>>, BatchError),
}

impl<DB: CombinerSql, A: Apply<DB>> Committer<DB, A> {
    /// Applies the batch in a transaction of its own, on the connection that was kept or on one of the pool. A wait for a lock is
    /// halved `halvings` times.
    pub(super) async fn attempt(
        &self,
        kept: &mut Option<Kept<DB>>,
        batch: &mut Batch<A::Operation, A::Answer>,
        halvings: u32,
    ) -> Attempt {
        let mut connection = match kept.take() {
            Some(connection) => connection,
            None => match self.bounded(Kept::acquire(&self.pool, &self.begins)).await {
                Ok(Ok(connection)) => connection,
                Ok(Err(error)) => return Attempt::Unreached(error.into()),
                Err(Attempt::BrokenOff) => return Attempt::BrokenOff,
                Err(_) => return Attempt::Unreached(sqlx::Error::PoolTimedOut.into()),
            },
        };
        let (attempt, is_sound) = self.attempt_on(&mut connection, batch, halvings).await;
        if is_sound {
            *kept = Some(connection);
        } else {
            connection.close();
        }
        attempt
    }

    /// Answers as well whether the connection is known to be out of the transaction and ready for the next statement.
    async fn attempt_on(
        &self,
        connection: &mut Kept<DB>,
        batch: &mut Batch<A::Operation, A::Answer>,
        halvings: u32,
    ) -> (Attempt, bool) {
        // What was split for a lock would wait for it here as long as the whole did.
        if batch.attempt() == 1
            && halvings == 0
            && let Some(ended) = self.at_once(connection, batch).await
        {
            return ended;
        }
        let (ending, attempt) = match self.bounded(self.applied(connection, batch, halvings)).await {
            Ok(Applied::ToCommit(tx)) => {
                return match measure::commit(self.bounded(tx.commit())).await {
                    Ok(Ok(())) => (Attempt::Done, true),
                    Ok(Err(error)) if !classify::<DB>(&error).leaves_commit_unknown() => {
                        (Attempt::RolledBack(error.into()), false)
                    }
                    Ok(Err(_)) | Err(_) => (Attempt::Unanswered, false),
                };
            }
            Ok(Applied::WroteNothing(tx)) => (tx, Attempt::Done),
            Ok(Applied::Failed(Some(tx), error)) => (tx, Attempt::RolledBack(error)),
            Ok(Applied::Failed(None, error)) => return (Attempt::RolledBack(error), false),
            Err(attempt) => return (attempt, false),
        };
        (attempt, matches!(self.bounded(ending.rollback()).await, Ok(Ok(()))))
    }

    /// The first attempt, in one statement. `None` if the batch is still to be applied.
    async fn at_once(
        &self,
        connection: &mut Kept<DB>,
        batch: &mut Batch<A::Operation, A::Answer>,
    ) -> Option<(Attempt, bool)> {
        let Ok(connection) = connection.connection() else { return None };
        let (operations, is_begun) = (batch.operations(), AtomicBool::new(false));
        let applying = async {
            is_begun.store(true, Relaxed);
            self.apply.apply_at_once(connection, operations).await
        };
        match self.bounded(AssertUnwindSafe(applying).catch_unwind()).await {
            Ok(Ok(Ok(Some(answers)))) => {
                batch.answer_each(answers);
                Some((Attempt::Done, true))
            }
            Ok(Ok(Err(error))) if error.leaves_commit_unknown(classify::<DB>, DB::ENGINE) => {
                Some((Attempt::Unanswered, false))
            }
            // The combiner had been told to end before, so that nothing was sent.
            Err(attempt) if !is_begun.into_inner() => Some((attempt, true)),
            // A panic may have come while a reply was awaited.
            Ok(Err(_)) | Err(_) => Some((Attempt::Unanswered, false)),
            Ok(Ok(Ok(None) | Err(_))) => None,
        }
    }

    /// Waits for `step` within the limit of an attempt, unless the combiner is told to end.
    pub(super) async fn bounded<F: Future>(&self, step: F) -> Result<F::Output, Attempt> {
        match self.ending.halt.run_until_cancelled(timeout(self.limits.attempt_time, step)).await {
            Some(Ok(output)) => Ok(output),
            Some(Err(_)) => Err(Attempt::RolledBack(BatchError::TimedOut)),
            None => Err(Attempt::BrokenOff),
        }
    }

    async fn applied<'c>(
        &self,
        connection: &'c mut Kept<DB>,
        batch: &mut Batch<A::Operation, A::Answer>,
        halvings: u32,
    ) -> Applied<'c, DB> {
        let begin = match connection.begin(&self.begins, halvings).await {
            Ok(begin) => begin,
            Err(error) => return Applied::Failed(None, error.into()),
        };
        let connection = match connection.connection() {
            Ok(connection) => connection,
            Err(error) => return Applied::Failed(None, error.into()),
        };
        let mut tx = match Connection::begin_with(connection, begin).await {
            Ok(tx) => tx,
            Err(error) => return Applied::Failed(None, error.into()),
        };
        match self.apply_and_name(&mut tx, batch).await {
            Ok(()) if batch.has_written() => Applied::ToCommit(tx),
            Ok(()) => Applied::WroteNothing(tx),
            Err(error) => Applied::Failed(Some(tx), error),
        }
    }

    async fn apply_and_name(
        &self,
        tx: &mut Transaction<'_, DB>,
        batch: &mut Batch<A::Operation, A::Answer>,
    ) -> Result<(), BatchError> {
        let applying = AssertUnwindSafe(self.apply.apply(tx, batch)).catch_unwind();
        applying.await.unwrap_or_else(|panic| Err(BatchError::Panicked { message: message_of(&*panic) }))?;
        if let Some(index) = batch.unanswered() {
            return Err(BatchError::Unanswered { index });
        }
        if !batch.has_written() || batch.transaction().is_some() || batch.is_known_to_be_open() {
            return Ok(());
        }
        // Both find out as well whether an error that `apply` passed over has left the transaction aborted (PostgreSQL) or
        // ended it (MySQL), of which a COMMIT would say nothing.
        match DB::TRANSACTION {
            // One without a name is committed like any other: it may be what the commit itself does that counts, such as a
            // notification, or what was written on another server.
            Some(ask) => {
                if let Some(transaction) = Statement::new(ask).fetch_one::<DB>(tx).await?.optional_text(0)? {
                    batch.name_transaction(transaction);
                }
            }
            None => still_open(tx).await?,
        }
        Ok(())
    }
}

/// An error if the transaction has ended before its commit. Works once a transaction.
pub(crate) async fn still_open<DB: CombinerSql>(tx: &mut Transaction<'_, DB>) -> Result<(), BatchError> {
    match DB::probe(tx).await {
        Err(source) if classify::<DB>(&source) == ErrorClass::Other => Err(Error::TransactionEnded { source }.into()),
        probed => Ok(probed?),
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use std::sync::Arc;

    use sqlx::sqlite::SqlitePoolOptions;
    use sqlx::{Sqlite, SqliteConnection};
    use tokio::sync::mpsc;

    use super::super::builder::Limits;
    use super::super::kept::Begins;
    use super::super::queue::{Arrivals, Ending};
    use super::*;

    struct AtOnce;

    impl Apply<Sqlite> for AtOnce {
        type Operation = ();
        type Answer = ();

        async fn apply(&self, _: &mut Transaction<'_, Sqlite>, _: &mut Batch<(), ()>) -> Result<(), BatchError> {
            Err(BatchError::operation("at once only"))
        }

        async fn apply_at_once(&self, _: &mut SqliteConnection, _: &[()]) -> Result<Option<Vec<()>>, BatchError> {
            Ok(Some(vec![()]))
        }

        fn absorbs_repeats(&self, (): &()) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn one_statement_that_was_never_sent_leaves_nothing_open() {
        let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.expect("it opens");
        let (_queue, receiver) = mpsc::channel(1);
        let (arrivals, limits) = (Arc::new(Arrivals::new(receiver, 1)), Limits::default());
        let (apply, ending, begins) = (Arc::new(AtOnce), Ending::default(), Begins::of::<Sqlite>(&limits));
        let committer = Committer { pool, apply, arrivals, ending, limits, begins };
        let mut kept = None;
        let attempt = committer.attempt(&mut kept, &mut Batch::of(vec![()]), 0).await;
        assert!(matches!(attempt, Attempt::Done) && kept.is_some(), "{attempt:?}");
        committer.ending.halt.cancel();
        let attempt = committer.attempt(&mut kept, &mut Batch::of(vec![()]), 0).await;
        assert!(matches!(attempt, Attempt::BrokenOff), "{attempt:?}");
    }
}
