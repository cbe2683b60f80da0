//! The statements for PostgreSQL.

use std::convert::Infallible;
use std::time::Duration;

use leastlock_core::{Statement, begin, begin_with, commit};
use sqlx::{PgConnection, Pool, Postgres, Transaction};

use super::{Engine, LeaseSql, Limits, Mark, OnceMark, Step, returning};
use crate::capabilities::WakeUp;
use crate::fence::Blocker;
use crate::lock_name::LockName;
use crate::store::{Claim, milliseconds};
use crate::wake::{Bells, PostgresWaiter};

/// How often a waiting seal looks whom it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl LeaseSql for Postgres {}

impl Engine for Postgres {
    const WAKE_UP: WakeUp = WakeUp::Woken;

    type Waiter = PostgresWaiter;

    const HOLDER: &'static str = include_str!("../../sql/postgres/holder.sql");
    const RENEW: &'static str = include_str!("../../sql/postgres/renew.sql");
    const RELEASE: &'static str = include_str!("../../sql/postgres/release.sql");
    const SEALED: &'static str = include_str!("../../sql/postgres/sealed.sql");
    const ONCE_COMPLETE: &'static str = include_str!("../../sql/postgres/once_complete.sql");
    const ONCE_DONE: &'static str = include_str!("../../sql/postgres/once_done.sql");
    const ONCE_FORGET: &'static str = include_str!("../../sql/postgres/once_forget.sql");
    const INSPECT: &'static str = include_str!("../../sql/postgres/inspect.sql");
    const LIST: &'static str = include_str!("../../sql/postgres/list.sql");
    const FORCE_LOCK: &'static str = include_str!("../../sql/postgres/force_lock.sql");
    const FORCE_RELEASE: &'static str = include_str!("../../sql/postgres/force_release.sql");
    const AUDIT: &'static str = include_str!("../../sql/postgres/audit.sql");
    const AUDIT_SETTLE: &'static str = include_str!("../../sql/postgres/audit_settle.sql");
    const AUDIT_READ: &'static str = include_str!("../../sql/postgres/audit_read.sql");

    async fn acquire(connection: &mut PgConnection, claim: Claim<'_>) -> Result<Option<i64>, sqlx::Error> {
        returning::acquire::<Self>(connection, include_str!("../../sql/postgres/acquire.sql"), claim).await
    }

    fn waiter(pool: &Pool<Self>, bells: &Bells, name: &LockName) -> PostgresWaiter {
        PostgresWaiter::new(pool, bells, name)
    }

    async fn raise(
        pool: &Pool<Self>,
        step: Step,
        mark: Mark<'_>,
        limits: Limits,
        waits_for: impl FnMut(Blocker) + Send,
    ) -> Result<bool, sqlx::Error> {
        let statement = match step {
            Step::Gate => include_str!("../../sql/postgres/raise_gate.sql"),
            Step::Guard => include_str!("../../sql/postgres/raise_guard.sql"),
        };
        let mut tx = begin(pool).await?;
        let bound = Statement::new(include_str!("../../sql/postgres/seal_limits.sql"))
            .bind(milliseconds(limits.wait).max(1))
            .bind(milliseconds(limits.idle));
        let backend = bound.fetch_one::<Self>(&mut tx).await?.int(0)?;
        let raised = tokio::select! {
            raised = returning::raise::<Self>(&mut tx, statement, mark) => raised?,
            never = watch(pool, backend, waits_for) => match never {},
        };
        tx.commit().await?;
        Ok(raised)
    }

    async fn begin(pool: &Pool<Self>, _idle: Duration) -> Result<Transaction<'static, Self>, sqlx::Error> {
        begin_with(pool, "BEGIN ISOLATION LEVEL READ COMMITTED").await
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

    async fn check(connection: &mut PgConnection, mark: Mark<'_>, idle: Duration) -> Result<bool, sqlx::Error> {
        returning::check::<Self>(connection, include_str!("../../sql/postgres/check.sql"), mark, idle).await
    }

    async fn once_mark(connection: &mut PgConnection, once: OnceMark<'_>, idle: Duration) -> Result<bool, sqlx::Error> {
        returning::once_mark::<Self>(connection, include_str!("../../sql/postgres/once_mark.sql"), once, idle).await
    }
}

/// Looks again and again whom `backend` waits for, and hands over each. Never ends by itself.
async fn watch(pool: &Pool<Postgres>, backend: i64, mut waits_for: impl FnMut(Blocker)) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // It only informs: if it fails, the seal itself will show what is wrong.
        for blocker in look(pool, backend).await.unwrap_or_default() {
            waits_for(blocker);
        }
    }
}

async fn look(pool: &Pool<Postgres>, backend: i64) -> Result<Vec<Blocker>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let statement = Statement::new(include_str!("../../sql/postgres/blockers.sql")).bind(backend);
    let rows = statement.fetch_all::<Postgres>(&mut connection).await?;
    let read = |row: leastlock_core::Row<Postgres>| {
        let state = row.optional_text(1)?.map(String::into_boxed_str);
        Ok(Blocker { pid: row.int(0)?, state, for_ms: row.optional_int(2)? })
    };
    rows.into_iter().map(read).collect()
}
