//! A transaction of a handler, which leaves the connection as it was.

use std::ops::{Deref, DerefMut};

use sqlx::Transaction;

use crate::sql::WorkerSql;

/// A transaction that [`Progress::begin`](crate::progress::Progress::begin) began. However it ends, what was set on its connection
/// is put back before anybody else gets that from the pool.
#[derive(Debug)]
pub struct OwnTransaction<DB: WorkerSql> {
    /// `None` only once the value is given up.
    tx: Option<Transaction<'static, DB>>,
}

impl<DB: WorkerSql> OwnTransaction<DB> {
    #[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
    pub(crate) fn new(tx: Transaction<'static, DB>) -> Self {
        Self { tx: Some(tx) }
    }

    pub(crate) async fn commit(mut self) -> Result<(), sqlx::Error> {
        DB::commit(&mut self.tx).await
    }

    pub(crate) async fn commit_and_begin(mut self) -> Result<Option<Self>, sqlx::Error> {
        DB::commit_and_begin(&mut self.tx).await?;
        Ok(self.tx.is_some().then_some(self))
    }

    /// Rolls back; dropping it does too, in the background.
    ///
    /// # Errors
    /// What the database said. The transaction is over all the same.
    pub async fn roll_back(mut self) -> Result<(), sqlx::Error> {
        DB::roll_back(&mut self.tx).await
    }
}

impl<DB: WorkerSql> Deref for OwnTransaction<DB> {
    type Target = Transaction<'static, DB>;

    fn deref(&self) -> &Self::Target {
        self.tx.as_ref().expect("only what consumes the value takes the transaction out of it")
    }
}

impl<DB: WorkerSql> DerefMut for OwnTransaction<DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.tx.as_mut().expect("only what consumes the value takes the transaction out of it")
    }
}

impl<DB: WorkerSql> Drop for OwnTransaction<DB> {
    fn drop(&mut self) {
        if let Some(tx) = self.tx.take() {
            DB::abandon(tx);
        }
    }
}
