//! What is protected: a shelf that batches are put on, in a database.

use leastlock_core::Statement;
use leastlock_lease::LeaseSql;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::sql;
use serde::{Deserialize, Serialize};

use crate::pool::Pooled;

/// How many items a batch has.
const ITEMS: i64 = 3;

/// An engine that shelves are on.
pub(super) trait Shelves: Pooled + LeaseSql {}

impl<DB: Pooled + LeaseSql> Shelves for DB {}

/// A batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Batch {
    pub(super) id: String,
    pub(super) token: i64,
    /// Whose the token is: each acquisition has a name of its own.
    pub(super) owner: String,
}

/// Makes the tables.
pub(super) async fn prepare<DB: Shelves>(database: &TestDatabase<DB>) {
    for statement in [
        include_str!("../../sql/writer/shelves.sql"),
        include_str!("../../sql/writer/batches.sql"),
        include_str!("../../sql/writer/items.sql"),
        include_str!("../../sql/writer/open.sql"),
    ] {
        database.execute(statement).await;
    }
}

/// Puts a batch on the shelf, in a transaction that is the caller's.
pub(super) async fn write<DB: Shelves>(connection: &mut DB::Connection, batch: &Batch) -> sqlx::Result<()> {
    let note = sql::<DB>(include_str!("../../sql/writer/note.sql"), include_str!("../../sql/writer/note_mysql.sql"));
    let item = sql::<DB>(include_str!("../../sql/writer/item.sql"), include_str!("../../sql/writer/item_mysql.sql"));
    Statement::new(include_str!("../../sql/writer/write.sql")).execute::<DB>(connection).await?;
    let note = Statement::new(note).bind(batch.token).bind(&*batch.owner).bind(&*batch.id);
    note.execute::<DB>(connection).await?;
    for number in 0..ITEMS {
        Statement::new(item).bind(&*batch.id).bind(number).execute::<DB>(connection).await?;
    }
    Ok(())
}

/// All batches in the order in which they were applied, and those that are not whole.
pub(super) async fn history<DB: Shelves>(database: &TestDatabase<DB>) -> anyhow::Result<(Vec<Batch>, Vec<String>)> {
    let mut connection = database.pool.acquire().await?;
    let rows = Statement::new(include_str!("../../sql/writer/history.sql")).fetch_all::<DB>(&mut connection).await?;
    let batches = rows.iter().map(|row| Ok(Batch { token: row.int(0)?, owner: row.text(1)?, id: row.text(2)? }));
    let batches = batches.collect::<Result<_, sqlx::Error>>()?;
    let rows = Statement::new(include_str!("../../sql/writer/halves.sql")).fetch_all::<DB>(&mut connection).await?;
    let halves = rows.iter().map(|row| row.text(0)).collect::<Result<_, sqlx::Error>>()?;
    Ok((batches, halves))
}
