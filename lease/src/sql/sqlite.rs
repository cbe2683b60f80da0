//! The statements for SQLite.

use std::time::Duration;

use leastlock_core::{begin, commit};
use sqlx::{Pool, Sqlite, SqliteConnection, Transaction};

use super::{Engine, LeaseSql, Limits, Mark, OnceMark, Step, returning};
use crate::capabilities::WakeUp;
use crate::fence::Blocker;
use crate::lock_name::LockName;
use crate::store::{Claim, Polling};
use crate::wake::Bells;

impl LeaseSql for Sqlite {}

impl Engine for Sqlite {
    const WAKE_UP: WakeUp = WakeUp::Polled;

    type Waiter = Polling;

    const HOLDER: &'static str = include_str!("../../sql/sqlite/holder.sql");
    const RENEW: &'static str = include_str!("../../sql/sqlite/renew.sql");
    const RELEASE: &'static str = include_str!("../../sql/sqlite/release.sql");
    const SEALED: &'static str = include_str!("../../sql/sqlite/sealed.sql");
    const ONCE_COMPLETE: &'static str = include_str!("../../sql/sqlite/once_complete.sql");
    const ONCE_DONE: &'static str = include_str!("../../sql/sqlite/once_done.sql");
    const ONCE_FORGET: &'static str = include_str!("../../sql/sqlite/once_forget.sql");
    const INSPECT: &'static str = include_str!("../../sql/sqlite/inspect.sql");
    const LIST: &'static str = include_str!("../../sql/sqlite/list.sql");
    const FORCE_LOCK: &'static str = include_str!("../../sql/sqlite/force_lock.sql");
    const FORCE_RELEASE: &'static str = include_str!("../../sql/sqlite/force_release.sql");
    const AUDIT: &'static str = include_str!("../../sql/sqlite/audit.sql");
    const AUDIT_SETTLE: &'static str = include_str!("../../sql/sqlite/audit_settle.sql");
    const AUDIT_READ: &'static str = include_str!("../../sql/sqlite/audit_read.sql");

    async fn acquire(connection: &mut SqliteConnection, claim: Claim<'_>) -> Result<Option<i64>, sqlx::Error> {
        returning::acquire::<Self>(connection, include_str!("../../sql/sqlite/acquire.sql"), claim).await
    }

    fn waiter(_pool: &Pool<Self>, _bells: &Bells, _name: &LockName) -> Polling {
        Polling
    }

    async fn raise(
        pool: &Pool<Self>,
        step: Step,
        mark: Mark<'_>,
        _limits: Limits,
        _waits_for: impl FnMut(Blocker) + Send,
    ) -> Result<bool, sqlx::Error> {
        let statement = match step {
            Step::Gate => include_str!("../../sql/sqlite/raise_gate.sql"),
            Step::Guard => include_str!("../../sql/sqlite/raise_guard.sql"),
        };
        let mut tx = begin(pool).await?;
        let raised = returning::raise::<Self>(&mut tx, statement, mark).await?;
        tx.commit().await?;
        Ok(raised)
    }

    async fn begin(pool: &Pool<Self>, _idle: Duration) -> Result<Transaction<'static, Self>, sqlx::Error> {
        begin(pool).await
    }

    async fn commit(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
        match tx.take() {
            Some(tx) => commit(tx).await,
            None => Ok(()),
        }
    }

    fn abandon(tx: Transaction<'static, Self>) {
        drop(tx);
    }

    async fn check(connection: &mut SqliteConnection, mark: Mark<'_>, idle: Duration) -> Result<bool, sqlx::Error> {
        returning::check::<Self>(connection, include_str!("../../sql/sqlite/check.sql"), mark, idle).await
    }

    async fn once_mark(
        connection: &mut SqliteConnection,
        once: OnceMark<'_>,
        idle: Duration,
    ) -> Result<bool, sqlx::Error> {
        returning::once_mark::<Self>(connection, include_str!("../../sql/sqlite/once_mark.sql"), once, idle).await
    }
}
