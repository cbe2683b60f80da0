//! PostgreSQL 13 or later.

use sqlx::error::DatabaseError;
use sqlx::query::Query;
use sqlx::{Pool, Postgres};

use super::driver::driver_methods;
use super::{Dialect, Engine, sealed};
use crate::error_class::ErrorClass;
use crate::migrations::{Migration, MigrationError};
use crate::statement::{Param, Row, Statement};

/// Fails by design; an aborted transaction refuses every further statement, and its `COMMIT` is a `ROLLBACK`.
const POISON: &str = include_str!("../sql/postgres/poison.sql");

impl sealed::Sealed for Postgres {}

impl Dialect for Postgres {
    const ENGINE: Engine = Engine::Postgres;
    const BEGIN_WRITE: &'static str = include_str!("../sql/postgres/begin_write.sql");

    fn class_of(error: &dyn DatabaseError) -> ErrorClass {
        error.code().map_or(ErrorClass::Other, |code| class_of(&code))
    }

    async fn probe(connection: &mut Self::Connection) -> Result<(), sqlx::Error> {
        // Fails with 25P02 in an aborted transaction.
        sqlx::query("SELECT 1").execute(connection).await.map(|_| ())
    }

    async fn mark(_: &mut Self::Connection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn poison(connection: &mut Self::Connection) -> Result<(), sqlx::Error> {
        match sqlx::raw_sql(POISON).execute(connection).await {
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("LL001") => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(sqlx::Error::Protocol("a statement that always fails did not fail".into())),
        }
    }

    fn query(statement: Statement<'_>) -> Result<Query<'static, Self, Self::Arguments>, sqlx::Error> {
        let mut query = sqlx::query(statement.sql);
        for param in statement.params {
            match param {
                Param::Text(value) => query.try_bind(value),
                Param::Bytes(value) => query.try_bind(value),
                Param::Int(value) => query.try_bind(value),
                Param::IntArray(values) => query.try_bind(values),
                Param::TextArray(values) => query.try_bind(values),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        Ok(query)
    }

    driver_methods!();
}

fn class_of(code: &str) -> ErrorClass {
    match code {
        "40001" => ErrorClass::SerializationFailure,
        "40P01" => ErrorClass::Deadlock,
        "55P03" => ErrorClass::LockTimeout,
        "57014" => ErrorClass::StatementTimeout,
        "23505" => ErrorClass::UniqueViolation,
        // idle_in_transaction_session_timeout, the other session time-outs, and the administrator's commands
        "25P03" | "25P04" | "57P01" | "57P02" | "57P03" | "57P05" => ErrorClass::ConnectionLost,
        // read-only, and no disk, memory or connection left
        "25006" | "53100" | "53200" | "53300" => ErrorClass::Unavailable,
        code if code.starts_with("08") => ErrorClass::ConnectionLost,
        _ => ErrorClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_manual_have_their_class() {
        for (code, class) in [
            ("40001", ErrorClass::SerializationFailure),
            ("40P01", ErrorClass::Deadlock),
            ("55P03", ErrorClass::LockTimeout),
            ("57014", ErrorClass::StatementTimeout),
            ("23505", ErrorClass::UniqueViolation),
            ("25P03", ErrorClass::ConnectionLost),
            ("08006", ErrorClass::ConnectionLost),
            ("25006", ErrorClass::Unavailable),
            ("53100", ErrorClass::Unavailable),
            ("53200", ErrorClass::Unavailable),
            ("53300", ErrorClass::Unavailable),
            ("53400", ErrorClass::Other),
            ("42601", ErrorClass::Other),
        ] {
            assert_eq!(class_of(code), class, "{code}");
        }
    }
}
