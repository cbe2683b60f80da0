//! The statements for MariaDB and MySQL.

use std::time::{Duration, Instant};

use leastlock_core::{ErrorClass, Statement, classify, to_its_end};
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Pool, Transaction};

use super::IdempotencySql;
use crate::claim::{Answer, Existing, Limits, Request};
use crate::own_transaction::OwnTransaction;

const BEGIN: &str = include_str!("../../sql/mysql/begin.sql");
const COMMIT: &str = include_str!("../../sql/mysql/commit.sql");
const PROVE: &str = include_str!("../../sql/mysql/prove.sql");
const ROLL_BACK: &str = include_str!("../../sql/mysql/roll_back.sql");
const WAIT: &str = include_str!("../../sql/mysql/wait.sql");
const CLAIM: &str = include_str!("../../sql/mysql/claim.sql");
const EXISTING: &str = include_str!("../../sql/mysql/existing.sql");
const CLAIM_EXPIRED: &str = include_str!("../../sql/mysql/claim_expired.sql");
const GENERATION: &str = include_str!("../../sql/mysql/generation.sql");
const ROLLS_BACK_ON_TIMEOUT: &str = include_str!("../../sql/mysql/rolls_back_on_timeout.sql");
const SWEEP: &str = include_str!("../../sql/mysql/sweep.sql");
const DELETE: &str = include_str!("../../sql/mysql/delete.sql");

impl IdempotencySql for MySql {
    const COMPLETE: &'static str = include_str!("../../sql/mysql/complete.sql");

    const NEEDS_SAVEPOINT: bool = false;

    /// A message of several statements takes no parameters, so its two numbers are written into it.
    async fn begin(pool: &Pool<Self>, limits: &Limits) -> Result<OwnTransaction<Self>, sqlx::Error> {
        let idle_s = limits.idle.as_secs() + u64::from(limits.idle.subsec_nanos() > 0);
        let wait_s = limits.deadline.saturating_duration_since(Instant::now()).as_secs();
        let message = BEGIN.replace("{idle_s}", &idle_s.to_string()).replace("{wait_s}", &wait_s.to_string());
        let pool = pool.clone();
        // Dropped before its end, this goes on, and the transaction that it comes to is dropped: rolled back.
        to_its_end(async move { pool.begin_with(AssertSqlSafe(message)).await.map(OwnTransaction::new) }).await
    }

    async fn prove(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(PROVE).execute(connection).await.map(|_| ())
    }

    /// In one message. sqlx then goes on counting the transaction as open, until the drop has it send a `ROLLBACK` of nothing.
    ///
    /// A message that fails, or is given up, at one of its statements has not run those behind it: the connection's idle bound is
    /// then put back by [`abandon`](Self::abandon).
    async fn commit(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
        end(COMMIT, tx).await
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

    async fn claim(connection: &mut MySqlConnection, request: &Request<'_>) -> Result<Answer, sqlx::Error> {
        if request.joins {
            let wait_s = Duration::from_millis(request.wait_ms.unsigned_abs()).as_secs();
            let wait = Statement::new(WAIT).bind(i64::try_from(wait_s).unwrap_or(i64::MAX));
            wait.execute::<Self>(&mut *connection).await?;
        }
        match request.bind(Statement::new(CLAIM)).execute::<Self>(&mut *connection).await {
            Ok(_) => return Ok(Answer::Claimed { generation: 1 }),
            Err(error) if classify::<Self>(&error) == ErrorClass::UniqueViolation => {}
            Err(error) => return Err(error),
        }
        let existing = Statement::new(EXISTING).bind(request.scope).bind(request.key);
        let Some(row) = existing.fetch_optional::<Self>(connection).await? else { return Ok(Answer::NotVisible) };
        Ok(Answer::Exists(Existing::read(&row, 0)?))
    }

    async fn claim_expired(
        connection: &mut MySqlConnection,
        request: &Request<'_>,
    ) -> Result<Option<i64>, sqlx::Error> {
        let claim = Statement::new(CLAIM_EXPIRED)
            .bind(request.fingerprint)
            .bind(request.retention_ms)
            .bind(request.scope)
            .bind(request.key);
        if claim.execute::<Self>(&mut *connection).await? == 0 {
            return Ok(None);
        }
        let generation = Statement::new(GENERATION).bind(request.scope).bind(request.key);
        generation.fetch_one::<Self>(connection).await?.int(0).map(Some)
    }

    /// A statement that fails is undone alone, unless the server is set up otherwise.
    async fn outlives_lock_timeout(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
        let row = Statement::new(ROLLS_BACK_ON_TIMEOUT).fetch_one::<Self>(connection).await?;
        Ok(row.int(0)? == 0)
    }

    async fn sweep(connection: &mut MySqlConnection, batch: i64) -> Result<u64, sqlx::Error> {
        let expired = Statement::new(SWEEP).bind(batch).fetch_all::<Self>(&mut *connection).await?;
        let mut deleted = 0;
        for row in expired {
            let (scope, key) = (row.text(0)?, row.text(1)?);
            let delete = Statement::new(DELETE).bind(scope.as_str()).bind(key.as_str());
            deleted += delete.execute::<Self>(&mut *connection).await?;
        }
        Ok(deleted)
    }
}

async fn end(message: &'static str, slot: &mut Option<Transaction<'static, MySql>>) -> Result<(), sqlx::Error> {
    if let Some(tx) = slot {
        sqlx::raw_sql(message).execute(&mut **tx).await?;
        *slot = None;
    }
    Ok(())
}
