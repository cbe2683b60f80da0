//! MariaDB 10.6 or later; MySQL 8 is expected to work and is not tested.

use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sqlx::query::Query;
use sqlx::{Column, Connection, Decode, MySql, Pool, Type};

use super::driver::migration_methods;
use super::{Dialect, Engine, sealed};
use crate::error_class::ErrorClass;
use crate::migrations::{Migration, MigrationError};
use crate::statement::{Param, Row, Statement};

const POISON: &str = include_str!("../sql/mysql/poison.sql");

/// A savepoint that lives just as long as the transaction does.
const MARK: &str = "SAVEPOINT leastlock_open";
const PROBE: &str = "RELEASE SAVEPOINT leastlock_open";

impl sealed::Sealed for MySql {}

impl Dialect for MySql {
    const ENGINE: Engine = Engine::MySql;

    /// One text of four statements, because sqlx begins with one. `SET TRANSACTION` without `SESSION` holds for the next
    /// transaction only. It is an error inside of one, and a `begin` of sqlx's that was dropped half-way leaves one open on a
    /// pooled connection, unseen: hence the `ROLLBACK`, which does nothing otherwise. The savepoint is what [`probe`](Self::probe) looks for.
    const BEGIN_WRITE: &'static str = "ROLLBACK; SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; \
        SAVEPOINT leastlock_open";

    fn class_of(error: &dyn DatabaseError) -> ErrorClass {
        number_of(error).map_or(ErrorClass::Other, class_of)
    }

    /// What the transaction has done is undone at once, outer transactions included, and it becomes one that only reads: every
    /// further write fails (`1792`) and `COMMIT`, which sqlx reports as `Ok`, commits nothing. Rolling back a savepoint that
    /// was open fails (`1305`), since it is gone.
    async fn poison(connection: &mut Self::Connection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(POISON).execute(connection).await?;
        Ok(())
    }

    /// Fails (`1305`) unless the transaction is the one that was marked: a deadlock, DDL, `ROLLBACK` and [`poison`](Self::poison) all
    /// take the savepoint along.
    async fn probe(connection: &mut Self::Connection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(PROBE).execute(connection).await.map(|_| ())
    }

    async fn mark(connection: &mut Self::Connection) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(MARK).execute(connection).await.map(|_| ())
    }

    fn query(statement: Statement<'_>) -> Result<Query<'static, Self, Self::Arguments>, sqlx::Error> {
        let mut query = sqlx::query(statement.sql);
        for param in statement.params {
            match param {
                Param::Text(value) => query.try_bind(value),
                Param::Bytes(value) => query.try_bind(value),
                Param::Int(value) => query.try_bind(value),
                Param::IntArray(_) | Param::TextArray(_) => Err("MySQL has no arrays".into()),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        Ok(query)
    }

    async fn run(connection: &mut Self::Connection, statement: Statement<'_>) -> Result<u64, sqlx::Error> {
        Self::run_query(connection, Self::query(statement)?).await
    }

    async fn fetch(connection: &mut Self::Connection, statement: Statement<'_>) -> Result<Vec<Row<Self>>, sqlx::Error> {
        let rows = Self::query(statement)?.fetch_all(&mut *connection).await;
        Ok(kept_in_transaction(connection, rows).await?.into_iter().map(Row).collect())
    }

    async fn run_query<'q>(
        connection: &'q mut Self::Connection,
        query: Query<'q, Self, Self::Arguments>,
    ) -> Result<u64, sqlx::Error> {
        let result = query.execute(&mut *connection).await;
        Ok(kept_in_transaction(connection, result).await?.rows_affected())
    }

    async fn fetch_query<'q>(
        connection: &'q mut Self::Connection,
        query: Query<'q, Self, Self::Arguments>,
    ) -> Result<Option<Row<Self>>, sqlx::Error> {
        let row = query.fetch_optional(&mut *connection).await;
        Ok(kept_in_transaction(connection, row).await?.map(Row))
    }

    async fn fetch_all_query<'q>(
        connection: &'q mut Self::Connection,
        query: Query<'q, Self, Self::Arguments>,
    ) -> Result<Vec<Row<Self>>, sqlx::Error> {
        let rows = query.fetch_all(&mut *connection).await;
        Ok(kept_in_transaction(connection, rows).await?.into_iter().map(Row).collect())
    }

    /// Keys are VARBINARY, which sqlx does not take for text, so text is read as bytes and checked here.
    fn text(row: &MySqlRow, index: usize) -> Result<Option<String>, sqlx::Error> {
        let Some(bytes) = Self::bytes(row, index)? else { return Ok(None) };
        let text = String::from_utf8(bytes);
        text.map(Some).map_err(|source| sqlx::Error::ColumnDecode { index: index.to_string(), source: source.into() })
    }

    fn int(row: &MySqlRow, index: usize) -> Result<Option<i64>, sqlx::Error> {
        sqlx::Row::try_get(row, index)
    }

    fn bytes(row: &MySqlRow, index: usize) -> Result<Option<Vec<u8>>, sqlx::Error> {
        sqlx::Row::try_get(row, index)
    }

    /// As [`text`](Self::text): whatever is text in Rust may stand in a column of bytes.
    fn value<'r, T>(row: &'r MySqlRow, index: usize) -> Result<T, sqlx::Error>
    where
        T: Decode<'r, Self> + Type<Self>,
    {
        let is_text = T::type_info() == <str as Type<Self>>::type_info();
        if is_text && <[u8] as Type<Self>>::compatible(sqlx::Row::try_column(row, index)?.type_info()) {
            sqlx::Row::try_get_unchecked(row, index)
        } else {
            sqlx::Row::try_get(row, index)
        }
    }

    migration_methods!();
}

/// After an error with which the server has ended the transaction: sqlx goes on counting it as open, and the next
/// statements would each commit by themselves. Makes them fail, as PostgreSQL does.
async fn kept_in_transaction<T>(
    connection: &mut sqlx::MySqlConnection,
    result: Result<T, sqlx::Error>,
) -> Result<T, sqlx::Error> {
    if let Err(sqlx::Error::Database(error)) = &result
        && matches!(MySql::class_of(error.as_ref()), ErrorClass::Deadlock | ErrorClass::SerializationFailure)
        && connection.is_in_transaction()
    {
        // If this fails the connection is gone, and the transaction with it; the caller hears what came first.
        let _ = MySql::poison(connection).await;
    }
    result
}

/// The SQLSTATE tells too little apart: `HY000` is a lock's time-out and a lost connection, `40001` a deadlock only.
fn number_of(error: &dyn DatabaseError) -> Option<u16> {
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

fn class_of(number: u16) -> ErrorClass {
    match number {
        // ER_CHECKREAD: with `innodb_snapshot_isolation`, a row was changed since the snapshot
        1020 => ErrorClass::SerializationFailure,
        1213 | 1614 => ErrorClass::Deadlock,
        // 3572 is MySQL's for NOWAIT
        1205 | 3572 => ErrorClass::LockTimeout,
        // KILL QUERY; MariaDB's max_statement_time; MySQL's max_execution_time
        1317 | 1969 | 3024 => ErrorClass::StatementTimeout,
        1022 | 1062 | 1169 | 1586 | 1859 => ErrorClass::UniqueViolation,
        // shutdown, the network as the server saw it, KILL, MySQL's idle time-out; 2xxx come from proxies in between
        1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1927 | 2006 | 2013 | 2055 | 4031 => ErrorClass::ConnectionLost,
        // read-only, no disk, too many connections
        1290 | 1836 | 1021 | 1040 => ErrorClass::Unavailable,
        _ => ErrorClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_manual_have_their_class() {
        for (number, class) in [
            (1020, ErrorClass::SerializationFailure),
            (1213, ErrorClass::Deadlock),
            (1205, ErrorClass::LockTimeout),
            (1969, ErrorClass::StatementTimeout),
            (3024, ErrorClass::StatementTimeout),
            (1062, ErrorClass::UniqueViolation),
            (1927, ErrorClass::ConnectionLost),
            (2013, ErrorClass::ConnectionLost),
            (4031, ErrorClass::ConnectionLost),
            (1290, ErrorClass::Unavailable),
            (1836, ErrorClass::Unavailable),
            (1021, ErrorClass::Unavailable),
            (1040, ErrorClass::Unavailable),
            (1064, ErrorClass::Other),
            (1792, ErrorClass::Other),
        ] {
            assert_eq!(class_of(number), class, "{number}");
        }
    }
}
