//! The handler under test, and the faults that it meets.

use std::io;
use std::sync::Arc;

use sqlx::Transaction;

use super::{Fault, Member};
use crate::handler::{BatchFailure, BatchHandler, Failure, Handler, Process};
use crate::record::Record;
use crate::sql::WorkerSql;

/// Calls the handler, and lets happen to it what the script has next.
pub(super) struct Met<H> {
    pub(super) handler: H,
    pub(super) member: Arc<Member>,
}

impl<H> Met<H> {
    /// What happens before the handler is called.
    async fn before(&self) {
        self.member.broker().called();
        if self.member.has_crashed()
            || self.member.broker().take_fault(|fault| fault == Fault::CrashBeforeHandler).is_some()
        {
            self.crash::<()>().await;
        }
    }

    /// What happens when it has done its work, and nothing is committed.
    async fn after(&self, has_transaction: bool) -> Result<(), Failure> {
        let is_mine =
            |fault: Fault| fault == Fault::CrashBeforeCommit || (fault == Fault::ConnectionLost && has_transaction);
        match self.member.broker().take_fault(is_mine) {
            Some(Fault::ConnectionLost) => {
                let lost = io::Error::new(io::ErrorKind::ConnectionReset, "the script cuts the connection");
                Err(sqlx::Error::Io(lost).into())
            }
            Some(_) => self.crash().await,
            None => Ok(()),
        }
    }

    /// The end of a process, as far as a handler sees it: it never comes back from an await.
    async fn crash<T>(&self) -> T {
        self.member.crash();
        std::future::pending().await
    }
}

impl<DB: WorkerSql, H: Handler<DB>> Handler<DB> for Met<H> {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        self.before().await;
        self.handler.handle(record, tx).await?;
        self.after(true).await
    }
}

impl<DB: WorkerSql, H: BatchHandler<DB>> BatchHandler<DB> for Met<H> {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, DB>) -> Result<(), BatchFailure> {
        self.before().await;
        self.handler.handle(batch, tx).await?;
        Ok(self.after(true).await?)
    }
}

impl<H: Process> Process for Met<H> {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        self.before().await;
        self.handler.process(record).await?;
        self.after(false).await
    }
}
