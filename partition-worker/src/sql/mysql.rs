//! The statements for MariaDB and MySQL.

use std::time::Duration;

use leastlock_core::{ErrorClass, Statement, classify, to_its_end};
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Pool, Transaction};

use super::{Found, GroupPartition, WorkerSql};
use crate::own_transaction::OwnTransaction;

const BEGIN: &str = include_str!("../../sql/mysql/begin.sql");
const COMMIT: &str = include_str!("../../sql/mysql/commit.sql");
const COMMIT_AND_BEGIN: &str = include_str!("../../sql/mysql/commit_and_begin.sql");
const ROLL_BACK: &str = include_str!("../../sql/mysql/roll_back.sql");
const GATE_RAISE: &str = include_str!("../../sql/mysql/seal_gate_raise.sql");
const GATE_FIRST: &str = include_str!("../../sql/mysql/seal_gate_first.sql");
const GATE_EPOCH: &str = include_str!("../../sql/mysql/seal_gate_epoch.sql");
const GUARD_RAISE: &str = include_str!("../../sql/mysql/seal_guard_raise.sql");
const GUARD_FIRST: &str = include_str!("../../sql/mysql/seal_guard_first.sql");
const GUARD_FOUND: &str = include_str!("../../sql/mysql/seal_found.sql");

/// `ER_SP_DOES_NOT_EXIST`: what the server says of a savepoint that is gone, and the transaction with it.
const NO_SAVEPOINT: u16 = 1305;

impl WorkerSql for MySql {
    const SEAL_BOUND: Option<&'static str> = Some(include_str!("../../sql/mysql/seal_bound.sql"));
    const SEAL_FINISHED: &'static str = include_str!("../../sql/mysql/seal_finished.sql");
    const SEAL_BLOCKERS: Option<&'static str> = Some(include_str!("../../sql/mysql/seal_blockers.sql"));
    const SEAL_ANCHOR: &'static str = include_str!("../../sql/mysql/seal_anchor.sql");
    const FENCE_ENTER: &'static str = include_str!("../../sql/mysql/fence_enter.sql");
    const FENCE_WHY: &'static str = include_str!("../../sql/mysql/fence_why.sql");
    const FENCE_HOLD: &'static str = include_str!("../../sql/mysql/fence_hold.sql");
    const FENCE_BATCH: &'static str = include_str!("../../sql/mysql/fence_batch.sql");
    const FENCE_FINISHED: &'static str = include_str!("../../sql/mysql/fence_finished.sql");
    const FOLD_BOUND: Option<&'static str> = Some(include_str!("../../sql/mysql/fold_bound.sql"));
    const FOLD_RAISE: &'static str = include_str!("../../sql/mysql/fold_raise.sql");
    const FOLD_FORGET: &'static str = include_str!("../../sql/mysql/fold_forget.sql");
    const TOPIC_NAME: &'static str = include_str!("../../sql/mysql/topic_name.sql");
    const TOPIC_KNOWN: &'static str = include_str!("../../sql/mysql/topic_known.sql");
    const REBASE: &'static str = include_str!("../../sql/mysql/rebase.sql");
    const AUDIT: &'static str = include_str!("../../sql/mysql/audit.sql");

    /// A message of several statements takes no parameters, so its one number is written into it.
    async fn begin(pool: &Pool<Self>, idle: Duration) -> Result<OwnTransaction<Self>, sqlx::Error> {
        let idle_s = idle.as_millis().div_ceil(1_000).max(1).to_string();
        let message = BEGIN.replace("{idle_s}", &idle_s);
        let pool = pool.clone();
        // Dropped before its end, this goes on, and the transaction that it comes to is abandoned.
        to_its_end(async move { pool.begin_with(AssertSqlSafe(message)).await.map(OwnTransaction::new) }).await
    }

    async fn begin_step(pool: &Pool<Self>) -> Result<OwnTransaction<Self>, sqlx::Error> {
        Self::begin(pool, Duration::from_secs(10)).await
    }

    /// In one message. sqlx then goes on counting the transaction as open, until the drop has it send a `ROLLBACK` of nothing.
    ///
    /// A message that fails, or is given up, at one of its statements has not run those behind it: the connection's idle bound is
    /// then put back by [`abandon`](Self::abandon).
    async fn commit(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
        end(COMMIT, tx).await
    }

    async fn commit_and_begin(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
        match tx {
            Some(tx) => sqlx::raw_sql(COMMIT_AND_BEGIN).execute(&mut **tx).await.map(drop),
            None => Ok(()),
        }
    }

    async fn roll_back(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
        end(ROLL_BACK, tx).await
    }

    /// In a task, so that the connection's idle bound is put back before the pool lends it again.
    fn abandon(tx: Transaction<'static, Self>) {
        // Without a runtime sqlx cannot give a connection back to its pool either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let mut tx = tx;
                // The first try may be answered with the error of the statement that was dropped, and is then not sent. If the
                // second fails the connection is gone, and the transaction with it.
                if sqlx::raw_sql(ROLL_BACK).execute(&mut *tx).await.is_err() {
                    let _ = sqlx::raw_sql(ROLL_BACK).execute(&mut *tx).await;
                }
            });
        }
    }

    fn is_aborted(error: &sqlx::Error) -> bool {
        let error = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
        error.is_some_and(|error| error.number() == NO_SAVEPOINT)
    }

    async fn claim_gate(
        connection: &mut MySqlConnection,
        of: GroupPartition<'_>,
        owner: &str,
    ) -> Result<i64, sqlx::Error> {
        loop {
            let raise = of.bind_next(Statement::new(GATE_RAISE).bind(owner));
            if raise.execute::<Self>(&mut *connection).await? == 1 {
                return of.bind_to(GATE_EPOCH).fetch_one::<Self>(connection).await?.int(0);
            }
            match of.bind_to(GATE_FIRST).bind(owner).execute::<Self>(&mut *connection).await {
                Ok(_) => return Ok(1),
                // Somebody was first: there is a row to count on from.
                Err(error) if classify::<Self>(&error) == ErrorClass::UniqueViolation => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn raise_guard(
        connection: &mut MySqlConnection,
        of: GroupPartition<'_>,
        epoch: i64,
        owner: &str,
    ) -> Result<Option<Found>, sqlx::Error> {
        let raise = || of.bind_to(GUARD_RAISE).bind(epoch).bind(owner);
        let mut raised = raise().execute::<Self>(&mut *connection).await?;
        if raised == 0 {
            let first = of.bind_next(Statement::new(GUARD_FIRST).bind(owner)).bind(epoch);
            raised = match first.execute::<Self>(&mut *connection).await {
                // There is a guard. It is of a later epoch, or has come between the two statements.
                Err(error) if classify::<Self>(&error) == ErrorClass::UniqueViolation => {
                    raise().execute::<Self>(&mut *connection).await?
                }
                first => first?,
            };
        }
        if raised == 0 {
            return Ok(None);
        }
        Found::read(&of.bind_to(GUARD_FOUND).fetch_one::<Self>(connection).await?).map(Some)
    }
}

async fn end(message: &'static str, slot: &mut Option<Transaction<'static, MySql>>) -> Result<(), sqlx::Error> {
    if let Some(tx) = slot {
        sqlx::raw_sql(message).execute(&mut **tx).await?;
        *slot = None;
    }
    Ok(())
}
