//! The inbox's statements, per engine.

use std::future::Future;

use leastlock_core::Dialect;

/// An engine that keeps an inbox. Implemented wherever [`Dialect`] is.
///
/// # Contract
/// [`FIRST_TIME`](Self::FIRST_TIME) changes one row if the event is new to the consumer. If a committed row is there it changes none, or
/// fails as a violation of a unique key, and the transaction is usable. It waits for a transaction that has the same row.
pub trait InboxSql: Dialect {
    /// Marks an event: consumer, event id.
    const FIRST_TIME: &'static str;

    /// Deletes marks older than `retention_ms`, at most `batch`; answers how many.
    fn sweep(
        connection: &mut Self::Connection,
        retention_ms: i64,
        batch: i64,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

#[cfg(feature = "postgres")]
impl InboxSql for sqlx::Postgres {
    const FIRST_TIME: &'static str = include_str!("../../sql/postgres/inbox_first_time.sql");

    async fn sweep(connection: &mut Self::Connection, retention_ms: i64, batch: i64) -> Result<u64, sqlx::Error> {
        let sweep = leastlock_core::Statement::new(include_str!("../../sql/postgres/inbox_sweep.sql"));
        sweep.bind(retention_ms).bind(batch).execute::<Self>(connection).await
    }
}

#[cfg(feature = "sqlite")]
impl InboxSql for sqlx::Sqlite {
    const FIRST_TIME: &'static str = include_str!("../../sql/sqlite/inbox_first_time.sql");

    async fn sweep(connection: &mut Self::Connection, retention_ms: i64, batch: i64) -> Result<u64, sqlx::Error> {
        let sweep = leastlock_core::Statement::new(include_str!("../../sql/sqlite/inbox_sweep.sql"));
        sweep.bind(retention_ms).bind(batch).execute::<Self>(connection).await
    }
}

#[cfg(feature = "mysql")]
impl InboxSql for sqlx::MySql {
    const FIRST_TIME: &'static str = include_str!("../../sql/mysql/inbox_first_time.sql");

    async fn sweep(connection: &mut Self::Connection, retention_ms: i64, batch: i64) -> Result<u64, sqlx::Error> {
        let sweep = leastlock_core::Statement::new(include_str!("../../sql/mysql/inbox_sweep.sql"));
        let old = sweep.bind(retention_ms).bind(batch).fetch_all::<Self>(&mut *connection).await?;
        let keys: Vec<_> =
            old.iter().map(|row| Ok([row.text(0)?, row.text(1)?])).collect::<Result<_, sqlx::Error>>()?;
        let keys = serde_json::json!(keys).to_string();
        let delete = leastlock_core::Statement::new(include_str!("../../sql/mysql/inbox_delete.sql"));
        delete.bind(&keys).execute::<Self>(connection).await
    }
}
