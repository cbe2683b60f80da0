//! O10: a value that was loaded before a bulk update may not overwrite it.

use leastlock_occ::{Conflict, Stored, Update, Version};
use leastlock_testkit::{TestDatabase, TestEngine};

use super::items::{Item, all, raw};

/// Gives each item five units.
pub(crate) trait GivesToAll<DB: TestEngine> {
    async fn give(database: &TestDatabase<DB>, items: &[Item]);
}

pub(crate) struct Raises;

impl<DB: TestEngine> GivesToAll<DB> for Raises
where
    Item: Stored<DB>,
{
    async fn give(database: &TestDatabase<DB>, items: &[Item]) {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let given = Item::update_many(&mut tx, items, |item| item.units += 5).await.expect("outcomes");
        for (given, before) in given.into_iter().zip(items) {
            assert_eq!(given.into_result().map(|item| item.units), Ok(before.units + 5));
        }
        tx.commit().await.expect("the commit");
    }
}

/// Opted out by name, which is the double as well: who uses it where others decide by these columns loses updates.
pub(crate) struct Keeps;

impl<DB: TestEngine> GivesToAll<DB> for Keeps
where
    Item: Stored<DB>,
{
    async fn give(database: &TestDatabase<DB>, items: &[Item]) {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let given = Item::update_many_keeping_versions(&mut tx, items, |item| item.units += 5).await;
        for (given, before) in given.expect("outcomes").into_iter().zip(items) {
            assert_eq!(given.into_result().map(|item| item.version), Ok(before.version));
        }
        tx.commit().await.expect("the commit");
    }
}

/// Raw SQL: seen if there is the trigger, and the double where there is none.
pub(crate) struct Raw;

impl<DB: TestEngine> GivesToAll<DB> for Raw {
    async fn give(database: &TestDatabase<DB>, items: &[Item]) {
        let rows = raw(database, "UPDATE item SET units = units + 5").await;
        assert_eq!(rows, u64::try_from(items.len()).expect("few"));
    }
}

/// Loads, lets all be given to, and writes what it had loaded less ten.
pub(crate) async fn written_after_a_bulk_update<DB: TestEngine, I: GivesToAll<DB>>(
    database: &TestDatabase<DB>,
) -> Result<(), String>
where
    Item: Stored<DB>,
{
    let items = all(database, 3).await;
    I::give(database, &items).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let outcome = items[1].update(&mut *connection, |item| item.units -= 10).await.expect("an outcome");
    let expected = items[1].version;
    let stale = Conflict::Stale { expected, actual: Version::new(expected.as_i64() + 1) };
    if outcome == Update::Conflict(stale) { Ok(()) } else { Err(format!("{outcome:?} instead of {stale}")) }
}
