//! The statements for MariaDB and MySQL.

use std::time::Duration;

use leastlock_core::{ErrorClass, Statement, classify};
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Pool, Transaction};

use super::{Engine, LeaseSql, Limits, Mark, OnceMark, Step, after};
use crate::capabilities::WakeUp;
use crate::fence::Blocker;
use crate::lock_name::LockName;
use crate::store::{Claim, Polling, milliseconds};
use crate::token::FencingToken;
use crate::wake::Bells;

const ROLL_BACK: &str = include_str!("../../sql/mysql/roll_back.sql");

impl LeaseSql for MySql {}

impl Engine for MySql {
    const WAKE_UP: WakeUp = WakeUp::Polled;

    type Waiter = Polling;

    const HOLDER: &'static str = include_str!("../../sql/mysql/holder.sql");
    const RENEW: &'static str = include_str!("../../sql/mysql/renew.sql");
    const RELEASE: &'static str = include_str!("../../sql/mysql/release.sql");
    const SEALED: &'static str = include_str!("../../sql/mysql/sealed.sql");
    const ONCE_COMPLETE: &'static str = include_str!("../../sql/mysql/once_complete.sql");
    const ONCE_DONE: &'static str = include_str!("../../sql/mysql/once_done.sql");
    const ONCE_FORGET: &'static str = include_str!("../../sql/mysql/once_forget.sql");
    const INSPECT: &'static str = include_str!("../../sql/mysql/inspect.sql");
    const LIST: &'static str = include_str!("../../sql/mysql/list.sql");
    const FORCE_LOCK: &'static str = include_str!("../../sql/mysql/force_lock.sql");
    const FORCE_RELEASE: &'static str = include_str!("../../sql/mysql/force_release.sql");
    const AUDIT: &'static str = include_str!("../../sql/mysql/audit.sql");
    const AUDIT_SETTLE: &'static str = include_str!("../../sql/mysql/audit_settle.sql");
    const AUDIT_READ: &'static str = include_str!("../../sql/mysql/audit_read.sql");

    /// Two statements if somebody else holds the lock, three if it is new.
    async fn acquire(connection: &mut MySqlConnection, claim: Claim<'_>) -> Result<Option<i64>, sqlx::Error> {
        if let Some(token) = update(connection, claim).await? {
            return Ok(Some(token));
        }
        let holder = Statement::new(Self::HOLDER).bind(claim.name.as_str());
        if holder.fetch_optional::<Self>(&mut *connection).await?.is_some() {
            return Ok(None);
        }
        match insert(connection, claim).await {
            // Another one's first lease came first, and may be over.
            Err(error) if classify::<Self>(&error) == ErrorClass::UniqueViolation => update(connection, claim).await,
            inserted => inserted.map(Some),
        }
    }

    fn waiter(_pool: &Pool<Self>, _bells: &Bells, _name: &LockName) -> Polling {
        Polling
    }

    /// Each statement is its own transaction, so that a process which stops keeps no row locked.
    async fn raise(
        pool: &Pool<Self>,
        step: Step,
        mark: Mark<'_>,
        limits: Limits,
        _waits_for: impl FnMut(Blocker) + Send,
    ) -> Result<bool, sqlx::Error> {
        let (update, insert) = match step {
            Step::Gate => {
                (include_str!("../../sql/mysql/raise_gate.sql"), include_str!("../../sql/mysql/insert_gate.sql"))
            }
            Step::Guard => {
                (include_str!("../../sql/mysql/raise_guard.sql"), include_str!("../../sql/mysql/insert_guard.sql"))
            }
        };
        let mut connection = pool.acquire().await?;
        let wait_s = i64::try_from(limits.wait.as_secs()).unwrap_or(i64::MAX);
        Statement::new(include_str!("../../sql/mysql/wait.sql")).bind(wait_s).execute::<Self>(&mut connection).await?;
        if raised(&mut connection, update, mark).await? {
            return Ok(true);
        }
        let first = Statement::new(insert).bind(mark.generation).bind(mark.owner).bind(mark.resource);
        match first.execute::<Self>(&mut connection).await {
            // A row that came first: it refuses, or was inserted since the first look.
            Err(error) if classify::<Self>(&error) == ErrorClass::UniqueViolation => {
                raised(&mut connection, update, mark).await
            }
            inserted => inserted.map(|_| true),
        }
    }

    /// A message of several statements takes no parameters, so its number is written into it.
    async fn begin(pool: &Pool<Self>, idle: Duration) -> Result<Transaction<'static, Self>, sqlx::Error> {
        let idle_s = idle.as_secs() + u64::from(idle.subsec_nanos() > 0);
        let message = include_str!("../../sql/mysql/begin.sql").replace("{idle_s}", &idle_s.to_string());
        pool.begin_with(AssertSqlSafe(message)).await
    }

    /// In one message. sqlx then goes on counting the transaction as open, until the drop has it send a `ROLLBACK` of nothing.
    async fn commit(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
        if let Some(open) = tx {
            sqlx::raw_sql(include_str!("../../sql/mysql/commit.sql")).execute(&mut **open).await?;
            *tx = None;
        }
        Ok(())
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

    /// Nothing can be set for one transaction only, so what bounds its idling is set by [`begin`](Self::begin), or by the owner of the pool.
    async fn check(connection: &mut MySqlConnection, mark: Mark<'_>, _idle: Duration) -> Result<bool, sqlx::Error> {
        let passed = Statement::new(include_str!("../../sql/mysql/check.sql"))
            .bind(mark.resource)
            .bind(mark.generation)
            .bind(mark.owner)
            .bind(mark.resource)
            .bind(mark.generation)
            .bind(mark.owner);
        Ok(passed.fetch_optional::<Self>(connection).await?.is_some())
    }

    /// What bounds its idling is set by [`begin`](Self::begin).
    async fn once_mark(
        connection: &mut MySqlConnection,
        once: OnceMark<'_>,
        _idle: Duration,
    ) -> Result<bool, sqlx::Error> {
        let mark = Statement::new(include_str!("../../sql/mysql/once_mark.sql"));
        let mark = mark.bind(once.job).bind(once.period).bind(once.owner);
        match mark.execute::<Self>(connection).await {
            Err(error) if classify::<Self>(&error) == ErrorClass::UniqueViolation => Ok(false),
            marked => marked.map(|_| true),
        }
    }
}

async fn update(connection: &mut MySqlConnection, claim: Claim<'_>) -> Result<Option<i64>, sqlx::Error> {
    let nonce = &claim.nonce.as_bytes()[..];
    let update = Statement::new(include_str!("../../sql/mysql/acquire.sql"))
        .bind(nonce)
        .bind(claim.floor.map_or(0, FencingToken::value))
        .bind(nonce)
        .bind(nonce)
        .bind(milliseconds(claim.ttl))
        .bind(claim.job)
        .bind(claim.name.as_str())
        .bind(nonce)
        .bind(after(&claim));
    // The token comes with the answer, where only the driver's own result has it.
    let updated = update.into_query::<MySql>()?.execute(connection).await?;
    let token = || i64::try_from(updated.last_insert_id()).map_err(|error| sqlx::Error::Decode(error.into()));
    (updated.rows_affected() > 0).then(token).transpose()
}

async fn insert(connection: &mut MySqlConnection, claim: Claim<'_>) -> Result<i64, sqlx::Error> {
    let floor = claim.floor.map_or(0, FencingToken::value);
    let insert = Statement::new(include_str!("../../sql/mysql/insert.sql"))
        .bind(claim.name.as_str())
        .bind(&claim.nonce.as_bytes()[..])
        .bind(floor)
        .bind(milliseconds(claim.ttl))
        .bind(claim.job);
    insert.execute::<MySql>(connection).await?;
    // The server has added the same, or failed.
    Ok(floor.saturating_add(1))
}

async fn raised(
    connection: &mut MySqlConnection,
    statement: &'static str,
    mark: Mark<'_>,
) -> Result<bool, sqlx::Error> {
    let raise = Statement::new(statement)
        .bind(mark.generation)
        .bind(mark.owner)
        .bind(mark.resource)
        .bind(mark.generation)
        .bind(mark.generation)
        .bind(mark.owner);
    Ok(raise.execute::<MySql>(connection).await? > 0)
}
