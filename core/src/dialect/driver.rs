//! What drivers do alike: text that is the same for them, where only the driver's types differ.

/// What an engine does whose errors leave a transaction as it is or aborted, and whose columns say what sqlx expects of
/// their types.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
macro_rules! driver_methods {
    () => {
        async fn run(connection: &mut Self::Connection, statement: Statement<'_>) -> Result<u64, sqlx::Error> {
            Ok(Self::query(statement)?.execute(connection).await?.rows_affected())
        }

        async fn fetch(
            connection: &mut Self::Connection,
            statement: Statement<'_>,
        ) -> Result<Vec<Row<Self>>, sqlx::Error> {
            Ok(Self::query(statement)?.fetch_all(connection).await?.into_iter().map(Row).collect())
        }

        async fn run_query<'q>(
            connection: &'q mut Self::Connection,
            query: Query<'q, Self, Self::Arguments>,
        ) -> Result<u64, sqlx::Error> {
            Ok(query.execute(connection).await?.rows_affected())
        }

        async fn fetch_query<'q>(
            connection: &'q mut Self::Connection,
            query: Query<'q, Self, Self::Arguments>,
        ) -> Result<Option<Row<Self>>, sqlx::Error> {
            Ok(query.fetch_optional(connection).await?.map(Row))
        }

        async fn fetch_all_query<'q>(
            connection: &'q mut Self::Connection,
            query: Query<'q, Self, Self::Arguments>,
        ) -> Result<Vec<Row<Self>>, sqlx::Error> {
            Ok(query.fetch_all(connection).await?.into_iter().map(Row).collect())
        }

        fn text(row: &Self::Row, index: usize) -> Result<Option<String>, sqlx::Error> {
            sqlx::Row::try_get(row, index)
        }

        fn int(row: &Self::Row, index: usize) -> Result<Option<i64>, sqlx::Error> {
            sqlx::Row::try_get(row, index)
        }

        fn bytes(row: &Self::Row, index: usize) -> Result<Option<Vec<u8>>, sqlx::Error> {
            sqlx::Row::try_get(row, index)
        }

        fn value<'r, T>(row: &'r Self::Row, index: usize) -> Result<T, sqlx::Error>
        where
            T: sqlx::Decode<'r, Self> + sqlx::Type<Self>,
        {
            sqlx::Row::try_get(row, index)
        }

        super::driver::migration_methods!();
    };
}
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(super) use driver_methods;

/// How every engine keeps its migrations.
macro_rules! migration_methods {
    () => {
        async fn history(connection: &mut Self::Connection, sql: String) -> Result<Vec<(i64, Vec<u8>)>, sqlx::Error> {
            sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(connection).await
        }

        async fn migrate(
            pool: &Pool<Self>,
            table: &'static str,
            migrations: &'static [Migration],
        ) -> Result<(), MigrationError> {
            crate::migrations::migrator(table, migrations)
                .run(pool)
                .await
                .map_err(|source| MigrationError::Apply { table, source })
        }
    };
}
pub(super) use migration_methods;
