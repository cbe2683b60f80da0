//! The backends in SQL: two statements by hand on a table of their own.

use std::sync::Arc;

use anyhow::Context;
use leastlock_core::{ErrorClass, classify};
use leastlock_lease::{LeaseSql, LockName, MIGRATIONS, SqlLeaseStore};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::{MYSQL_URL, MySql, POSTGRES_URL, Postgres, Sqlite};
use sqlx::Pool;

use super::locks::{Locks, TTL_MS};
use crate::engine::{BenchEngine, open_pool};

/// A database with both tables.
#[derive(Debug)]
pub(super) struct Sql<DB: BenchEngine> {
    database: TestDatabase<DB>,
    limit: u32,
}

/// The two statements, in sqlx alone.
pub(super) trait LocksByHand: BenchEngine + LeaseSql {
    /// The environment's variable with the server's address.
    const SERVER: Option<&'static str>;
    /// Makes the table.
    const TABLE: &'static str;

    /// Takes the lock if it is free, or its owner's time is up.
    fn take(pool: &Pool<Self>, name: &str, owner: &[u8]) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Gives it up.
    fn give_up(pool: &Pool<Self>, name: &str, owner: &[u8]) -> impl Future<Output = sqlx::Result<bool>> + Send;
}

impl<DB: LocksByHand> Locks for Sql<DB> {
    type Store = SqlLeaseStore<DB>;
    type Driver = Pool<DB>;

    const SERVER: Option<&'static str> = DB::SERVER;

    async fn create() -> anyhow::Result<Self> {
        let database = TestDatabase::<DB>::create().await.with(&MIGRATIONS).await;
        database.execute(DB::TABLE).await;
        let limit = DB::limit(&database).await?;
        Ok(Self { database, limit })
    }

    async fn about(&self) -> anyhow::Result<String> {
        let mut connection = self.database.pool.acquire().await?;
        let about = DB::fetch_query(&mut connection, sqlx::query(DB::ABOUT)).await?;
        Ok(about.context("the server has no version")?.text(0)?)
    }

    async fn open(&self, clients: u32) -> anyhow::Result<Pool<DB>> {
        open_pool(&self.database.url, clients, self.limit).await
    }

    fn store(&self, driver: &Pool<DB>) -> SqlLeaseStore<DB> {
        SqlLeaseStore::new(driver)
    }

    async fn take(driver: &Pool<DB>, name: &LockName, owner: &[u8]) -> anyhow::Result<bool> {
        match DB::take(driver, name.as_str(), owner).await {
            // InnoDB's deadlock of two that insert where a third has deleted: not taken.
            Err(error) if classify::<DB>(&error) == ErrorClass::Deadlock => Ok(false),
            taken => Ok(taken?),
        }
    }

    async fn give_up(driver: &Pool<DB>, name: &LockName, owner: &[u8]) -> anyhow::Result<bool> {
        Ok(DB::give_up(driver, name.as_str(), owner).await?)
    }

    async fn close(&self, driver: Arc<Pool<DB>>) -> anyhow::Result<()> {
        driver.close().await;
        Ok(())
    }

    /// The database ends with its value.
    async fn end(self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// sqlx's bounds on generic queries fill a page.
macro_rules! by_hand {
    ($engine:ty, $sql:literal, $server:expr, refused: $refused:expr) => {
        impl LocksByHand for $engine {
            const SERVER: Option<&'static str> = $server;
            const TABLE: &'static str = include_str!(concat!("../../sql/", $sql, "/lock/table.sql"));

            async fn take(pool: &Pool<Self>, name: &str, owner: &[u8]) -> sqlx::Result<bool> {
                const TAKE: &str = include_str!(concat!("../../sql/", $sql, "/lock/take.sql"));
                let take = sqlx::query(TAKE).bind(name).bind(owner).bind(TTL_MS);
                match take.execute(pool).await {
                    Ok(taken) => Ok(taken.rows_affected() == 1),
                    Err(error) => $refused(pool, name, owner, error).await,
                }
            }

            async fn give_up(pool: &Pool<Self>, name: &str, owner: &[u8]) -> sqlx::Result<bool> {
                const GIVE_UP: &str = include_str!(concat!("../../sql/", $sql, "/lock/give_up.sql"));
                let given_up = sqlx::query(GIVE_UP).bind(name).bind(owner).execute(pool).await?;
                Ok(given_up.rows_affected() == 1)
            }
        }
    };
}

by_hand!(Postgres, "postgres", Some(POSTGRES_URL), refused: failed);
by_hand!(Sqlite, "sqlite", None, refused: failed);
by_hand!(MySql, "mysql", Some(MYSQL_URL), refused: take_over);

/// There is nothing that an error could mean.
fn failed<DB: sqlx::Database>(
    _: &Pool<DB>,
    _: &str,
    _: &[u8],
    error: sqlx::Error,
) -> std::future::Ready<sqlx::Result<bool>> {
    std::future::ready(Err(error))
}

/// There is no conditional upsert: an insert that is refused is followed by an update.
async fn take_over(pool: &Pool<MySql>, name: &str, owner: &[u8], error: sqlx::Error) -> sqlx::Result<bool> {
    const TAKE_OVER: &str = include_str!("../../sql/mysql/lock/take_over.sql");
    if classify::<MySql>(&error) != ErrorClass::UniqueViolation {
        return Err(error);
    }
    let take_over = sqlx::query(TAKE_OVER).bind(owner).bind(TTL_MS).bind(name);
    Ok(take_over.execute(pool).await?.rows_affected() == 1)
}
