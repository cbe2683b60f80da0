//! What is protected: doors in a database, and everything that was written at them.

use leastlock_core::{Engine, Statement};
use leastlock_lease::LeaseSql;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::sql;

use crate::engine::BenchEngine;

const DOORS: &str = include_str!("../../../sql/door/doors.sql");
const WRITTEN: &str = include_str!("../../../sql/door/written.sql");
const HISTORY: &str = include_str!("../../../sql/door/history.sql");

/// An engine on which doors are.
pub(super) trait Doors: BenchEngine + LeaseSql {}

impl<DB: BenchEngine + LeaseSql> Doors for DB {}

/// A write that was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) door: i64,
    pub(super) token: i64,
    /// Whose the token is; each process has a number of its own.
    pub(super) holder: i64,
}

/// Makes the tables.
pub(super) async fn prepare<DB: Doors>(database: &TestDatabase<DB>) {
    database.execute(DOORS).await;
    database.execute(WRITTEN).await;
}

/// Makes a door that nobody has written at.
pub(super) async fn open<DB: Doors>(database: &TestDatabase<DB>, door: i64) -> anyhow::Result<()> {
    let open = sql::<DB>(include_str!("../../../sql/door/open.sql"), include_str!("../../../sql/mysql/door/open.sql"));
    let mut connection = database.pool.acquire().await?;
    Statement::new(open).bind(door).execute::<DB>(&mut connection).await?;
    Ok(())
}

/// Writes, in a transaction that is the caller's.
pub(super) async fn write<DB: Doors>(connection: &mut DB::Connection, write: Written) -> sqlx::Result<()> {
    let at = sql::<DB>(include_str!("../../../sql/door/write.sql"), include_str!("../../../sql/mysql/door/write.sql"));
    let note = sql::<DB>(include_str!("../../../sql/door/note.sql"), include_str!("../../../sql/mysql/door/note.sql"));
    Statement::new(at).bind(write.door).execute::<DB>(connection).await?;
    let note = Statement::new(note).bind(write.token).bind(write.holder).bind(write.door);
    note.execute::<DB>(connection).await.map(drop)
}

/// All that was applied, at each door in its order.
pub(super) async fn history<DB: Doors>(database: &TestDatabase<DB>) -> anyhow::Result<Vec<Written>> {
    let mut connection = database.pool.acquire().await?;
    let rows = Statement::new(HISTORY).fetch_all::<DB>(&mut connection).await?;
    let written = rows.iter().map(|row| Ok(Written { door: row.int(0)?, token: row.int(1)?, holder: row.int(2)? }));
    written.collect()
}

/// Whether a process that is stopped in a transaction stops all others at its file, and nothing ends that transaction.
pub(super) fn is_one_file<DB: Doors>() -> bool {
    DB::ENGINE == Engine::Sqlite
}
