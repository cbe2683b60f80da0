//! SQLite 3.35 or later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::error::DatabaseError;
use sqlx::query::Query;
use sqlx::{Pool, Sqlite};

use super::driver::driver_methods;
use super::{Dialect, Engine, sealed};
use crate::error_class::ErrorClass;
use crate::migrations::{Migration, MigrationError};
use crate::statement::{Param, Row, Statement};

/// Together they make a row that no `COMMIT` accepts.
const POISON_TABLE: &str = include_str!("../sql/sqlite/poison_table.sql");
const POISON_ROW: &str = include_str!("../sql/sqlite/poison_row.sql");

impl sealed::Sealed for Sqlite {}

impl Dialect for Sqlite {
    const ENGINE: Engine = Engine::Sqlite;
    const BEGIN_WRITE: &'static str = "BEGIN IMMEDIATE";

    fn class_of(error: &dyn DatabaseError) -> ErrorClass {
        error.code().map_or(ErrorClass::Other, |code| class_of(&code))
    }

    /// SQLite has no aborted state, so a temporary row breaks a deferred foreign key: `COMMIT` fails until the transaction,
    /// or the savepoint in which this was called, is rolled back.
    ///
    /// Where `foreign_keys` is off (it is on by default in sqlx), a commit hook stands in for it. It replaces the hooks that
    /// the application had set on this connection, and a `COMMIT` that it refuses ends the transaction behind sqlx's
    /// back, which then takes the connection to be in a transaction for good: close it.
    async fn poison(connection: &mut Self::Connection) -> Result<(), sqlx::Error> {
        let enforced: bool = sqlx::query_scalar("PRAGMA foreign_keys").fetch_one(&mut *connection).await?;
        if enforced {
            sqlx::raw_sql(POISON_TABLE).execute(&mut *connection).await?;
            sqlx::raw_sql(POISON_ROW).execute(connection).await?;
            return Ok(());
        }
        let poisoned = Arc::new(AtomicBool::new(true));
        let lifted = Arc::clone(&poisoned);
        let mut handle = connection.lock_handle().await?;
        handle.set_commit_hook(move || !poisoned.load(Ordering::SeqCst));
        handle.set_rollback_hook(move || lifted.store(false, Ordering::SeqCst));
        Ok(())
    }

    /// Nothing ends a transaction without sqlx's or the caller's doing, and a poisoned one fails in its `COMMIT`.
    async fn probe(_: &mut Self::Connection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn mark(_: &mut Self::Connection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    fn query(statement: Statement<'_>) -> Result<Query<'static, Self, Self::Arguments>, sqlx::Error> {
        let mut query = sqlx::query(statement.sql);
        for param in statement.params {
            match param {
                Param::Text(value) => query.try_bind(value.map(str::to_owned)),
                Param::Bytes(value) => query.try_bind(value.map(<[u8]>::to_vec)),
                Param::Int(value) => query.try_bind(value),
                Param::IntArray(_) | Param::TextArray(_) => Err("SQLite has no arrays".into()),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        Ok(query)
    }

    driver_methods!();
}

fn class_of(code: &str) -> ErrorClass {
    // The low byte is the primary result code ("Result and Error Codes", section 2 of SQLite's manual).
    match code.parse::<i32>() {
        Ok(517) => ErrorClass::SerializationFailure,
        Ok(2067 | 1555) => ErrorClass::UniqueViolation,
        Ok(extended) if matches!(extended & 0xff, 5 | 6) => ErrorClass::Busy,
        // SQLITE_FULL
        Ok(13) => ErrorClass::Unavailable,
        _ => ErrorClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_the_manual_have_their_class() {
        for (code, class) in [
            ("5", ErrorClass::Busy),
            ("261", ErrorClass::Busy),
            ("13", ErrorClass::Unavailable),
            ("6", ErrorClass::Busy),
            ("517", ErrorClass::SerializationFailure),
            ("2067", ErrorClass::UniqueViolation),
            ("1555", ErrorClass::UniqueViolation),
            ("1", ErrorClass::Other),
        ] {
            assert_eq!(class_of(code), class, "{code}");
        }
    }
}
