//! The classic mistakes. Each is caught by the case of the same number.

use std::sync::Arc;

use leastlock_core::{Dialect, Statement};
use leastlock_occ::{Bound, Error, Guarded, guarded};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::{Pool, Transaction};
use tokio::sync::Barrier;

use super::suite::{ExactlyOne, Shop};

/// O11: counts the rows, says so, and leaves the transaction as it is.
pub(crate) struct OnlyReturnsTheError;

impl<DB: Dialect> ExactlyOne<DB> for OnlyReturnsTheError {
    async fn exactly_one(tx: &mut Transaction<'_, DB>, sql: &'static str) -> Result<Guarded, Error> {
        match guarded(sqlx::query(sql)).execute(&mut **tx).await? {
            Guarded::Applied { rows } if rows != 1 => {
                Err(Error::RowsOutOfBounds { expected: Bound::Exactly(1), actual: rows })
            }
            within => Ok(within),
        }
    }
}

const WRITE: &str = "UPDATE stock SET units = $1 WHERE code = '85123A'";
const WRITE_MYSQL: &str = "UPDATE stock SET units = ? WHERE code = '85123A'";

/// O15: reads the stock, decides on what it read, writes what it computed.
pub(crate) struct ReadsDecidesWrites;

impl<DB: TestEngine> Shop<DB> for ReadsDecidesWrites {
    async fn buy(pool: Pool<DB>, all_have_read: Arc<Barrier>) -> bool {
        let units = {
            let mut connection = pool.acquire().await.expect("a connection");
            let read = Statement::new("SELECT units FROM stock WHERE code = '85123A'");
            read.fetch_one::<DB>(&mut connection).await.and_then(|row| row.int(0)).expect("the row")
        };
        all_have_read.wait().await;
        if units < 1 {
            return false;
        }
        let mut connection = pool.acquire().await.expect("a connection");
        let write = Statement::new(sql::<DB>(WRITE, WRITE_MYSQL)).bind(units - 1);
        write.execute::<DB>(&mut connection).await.expect("the write") == 1
    }
}
