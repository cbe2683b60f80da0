//! The rows of the cases.

use leastlock_core::Statement;
use leastlock_occ::{Stored, Version, Versioned};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

#[derive(Debug, Clone, PartialEq, Eq, Versioned)]
#[versioned(table = "item", key = "id", version = "version")]
pub(crate) struct Item {
    pub(crate) id: String,
    pub(crate) units: i64,
    #[versioned(column = "remark")]
    pub(crate) note: Option<String>,
    pub(crate) version: Version,
}

/// The table, with items `0000`, `0001` and so on at version 1, ten units each.
pub(crate) async fn item_table<DB: TestEngine>(database: &TestDatabase<DB>, items: usize)
where
    Item: Stored<DB>,
{
    let table = sql::<DB>(
        "CREATE TABLE item (id VARCHAR(20) PRIMARY KEY, units BIGINT NOT NULL, remark TEXT, version BIGINT NOT NULL)",
        "CREATE TABLE item (id VARBINARY(20) PRIMARY KEY, units BIGINT NOT NULL, remark TEXT, version BIGINT NOT NULL)",
    );
    database.execute(table).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    for n in 0..items {
        let item = Item { id: id(n), units: 10, note: None, version: Version::FIRST };
        item.insert(&mut *tx).await.expect("a row");
    }
    tx.commit().await.expect("the commit");
}

pub(crate) fn id(n: usize) -> String {
    format!("{n:04}")
}

/// All items, in the order of their key.
pub(crate) async fn all<DB: TestEngine>(database: &TestDatabase<DB>, items: usize) -> Vec<Item>
where
    Item: Stored<DB>,
{
    let mut connection = database.pool.acquire().await.expect("a connection");
    let ids: Vec<_> = (0..items).map(id).collect();
    let loaded = Item::load_many(&mut *connection, ids.iter().map(String::as_str)).await.expect("a read");
    loaded.into_iter().map(|item| item.expect("it was inserted")).collect()
}

/// A statement of somebody who knows nothing of versions.
pub(crate) async fn raw<DB: TestEngine>(database: &TestDatabase<DB>, text: &'static str) -> u64 {
    let mut connection = database.pool.acquire().await.expect("a connection");
    Statement::new(text).execute::<DB>(&mut connection).await.expect("it runs")
}
