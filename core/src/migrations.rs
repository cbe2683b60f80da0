//! Each crate's own tables, with its own history.
//!
//! The history stands in `leastlock_<crate>_migrations`, never in `_sqlx_migrations`, so that it can live beside the
//! application's. sqlx's migrator does the work: it takes a lock on PostgreSQL, runs each file in its own transaction and
//! keeps checksums. MySQL and MariaDB commit with every table that is made, so there a file that failed may be there in part; its
//! version is then marked as unfinished, and sqlx refuses to go on until somebody has looked at it.

use std::borrow::Cow;

use sqlx::migrate::{MigrateError, Migration as SqlxMigration, MigrationType, Migrator};
use sqlx::{Pool, SqlSafeStr};

use crate::dialect::{Dialect, Engine};

/// One migration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its number, from 1, in the order of application.
    pub version: i64,
    /// What it does, in a word or two.
    pub name: &'static str,
    /// Its statements.
    pub sql: &'static str,
}

/// The migrations of one crate for every engine.
///
/// Never run in a caller's transaction: [`run`](Self::run) takes the pool.
#[derive(Debug, Clone, Copy)]
pub struct Migrations {
    /// The history table.
    pub table: &'static str,
    /// The files for PostgreSQL.
    pub postgres: &'static [Migration],
    /// The files for SQLite.
    pub sqlite: &'static [Migration],
    /// The files for MySQL and MariaDB.
    pub mysql: &'static [Migration],
}

impl Migrations {
    /// Applies what the history does not name yet. Doing it twice changes nothing.
    ///
    /// # Errors
    /// [`MigrationError::Unsupported`] if there are none for this engine; [`MigrationError::Apply`] with what the database or
    /// the checksums said.
    ///
    /// # Cancel safety
    /// A file is applied whole or not at all; run it again. On MySQL and MariaDB see [`MigrationError::Apply`].
    pub async fn run<DB: Dialect>(&self, pool: &Pool<DB>) -> Result<(), MigrationError> {
        DB::migrate(pool, self.table, self.some_files(DB::ENGINE)?).await
    }

    /// Checks, without changing anything, that every migration is applied as it is written here.
    ///
    /// # Errors
    /// [`MigrationError::Missing`] or [`MigrationError::Differs`] name the first that is not; [`MigrationError::Unsupported`] if
    /// there are none for this engine.
    pub async fn validate<DB: Dialect>(&self, pool: &Pool<DB>) -> Result<(), MigrationError> {
        let table = self.table;
        let files = self.some_files(DB::ENGINE)?;
        let read = |source| MigrationError::Read { table, source };
        let mut connection = pool.acquire().await.map_err(read)?;
        let history = format!("SELECT version, checksum FROM {table} WHERE success");
        let applied = DB::history(&mut connection, history).await.map_err(read)?;
        for expected in migrator(table, files).iter() {
            match applied.iter().find(|(version, _)| *version == expected.version) {
                None => return Err(MigrationError::Missing { table, version: expected.version }),
                Some((_, checksum)) if checksum[..] != expected.checksum[..] => {
                    return Err(MigrationError::Differs { table, version: expected.version });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// The plain SQL, for those who run migrations with a tool of their own; none if the crate does not support the engine.
    #[must_use]
    pub fn files(&self, engine: Engine) -> &'static [Migration] {
        match engine {
            Engine::Postgres => self.postgres,
            Engine::Sqlite => self.sqlite,
            Engine::MySql => self.mysql,
        }
    }

    /// No files would be applied with success, and the first statement would miss its table.
    fn some_files(&self, engine: Engine) -> Result<&'static [Migration], MigrationError> {
        let files = self.files(engine);
        if files.is_empty() { Err(MigrationError::Unsupported { table: self.table, engine }) } else { Ok(files) }
    }
}

/// Why a crate's tables are not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// A migration could not be applied.
    ///
    /// Nothing of the failing file was kept. MySQL and MariaDB cannot undo a table that was made: there, see what the file has
    /// left, remove it, and delete the row of its version from the history.
    #[error("migrations of {table} could not be applied")]
    Apply {
        /// The history table.
        table: &'static str,
        /// What the database said.
        #[source]
        source: MigrateError,
    },
    /// The crate has no tables for this engine.
    #[error("{table} has no migrations for {engine:?}: the crate does not support that engine")]
    Unsupported {
        /// The history table.
        table: &'static str,
        /// The engine of the pool.
        engine: Engine,
    },
    /// The history could not be read: most likely no migration was ever run.
    #[error("the migration history {table} could not be read; run the crate's MIGRATIONS first")]
    Read {
        /// The history table.
        table: &'static str,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// A migration has not been applied.
    #[error("migration {version} is missing in {table}; run the crate's MIGRATIONS")]
    Missing {
        /// The history table.
        table: &'static str,
        /// The missing one.
        version: i64,
    },
    /// A migration was applied in another wording.
    #[error("migration {version} in {table} was applied with other statements than this build has")]
    Differs {
        /// The history table.
        table: &'static str,
        /// The one that differs.
        version: i64,
    },
}

pub(crate) fn migrator(table: &'static str, files: &'static [Migration]) -> Migrator {
    let migrations = files.iter().map(|file| {
        let name = Cow::Borrowed(file.name);
        SqlxMigration::new(file.version, name, MigrationType::Simple, file.sql.into_sql_str(), false)
    });
    let mut migrator = Migrator::with_migrations(migrations.collect());
    migrator.dangerous_set_table_name(table);
    migrator
}
