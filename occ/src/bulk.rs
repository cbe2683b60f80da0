//! Many versioned rows at once: what the derived `load_many` and `update_many` do.

use std::iter;

use leastlock_core::Dialect;
use sqlx::{Connection, Transaction};

use crate::bound::Bound;
use crate::conflict::{Conflict, Update};
use crate::error::Error;
use crate::row::{at_version, changed, version_of};
use crate::stored::{Stored, Versioned, Versions};
use crate::version::Version;

/// How many rows one checked bulk update takes: all are locked by one statement, because only one statement has an order.
pub const MAX_ROWS: usize = 512;

/// How many of them are written by one statement, all locked by then.
pub const UPDATED_AT_ONCE: usize = 64;

/// Reads the rows with these keys, each at the place of its key; `None` where there is none. No lock is taken.
///
/// More than [`MAX_ROWS`] keys are read by several statements, which at READ COMMITTED see several moments.
///
/// # Errors
/// [`Error::NullVersion`], [`Error::KeyComparesOtherwise`], [`Error::Database`].
///
/// # Cancel safety
/// Nothing is changed.
pub async fn load_many<C, T>(connection: &mut C, keys: &[T::Key<'_>]) -> Result<Vec<Option<T>>, Error>
where
    C: Connection<Database: Dialect>,
    T: Stored<C::Database>,
{
    let mut loaded = Vec::with_capacity(keys.len());
    for keys in keys.chunks(MAX_ROWS) {
        let first = loaded.len();
        loaded.resize(first + keys.len(), None);
        let rows = C::Database::fetch_all_query(connection, T::select_many(keys)).await;
        for row in rows.map_err(Error::database::<C::Database>)? {
            let version = version_of::<C::Database, T>(&row)?;
            let value = T::read(&row, version).map_err(Error::database::<C::Database>)?;
            let mut is_asked_for = false;
            for (key, place) in keys.iter().zip(&mut loaded[first..]) {
                if T::is_same_key(*key, value.key()) {
                    is_asked_for = true;
                    *place = Some(value.clone());
                }
            }
            if !is_asked_for {
                return Err(Error::KeyComparesOtherwise { table: T::TABLE });
            }
        }
    }
    Ok(loaded)
}

/// Writes a change of each value whose row still has the version that was loaded, raises those versions by one, and
/// answers row by row, in the order of `loaded`: [`Applied`](Update::Applied), [`Stale`](Conflict::Stale) or
/// [`Gone`](Conflict::Gone). The rows that meet a conflict are not written, the others are; whoever wants all or nothing
/// rolls back.
///
/// First one statement locks all rows in the order of their key (`SELECT … ORDER BY key FOR UPDATE`; on PostgreSQL `FOR NO KEY UPDATE`, which lets others
/// insert rows that refer to these), so that any number of
/// bulk updates of the same rows wait for each other and never deadlock, in whatever order they name them. (Without it two
/// such deadlock, as PostgreSQL's manual, 13.3.4, has it.) Then the versions are known and cannot change, and one
/// `UPDATE` for each [`UPDATED_AT_ONCE`] rows writes those that match. Two bulk updates in one transaction, or a row that is written
/// before one, take locks in an order of the caller's again.
///
/// On MySQL the key must be the table's `PRIMARY KEY`: `InnoDB` locks in the order of the index that it reads, so it is named. On
/// SQLite the transaction's write lock stands for all; begin it with `BEGIN IMMEDIATE`.
///
/// The change is applied to a copy of each value, once, before any SQL; see [`row::update`](crate::row::update) for what it
/// may do. No version is raised by accident of its absence: the form that does not is called
/// [`update_many_keeping_versions`].
///
/// # Errors
/// Before any SQL: [`Error::TooManyRows`], [`Error::SameRowTwice`], [`Error::KeyChanged`], [`Error::VersionOverflow`].
/// Then [`Error::Database`], [`Error::NullVersion`], [`Error::KeyComparesOtherwise`]; and [`Error::RowsOutOfBounds`] if a
/// trigger or policy kept a row from being written or the key is not unique, after which the transaction cannot commit
/// (see [`BoundedQuery::execute`](crate::BoundedQuery::execute)).
///
/// # Cancel safety
/// Dropped half-way, some rows may have been written: drop the transaction as well, do not commit it.
pub async fn update_many<DB, T>(
    transaction: &mut Transaction<'_, DB>,
    loaded: &[T],
    change: impl FnMut(&mut T),
) -> Result<Vec<Update<T>>, Error>
where
    DB: Dialect,
    T: Stored<DB>,
{
    write_many(transaction, loaded, change, Versions::Raised).await
}

/// As [`update_many`], checked and locked alike, but the versions stay as they are: values that others have loaded remain
/// valid, and their updates *overwrite* what is written here.
///
/// For maintenance that no other writer's decision depends on, such as filling a new column. Where the table has the
/// trigger of [`bump_version`](crate::bump_version), that raises the versions all the same.
///
/// # Errors
/// As [`update_many`].
///
/// # Cancel safety
/// As [`update_many`].
pub async fn update_many_keeping_versions<DB, T>(
    transaction: &mut Transaction<'_, DB>,
    loaded: &[T],
    change: impl FnMut(&mut T),
) -> Result<Vec<Update<T>>, Error>
where
    DB: Dialect,
    T: Stored<DB>,
{
    write_many(transaction, loaded, change, Versions::Kept).await
}

async fn write_many<DB, T>(
    transaction: &mut Transaction<'_, DB>,
    loaded: &[T],
    change: impl FnMut(&mut T),
    versions: Versions,
) -> Result<Vec<Update<T>>, Error>
where
    DB: Dialect,
    T: Stored<DB>,
{
    let values = all_changed(loaded, change)?;
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let found = lock::<DB, T>(transaction, loaded).await?;
    let is_current = |(loaded, found): &(&T, &Option<Version>)| **found == Some(loaded.version());
    let matching: Vec<_> = loaded.iter().zip(&found).map(|pair| is_current(&pair)).collect();
    let written: Vec<_> =
        values.iter().zip(&matching).filter(|(_, matches)| **matches).map(|(value, _)| value).collect();
    for rows in written.chunks(UPDATED_AT_ONCE) {
        let changed =
            DB::run_query(transaction, T::update_many(rows, versions)).await.map_err(Error::database::<DB>)?;
        let expected = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        if changed != expected {
            DB::poison(transaction).await.map_err(Error::database::<DB>)?;
            return Err(Error::RowsOutOfBounds { expected: Bound::Exactly(expected), actual: changed });
        }
    }
    let mut made = Vec::new();
    if T::HAS_READ_ONLY && !written.is_empty() {
        let keys: Vec<_> = written.iter().map(|value| value.key()).collect();
        made = load_many::<_, T>(&mut **transaction, &keys).await?;
    }
    let mut made = made.into_iter();
    let mut outcomes = Vec::with_capacity(values.len());
    for ((mut value, found), matches) in values.into_iter().zip(found).zip(matching) {
        let expected = value.version();
        outcomes.push(match (found, matches) {
            (_, true) => {
                let next = if versions == Versions::Raised { expected.next()? } else { expected };
                if let Some(made) = made.next().flatten() {
                    value.adopt(made);
                }
                Update::Applied(at_version(value, next))
            }
            (Some(actual), false) => Update::Conflict(Conflict::Stale { expected, actual }),
            (None, false) => Update::Conflict(Conflict::Gone),
        });
    }
    Ok(outcomes)
}

/// Changed copies, at the versions that were loaded; all that can be refused before any SQL is.
fn all_changed<T: Versioned>(loaded: &[T], mut change: impl FnMut(&mut T)) -> Result<Vec<T>, Error> {
    if loaded.len() > MAX_ROWS {
        return Err(Error::TooManyRows { table: T::TABLE, given: loaded.len(), limit: MAX_ROWS });
    }
    let mut values = Vec::with_capacity(loaded.len());
    for (n, row) in loaded.iter().enumerate() {
        if loaded[..n].iter().any(|earlier| T::is_same_key(earlier.key(), row.key())) {
            return Err(Error::SameRowTwice { table: T::TABLE });
        }
        row.version().next()?;
        values.push(at_version(changed(row, &mut change)?, row.version()));
    }
    Ok(values)
}

/// Locks the rows in the order of their key; answers the version that each has, at the place of the value.
async fn lock<DB, T>(transaction: &mut Transaction<'_, DB>, loaded: &[T]) -> Result<Vec<Option<Version>>, Error>
where
    DB: Dialect,
    T: Stored<DB>,
{
    let keys: Vec<_> = loaded.iter().map(Versioned::key).collect();
    let rows = DB::fetch_all_query(transaction, T::lock_many(&keys)).await.map_err(Error::database::<DB>)?;
    let mut found = vec![None; keys.len()];
    for row in rows {
        let version = version_of::<DB, T>(&row)?;
        let key = T::read_key(&row).map_err(Error::database::<DB>)?;
        let place = keys.iter().position(|asked| T::is_same_key(*asked, T::borrowed(&key)));
        let place = place.ok_or(Error::KeyComparesOtherwise { table: T::TABLE })?;
        found[place] = Some(version);
    }
    Ok(found)
}

/// The smallest text that has room for `rows` rows, and how many it has.
#[doc(hidden)]
#[must_use]
pub fn sized(texts: &'static [(usize, &'static str)], rows: usize) -> (&'static str, usize) {
    let fitting = texts.iter().find(|(size, _)| *size >= rows).or(texts.last());
    fitting.map_or(("", 0), |(size, text)| (*text, *size))
}

/// The rows, the last one repeated until there are `size`.
#[doc(hidden)]
pub fn padded<T>(rows: &[T], size: usize) -> impl Iterator<Item = &T> {
    rows.iter().chain(iter::repeat_with(|| rows.last()).flatten()).take(if rows.is_empty() { 0 } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_padded_to_the_smallest_text_that_holds_it() {
        const TEXTS: &[(usize, &str)] = &[(2, "two"), (4, "four")];
        assert_eq!([1, 2, 3, 4].map(|rows| sized(TEXTS, rows)), [("two", 2), ("two", 2), ("four", 4), ("four", 4)]);
        assert_eq!(padded(&[1, 2, 3], 4).collect::<Vec<_>>(), [&1, &2, &3, &3]);
        assert_eq!(padded::<i32>(&[], 4).count(), 0);
    }
}
