//! The classic mistakes.

use leastlock_core::{Dialect, Statement};
use leastlock_occ::{Error, Insertion};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;

use super::suite::Redeem;

/// Reads first, and inserts when it found nothing.
pub(crate) struct LooksFirst;

impl<DB: TestEngine> Redeem<DB> for LooksFirst {
    async fn redeem(
        connection: &mut DB::Connection,
        code: &'static str,
        customer: Option<i64>,
        all_have_looked: &tokio::sync::Barrier,
    ) -> Result<Insertion, Error> {
        let find = Statement::new(sql::<DB>(FIND, FIND_MYSQL)).bind(code);
        let found = find.fetch_optional::<DB>(connection).await.expect("a read");
        all_have_looked.wait().await;
        if found.is_some() {
            return Ok(Insertion::AlreadyThere);
        }
        let insert = Statement::new(sql::<DB>(OVERWRITE, OVERWRITE_MYSQL)).bind(code).bind(customer);
        insert.execute::<DB>(connection).await.expect("a row");
        Ok(Insertion::Inserted)
    }
}

const FIND: &str = "SELECT customer FROM coupon WHERE code = $1";
const FIND_MYSQL: &str = "SELECT customer FROM coupon WHERE code = ?";
const OVERWRITE: &str = "INSERT INTO coupon (code, customer) VALUES ($1, $2) \
    ON CONFLICT (code) DO UPDATE SET customer = excluded.customer";
const OVERWRITE_MYSQL: &str = "INSERT INTO coupon (code, customer) VALUES (?, ?) \
    ON DUPLICATE KEY UPDATE customer = VALUES(customer)";

/// Takes whatever the database refuses for a duplicate; on MySQL and SQLite the database does that itself, when told to
/// ignore.
pub(crate) struct SwallowsErrors;

impl<DB: TestEngine> Redeem<DB> for SwallowsErrors {
    async fn redeem(
        connection: &mut DB::Connection,
        code: &'static str,
        customer: Option<i64>,
        _: &tokio::sync::Barrier,
    ) -> Result<Insertion, Error> {
        let insert = Statement::new(ignoring::<DB>()).bind(code).bind(customer);
        match insert.execute::<DB>(connection).await {
            Ok(1) => Ok(Insertion::Inserted),
            _ => Ok(Insertion::AlreadyThere),
        }
    }
}

const fn ignoring<DB: Dialect>() -> &'static str {
    match DB::ENGINE {
        leastlock_core::Engine::MySql => "INSERT IGNORE INTO coupon (code, customer) VALUES (?, ?)",
        leastlock_core::Engine::Sqlite => "INSERT OR IGNORE INTO coupon (code, customer) VALUES ($1, $2)",
        _ => "INSERT INTO coupon (code, customer) VALUES ($1, $2)",
    }
}
