//! The statements of fenced tables, whose names are the caller's: templates, filled in once.

use leastlock_core::Dialect;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Encode, Type};

/// What a table's fence needs of an engine. Public for the bound of [`LeaseSql`](super::LeaseSql), and not to be named outside.
pub trait RowSql: Dialect {
    /// The update of one row, on condition of its fence.
    const ROW_UPDATE: &'static str;
    /// key → generation and owner of a row.
    const ROW_READ: &'static str;
    /// The trigger that refuses writers which bring no generation, in statements for one message.
    const REQUIRE_GENERATION: &'static str;
    /// Its end.
    const ALLOW_ANY_WRITER: &'static str;
    /// The part of the trigger for a table with a column for the owner.
    const OR_OTHER_OWNER: &'static str;

    /// Binds a part of a permit after what is bound already.
    fn bind_part(query: Query<'_, Self, Self::Arguments>, part: Part) -> Query<'_, Self, Self::Arguments>;

    /// Sends a message of several statements.
    fn run_message(
        connection: &mut Self::Connection,
        message: AssertSqlSafe<String>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

/// What a row is compared by.
#[derive(Debug, Clone, Copy)]
pub enum Part {
    /// The generation.
    Generation(i64),
    /// What stands for its owner.
    Owner([u8; 16]),
}

#[allow(dead_code, reason = "without an engine nobody binds")]
fn bind<DB: Dialect>(query: Query<'_, DB, DB::Arguments>, part: Part) -> Query<'_, DB, DB::Arguments>
where
    i64: Encode<'static, DB> + Type<DB>,
    Vec<u8>: Encode<'static, DB> + Type<DB>,
{
    match part {
        Part::Generation(generation) => query.bind(generation),
        Part::Owner(owner) => query.bind(owner.to_vec()),
    }
}

/// The texts in the folder of an engine, and its operator.
#[allow(unused_macros, reason = "without an engine nobody needs it")]
macro_rules! row_sql {
    ($database:ty, $folder:literal, $differs:literal) => {
        impl RowSql for $database {
            const ROW_UPDATE: &'static str = include_str!(concat!("../../sql/", $folder, "/row_update.sql"));
            const ROW_READ: &'static str = include_str!(concat!("../../sql/", $folder, "/row_read.sql"));
            const REQUIRE_GENERATION: &'static str =
                include_str!(concat!("../../sql/", $folder, "/require_generation.sql"));
            const ALLOW_ANY_WRITER: &'static str =
                include_str!(concat!("../../sql/", $folder, "/allow_any_writer.sql"));
            const OR_OTHER_OWNER: &'static str = concat!("OR (NEW.{generation} = OLD.{generation} AND ", $differs, ")");

            fn bind_part(query: Query<'_, Self, Self::Arguments>, part: Part) -> Query<'_, Self, Self::Arguments> {
                bind(query, part)
            }

            async fn run_message(
                connection: &mut Self::Connection,
                message: AssertSqlSafe<String>,
            ) -> Result<(), sqlx::Error> {
                sqlx::raw_sql(message).execute(connection).await.map(drop)
            }
        }
    };
}

#[cfg(feature = "postgres")]
row_sql!(sqlx::Postgres, "postgres", "NEW.{owner} IS DISTINCT FROM OLD.{owner}");
#[cfg(feature = "sqlite")]
row_sql!(sqlx::Sqlite, "sqlite", "NEW.{owner} IS NOT OLD.{owner}");
#[cfg(feature = "mysql")]
row_sql!(sqlx::MySql, "mysql", "NOT (NEW.{owner} <=> OLD.{owner})");
