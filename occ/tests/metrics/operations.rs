//! Operations of a combiner that meet what can be met.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::{Backoff, Statement};
use leastlock_occ::combiner::{Apply, Batch, BatchError, Combiner, CombinerBuilder, CombinerSql};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;
use tokio::sync::Semaphore;

/// How long a test waits for what must come.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

const ADD: &str = "UPDATE counter SET value = value + 1";

/// What an operation meets. It adds one, unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Adds,
    /// Waits in the middle of its batch until the test lets it go.
    AtTheGate,
    /// Can never be applied.
    Fails,
    /// Writes nothing.
    Looks,
    /// Is applied in one statement, if it came alone.
    AtOnce,
    /// Its first attempt ends so.
    Meets(Ending),
    /// The reply to its first attempt is lost, and nobody can tell what became of it.
    LosesItsReply(Repeat),
}

/// How an attempt ends that is followed by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Raced,
    Disconnected,
    NoConnection,
    Deadlock,
    LockTimeout,
    Hangs,
}

/// What a repeat comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    NotAbsorbed,
    Absorbed,
    /// It would be absorbed, but can no longer be applied.
    Fails,
}

/// Applies operations to one counter.
#[derive(Debug, Clone)]
pub(crate) struct Adding {
    entered: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Adding {
    pub(crate) fn new() -> Self {
        Self { entered: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until a batch has come to the gate.
    pub(crate) async fn reached(&self) {
        let reached = tokio::time::timeout(LIMIT, self.entered.acquire()).await;
        reached.expect("a batch comes to the gate").expect("it is never closed").forget();
    }

    pub(crate) fn open(&self) {
        self.open.add_permits(1);
    }
}

impl<DB: CombinerSql> Apply<DB> for Adding {
    type Operation = Operation;
    type Answer = ();

    async fn apply(&self, tx: &mut Transaction<'_, DB>, batch: &mut Batch<Operation, ()>) -> Result<(), BatchError> {
        let is_first = batch.attempt() == 1;
        for (index, operation) in batch.operations().to_vec().into_iter().enumerate() {
            match operation {
                Operation::Fails | Operation::LosesItsReply(Repeat::Fails) => {
                    return Err(BatchError::operation("it fails"));
                }
                Operation::Meets(ending) if is_first => return Err(met(ending).await),
                Operation::Looks => batch.wrote_nothing(),
                Operation::AtTheGate => {
                    self.entered.add_permits(1);
                    self.open.acquire().await.expect("it is never closed").forget();
                }
                _ => {}
            }
            Statement::new(ADD).execute::<DB>(tx).await?;
            batch.answer(index, ());
        }
        Ok(())
    }

    async fn apply_at_once(
        &self,
        connection: &mut DB::Connection,
        operations: &[Operation],
    ) -> Result<Option<Vec<()>>, BatchError> {
        match operations {
            [Operation::AtOnce] => {
                Statement::new(ADD).execute::<DB>(connection).await?;
                Ok(Some(vec![()]))
            }
            [Operation::LosesItsReply(_)] => Err(cut().into()),
            _ => Ok(None),
        }
    }

    fn absorbs_repeats(&self, operation: &Operation) -> bool {
        matches!(operation, Operation::LosesItsReply(Repeat::Absorbed | Repeat::Fails))
    }
}

async fn met(ending: Ending) -> BatchError {
    use leastlock_core::ErrorClass;

    let classed = |class| leastlock_occ::Error::Database { class, source: sqlx::Error::RowNotFound };
    match ending {
        Ending::Raced => BatchError::Raced,
        Ending::Disconnected => cut().into(),
        Ending::NoConnection => sqlx::Error::PoolTimedOut.into(),
        Ending::Deadlock => classed(ErrorClass::Deadlock).into(),
        Ending::LockTimeout => classed(ErrorClass::LockTimeout).into(),
        Ending::Hangs => std::future::pending().await,
    }
}

fn cut() -> sqlx::Error {
    sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())
}

pub(crate) async fn counter<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("CREATE TABLE counter (value BIGINT NOT NULL)").await;
    database.execute("INSERT INTO counter VALUES (0)").await;
}

/// A combiner whose pauses are short.
pub(crate) fn combiner<DB: TestEngine + CombinerSql>(
    database: &TestDatabase<DB>,
    adding: &Adding,
) -> CombinerBuilder<DB, Adding> {
    let pauses = Backoff::new(Duration::from_millis(1), Duration::from_millis(4));
    Combiner::builder(&database.pool, adding.clone()).attempts(10, pauses)
}
