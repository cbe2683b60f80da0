//! The optional trigger that refuses writers which bring no generation.

use sqlx::{AssertSqlSafe, Pool};

use super::{FencedTable, write_failed};
use crate::error::Error;
use crate::sql::LeaseSql;

impl<DB: LeaseSql> FencedTable<DB> {
    /// Has the database refuse every `UPDATE` and `DELETE` of the table that brings no generation, an older one than the row's, or
    /// the row's with another owner, whoever sends it: an old release, a script, a hand at a console.
    ///
    /// A writer brings its generation by setting the [brought column](super::TableBuilder::brought_column) to it beside the
    /// generation; what is made by [`update`](Self::update) does so, and the trigger sets the column back to NULL. A `DELETE` (and
    /// `TRUNCATE` on PostgreSQL) can bring none: mark rows as deleted, or delete while the trigger is [off](Self::allow_any_writer). An
    /// `INSERT` is let through, since there is nothing to compare it with, unless it goes over a row that is there.
    ///
    /// Without it every writer has to take part by itself: one that does not compare overwrites whatever stands there, and says
    /// nothing. With it the write fails: on PostgreSQL with 23000, on MariaDB and MySQL with 45000, on SQLite with 1811; the message
    /// begins with `leastlock:`.
    ///
    /// It is DDL on a connection of its own, and takes the table's lock for a moment: a part of the migrations, not of a request. Doing it
    /// again changes nothing. MariaDB and MySQL ask for the right `TRIGGER`.
    ///
    /// # Errors
    /// [`Error::Table`] without a brought column; [`Error::Write`].
    ///
    /// # Cancel safety
    /// Dropped, it may be there or not, on MariaDB and MySQL also in part. Do it again.
    pub async fn require_generation(&self, pool: &Pool<DB>) -> Result<(), Error> {
        self.run_ddl(pool, self.require_generation_sql()?, "make the trigger of a fenced table").await
    }

    /// The statements of [`require_generation`](Self::require_generation), for those who have migrations of their own. They name nothing
    /// of this crate's.
    ///
    /// # Errors
    /// [`Error::Table`] without a brought column.
    pub fn require_generation_sql(&self) -> Result<String, Error> {
        if self.names.brought.is_none() {
            return Err(Error::Table { fault: "the trigger needs a brought_column" });
        }
        let other_owner = self.names.owner.as_ref().map(|owner| DB::OR_OTHER_OWNER.replace("{owner}", owner));
        let template = DB::REQUIRE_GENERATION.replace("{or_other_owner}", &other_owner.unwrap_or_default());
        Ok(self.names.fill(&template))
    }

    /// Ends what [`require_generation`](Self::require_generation) began. Doing it again changes nothing.
    ///
    /// # Errors
    /// [`Error::Write`].
    ///
    /// # Cancel safety
    /// As [`require_generation`](Self::require_generation).
    pub async fn allow_any_writer(&self, pool: &Pool<DB>) -> Result<(), Error> {
        let ddl = self.names.fill(DB::ALLOW_ANY_WRITER);
        self.run_ddl(pool, ddl, "remove the trigger of a fenced table").await
    }

    /// A message of several statements. Should it fail half-way its connection is closed, and an open transaction with it.
    async fn run_ddl(&self, pool: &Pool<DB>, ddl: String, operation: &'static str) -> Result<(), Error> {
        let mut connection = pool.acquire().await.map_err(write_failed::<DB>(operation))?;
        let ran = DB::run_message(&mut connection, AssertSqlSafe(ddl)).await;
        if ran.is_err() {
            connection.close_on_drop();
        }
        ran.map_err(write_failed::<DB>(operation))
    }
}
