//! Load, lock, insert, update and delete of a versioned row: what the derived methods do.

use leastlock_core::{Dialect, Engine, Row};
use sqlx::query::Query;
use sqlx::{Connection, Database, Transaction};

use crate::bound::Bound;
use crate::conflict::{Conflict, Delete, Update};
use crate::error::Error;
use crate::stored::{Stored, Versioned};
use crate::version::Version;

/// Reads the row with this key; `None` if there is none. No lock is taken.
///
/// # Errors
/// [`Error::NullVersion`], [`Error::VersionType`], [`Error::Database`].
///
/// # Cancel safety
/// Nothing is changed.
pub async fn load<C, T>(connection: &mut C, key: T::Key<'_>) -> Result<Option<T>, Error>
where
    C: Connection<Database: Dialect>,
    T: Stored<C::Database>,
{
    read(connection, T::select(key)).await
}

/// Reads the row with this key and locks it until the transaction ends, for several statements that must see it unchanged;
/// `None` if there is none. That keeps nobody from inserting one: a unique key does. (Under REPEATABLE READ, MySQL's default,
/// `InnoDB` locks the gap where the row would be; two transactions that find none and insert it then meet in a deadlock.)
///
/// It is the lock that an `UPDATE` takes which leaves the key alone: `FOR NO KEY UPDATE` on PostgreSQL, `FOR UPDATE` on MySQL. Others
/// can still read the row. On SQLite there is one write lock for all rows; it is taken here if the transaction did not begin
/// with it. The value is the row as it is under the lock, so an [`update`] that follows in this transaction meets no conflict.
///
/// Call nothing outside of the database while it is held: every other writer of the row waits for that call. Lock several rows
/// in one order everywhere. A process that stops keeps the lock as long as its transaction stays open: begin with
/// [`leastlock_core::begin`], which bounds its idling, or set `idle_in_transaction_session_timeout` yourself.
///
/// # Errors
/// [`Error::NullVersion`], [`Error::Database`]; under REPEATABLE READ a [`SerializationFailure`](leastlock_core::ErrorClass::SerializationFailure)
/// on PostgreSQL if the row was changed after the snapshot, and on SQLite if the transaction read before and somebody else has written since.
///
/// # Cancel safety
/// Nothing is changed; the row may be locked until the transaction ends.
pub async fn lock_row<DB, T>(transaction: &mut Transaction<'_, DB>, key: T::Key<'_>) -> Result<Option<T>, Error>
where
    DB: Dialect,
    T: Stored<DB>,
{
    if DB::ENGINE == Engine::Sqlite {
        DB::run_query(transaction, T::lock_file()).await.map_err(Error::database::<DB>)?;
    }
    read(&mut **transaction, T::lock(key)).await
}

async fn read<C, T>(
    connection: &mut C,
    query: Query<'static, C::Database, <C::Database as Database>::Arguments>,
) -> Result<Option<T>, Error>
where
    C: Connection<Database: Dialect>,
    T: Stored<C::Database>,
{
    let row = C::Database::fetch_query(connection, query).await.map_err(Error::database::<C::Database>)?;
    let Some(row) = row else { return Ok(None) };
    let version = version_of::<C::Database, T>(&row)?;
    T::read(&row, version).map(Some).map_err(Error::database::<C::Database>)
}

/// Inserts the row with version 1, whatever version the value has, and answers it with that version.
///
/// # Errors
/// [`Error::Database`], of class [`UniqueViolation`](leastlock_core::ErrorClass::UniqueViolation) if the key exists
/// already; [`Error::RowsOutOfBounds`] if a trigger suppressed the row.
///
/// # Cancel safety
/// Dropped half-way, the row may or may not have been inserted. A transaction rolls back when it is dropped.
pub async fn insert<C, T>(connection: &mut C, value: &T) -> Result<T, Error>
where
    C: Connection<Database: Dialect>,
    T: Stored<C::Database>,
{
    let query = value.insert(Version::FIRST);
    match C::Database::run_query(connection, query).await.map_err(Error::database::<C::Database>)? {
        1 => written(connection, at_version(value.clone(), Version::FIRST)).await,
        rows => Err(out_of_bounds(connection, rows).await?),
    }
}

/// Writes a change of a value, if its row still has the version that was loaded, and raises the version by one.
///
/// `loaded` is never changed: the new value is a new one, so a conflict, an error or a rollback leaves nothing to
/// restore. The change is applied to a copy, once; all columns but the key and the `read_only` ones are written. What it does
/// to the version field is overwritten.
///
/// A refused write is followed by a second statement that reads the version now in the table: the snapshot of the
/// first may still show the old one. On MySQL it is a locking read (`LOCK IN SHARE MODE`), which may wait for a writer, and
/// keeps the row from being written until the transaction ends. Where the isolation level refuses to write over an old snapshot (PostgreSQL from
/// REPEATABLE READ on, MariaDB with `innodb_snapshot_isolation`, SQLite in a transaction that read before it began to
/// write), a conflict is a retryable
/// [`Error::Database`] of class [`SerializationFailure`](leastlock_core::ErrorClass::SerializationFailure) instead.
///
/// # Errors
/// [`Error::KeyChanged`] and [`Error::VersionOverflow`] before any SQL; [`Error::Database`], [`Error::NullVersion`],
/// [`Error::Suppressed`]; [`Error::RowsOutOfBounds`] if the key is not unique in the table. The transaction, if there
/// is one, can then not commit (see [`BoundedQuery::execute`](crate::BoundedQuery::execute)); without one the rows
/// *are* written, so declare the key unique.
///
/// # Cancel safety
/// Dropped half-way, the row may or may not have been written. A transaction rolls back when it is dropped; without one,
/// load the row to know.
pub async fn update<C, T>(connection: &mut C, loaded: &T, change: impl FnOnce(&mut T)) -> Result<Update<T>, Error>
where
    C: Connection<Database: Dialect>,
    T: Stored<C::Database>,
{
    let next = loaded.version().next()?;
    let value = changed(loaded, change)?;
    let query = value.update(loaded.version());
    match C::Database::run_query(connection, query).await.map_err(Error::database::<C::Database>)? {
        0 => conflict(connection, loaded).await.map(Update::Conflict),
        1 => written(connection, at_version(value, next)).await.map(Update::Applied),
        rows => Err(out_of_bounds(connection, rows).await?),
    }
}

/// A changed copy of a value that was loaded.
pub(crate) fn changed<T: Versioned>(loaded: &T, change: impl FnOnce(&mut T)) -> Result<T, Error> {
    let mut value = loaded.clone();
    change(&mut value);
    let is_same_key = value.key() == loaded.key();
    if is_same_key { Ok(value) } else { Err(Error::KeyChanged { table: T::TABLE }) }
}

/// The value as written, with what the database has made of its `read_only` columns.
async fn written<C, T>(connection: &mut C, mut value: T) -> Result<T, Error>
where
    C: Connection<Database: Dialect>,
    T: Stored<C::Database>,
{
    if T::HAS_READ_ONLY {
        let query = T::select(value.key());
        let row = C::Database::fetch_query(connection, query).await.map_err(Error::database::<C::Database>)?;
        if let Some(row) = row {
            value.adopt(T::read(&row, value.version()).map_err(Error::database::<C::Database>)?);
        }
    }
    Ok(value)
}

/// Deletes the row, if it still has the version that was loaded.
///
/// # Errors
/// [`Error::Database`], [`Error::NullVersion`], [`Error::Suppressed`], [`Error::RowsOutOfBounds`], as for [`update`].
///
/// # Cancel safety
/// As for [`update`].
pub async fn delete<C, T>(connection: &mut C, loaded: &T) -> Result<Delete, Error>
where
    C: Connection<Database: Dialect>,
    T: Stored<C::Database>,
{
    let query = T::delete(loaded.key(), loaded.version());
    match C::Database::run_query(connection, query).await.map_err(Error::database::<C::Database>)? {
        0 => conflict(connection, loaded).await.map(Delete::Conflict),
        1 => Ok(Delete::Applied),
        rows => Err(out_of_bounds(connection, rows).await?),
    }
}

/// Tells a changed row from a missing one, after a write that found no row of the expected version.
async fn conflict<C, T>(connection: &mut C, loaded: &T) -> Result<Conflict, Error>
where
    C: Connection<Database: Dialect>,
    T: Stored<C::Database>,
{
    let query = T::actual(loaded.key());
    let row = C::Database::fetch_query(connection, query).await.map_err(Error::database::<C::Database>)?;
    let Some(row) = row else { return Ok(Conflict::Gone) };
    let (expected, actual) = (loaded.version(), version_of::<C::Database, T>(&row)?);
    if actual == expected {
        return Err(Error::Suppressed { table: T::TABLE });
    }
    Ok(Conflict::Stale { expected, actual })
}

pub(crate) fn version_of<DB: Dialect, T: Versioned>(row: &Row<DB>) -> Result<Version, Error> {
    Error::version_in(row, 0, (T::TABLE, T::VERSION_COLUMN))
}

pub(crate) fn at_version<T: Versioned>(mut value: T, version: Version) -> T {
    value.set_version(version);
    value
}

/// The error for a write that did not change exactly one row; keeps an open transaction from committing it.
pub(crate) async fn out_of_bounds<C>(connection: &mut C, actual: u64) -> Result<Error, Error>
where
    C: Connection<Database: Dialect>,
{
    if connection.is_in_transaction() {
        C::Database::poison(connection).await.map_err(Error::database::<C::Database>)?;
    }
    Ok(Error::RowsOutOfBounds { expected: Bound::Exactly(1), actual })
}
