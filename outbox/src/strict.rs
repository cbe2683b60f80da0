//! Strict mode: a lock per (topic, key), so that writers of a key take turns whatever else they lock.

use std::collections::BTreeSet;
use std::future::Future;

use leastlock_core::Dialect;

use crate::error::Error;
use crate::event::Event;
use crate::shard::lock_of;

/// A lock is an entry in PostgreSQL's lock table, which has room for 64 a connection unless it is set up otherwise
/// (`max_locks_per_transaction`) and is shared by all of them. SQL of another transaction fails where it is full.
pub(crate) const MAX_KEYS: usize = 1_000;

/// Locks keys to the end of a transaction.
///
/// # Contract
/// [`lock`](Self::lock) answers once this transaction holds the lock of every number given. It takes them in the order given, and keeps
/// them until the transaction, or the savepoint that it was called in, has ended: a commit is visible to others before its locks are free.
pub trait KeyLockSql: Dialect {
    /// Takes the locks, in the order given.
    fn lock(connection: &mut Self::Connection, keys: &[i64]) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// Locks the keys of events in an order that all transactions share, so that no two of them deadlock by these locks, if
/// each does it once.
pub(crate) async fn lock_keys<'e, DB: KeyLockSql>(
    connection: &mut DB::Connection,
    events: impl Iterator<Item = &'e Event>,
) -> Result<(), Error> {
    let key = |event: &Event| event.key.as_deref().map(|key| lock_of(&event.topic, key));
    let keys: BTreeSet<i64> = events.filter_map(key).collect();
    if keys.len() > MAX_KEYS {
        return Err(Error::TooManyKeys { keys: keys.len(), limit: MAX_KEYS });
    }
    if keys.is_empty() {
        return Ok(());
    }
    let keys: Vec<i64> = keys.into_iter().collect();
    DB::lock(connection, &keys).await.map_err(Error::database::<DB>)
}

#[cfg(feature = "postgres")]
impl KeyLockSql for sqlx::Postgres {
    async fn lock(connection: &mut Self::Connection, keys: &[i64]) -> Result<(), sqlx::Error> {
        let lock = include_str!("../sql/postgres/lock_keys.sql");
        leastlock_core::Statement::new(lock).bind(keys).execute::<Self>(connection).await.map(drop)
    }
}

#[cfg(feature = "sqlite")]
impl KeyLockSql for sqlx::Sqlite {
    /// Who writes holds the lock of the whole file already.
    async fn lock(_: &mut Self::Connection, _: &[i64]) -> Result<(), sqlx::Error> {
        Ok(())
    }
}

#[cfg(feature = "mysql")]
impl KeyLockSql for sqlx::MySql {
    /// `GET_LOCK` would be the connection's, not the transaction's. So a key has one of 4,096 rows, by its first twelve bits, and
    /// locks that.
    async fn lock(connection: &mut Self::Connection, keys: &[i64]) -> Result<(), sqlx::Error> {
        let slots: BTreeSet<u64> = keys.iter().map(|key| key.cast_unsigned() >> (64 - 12)).collect();
        let slots = serde_json::Value::from_iter(slots).to_string();
        let lock = include_str!("../sql/mysql/lock_keys.sql");
        leastlock_core::Statement::new(lock).bind(&slots).fetch_all::<Self>(connection).await.map(drop)
    }
}
