//! Whom a seal waits for.

use std::convert::Infallible;
use std::time::Duration;

use leastlock_core::Statement;
use sqlx::Pool;

use crate::sql::LeaseSql;

/// How often a waiting seal looks whom it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A transaction that stands in the way of a seal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Blocker {
    /// The server process, as in `pg_stat_activity`.
    pub pid: i64,
    /// What it does (`idle in transaction` for a stopped holder); `None` where the role may not see it.
    pub state: Option<Box<str>>,
    /// For how long.
    pub for_ms: Option<i64>,
}

/// Looks again and again whom `backend` waits for, and hands over each that it has not seen yet. Never ends by itself.
pub(super) async fn watch<DB: LeaseSql>(
    pool: &Pool<DB>,
    backend: Option<i64>,
    mut seen: impl FnMut(Blocker),
) -> Infallible {
    let (Some(statement), Some(backend)) = (DB::BLOCKERS, backend) else { return std::future::pending().await };
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // It only informs: if it fails, the seal itself will show what is wrong.
        for blocker in look::<DB>(pool, statement, backend).await.unwrap_or_default() {
            seen(blocker);
        }
    }
}

async fn look<DB: LeaseSql>(
    pool: &Pool<DB>,
    statement: &'static str,
    backend: i64,
) -> Result<Vec<Blocker>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let rows = Statement::new(statement).bind(backend).fetch_all::<DB>(&mut connection).await?;
    let read = |row: leastlock_core::Row<DB>| {
        let state = row.optional_text(1)?.map(String::into_boxed_str);
        Ok(Blocker { pid: row.int(0)?, state, for_ms: row.optional_int(2)? })
    };
    rows.into_iter().map(read).collect()
}
