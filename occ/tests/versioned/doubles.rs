//! The classic mistakes. Each is caught by the case of the same number.

use leastlock_core::Statement;
use leastlock_occ::{Stored, Version};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::Transaction;

use super::accounts::{Account, Accounts, Derived, VERSION, Verdict, adding};

const LOAD: &str = "SELECT balance, version FROM account WHERE id = 'a'";

async fn add_where<DB: TestEngine>(
    tx: &mut Transaction<'_, DB>,
    sql: &'static str,
    amount: i64,
    version: i64,
) -> Verdict {
    match Statement::new(sql).bind(amount).bind(version).execute::<DB>(&mut **tx).await {
        Ok(0) => stale_or_gone(tx, version).await,
        Ok(_) => Verdict::Applied,
        Err(error) => Verdict::Failed(error.to_string()),
    }
}

async fn stale_or_gone<DB: TestEngine>(tx: &mut Transaction<'_, DB>, expected: i64) -> Verdict {
    match Statement::new(VERSION).fetch_optional::<DB>(&mut **tx).await.expect("a read") {
        Some(row) => Verdict::Stale { expected, actual: row.int(0).expect("a version") },
        None => Verdict::Gone,
    }
}

/// O1: deletes by key alone, as repositories do whose delete takes an id.
pub(crate) struct DeletesByKey;

impl<DB: TestEngine> Accounts<DB> for DeletesByKey
where
    Account: Stored<DB>,
{
    async fn load(connection: &mut DB::Connection) -> Result<Account, String> {
        Derived::load(connection).await
    }

    async fn add(tx: &mut Transaction<'_, DB>, account: &mut Account, amount: i64) -> Verdict {
        Derived::add(tx, account, amount).await
    }

    async fn delete(tx: &mut Transaction<'_, DB>, _: &mut Account) -> Verdict {
        let delete = Statement::new("DELETE FROM account WHERE id = 'a'");
        match delete.execute::<DB>(&mut **tx).await {
            Ok(0) => Verdict::Gone,
            Ok(_) => Verdict::Applied,
            Err(error) => Verdict::Failed(error.to_string()),
        }
    }
}

/// O2, O3: raises the version in the value itself, before the outcome is known and whatever becomes of the transaction.
pub(crate) struct RaisesInPlace;

impl<DB: TestEngine> Accounts<DB> for RaisesInPlace
where
    Account: Stored<DB>,
{
    async fn load(connection: &mut DB::Connection) -> Result<Account, String> {
        Derived::load(connection).await
    }

    async fn add(tx: &mut Transaction<'_, DB>, account: &mut Account, amount: i64) -> Verdict {
        let expected = account.version.as_i64();
        account.version = Version::new(expected + 1);
        add_where(tx, adding::<DB>(), amount, expected).await
    }

    async fn delete(tx: &mut Transaction<'_, DB>, account: &mut Account) -> Verdict {
        Derived::delete(tx, account).await
    }
}

/// O4, O5: takes NULL for version 0, and 0 for a row that has no version to check.
pub(crate) struct SkipsTheCheckWithoutVersion;

const ADD_IF_VERSIONED: &str = "UPDATE account SET balance = balance + $1, version = COALESCE(version, 0) + 1 \
    WHERE id = 'a' AND ($2 = 0 OR version = $2)";
const ADD_IF_VERSIONED_MYSQL: &str = "UPDATE account SET balance = balance + ?, version = COALESCE(version, 0) + 1 \
    WHERE id = 'a' AND version <=> COALESCE(NULLIF(?, 0), version)";

impl<DB: TestEngine> Accounts<DB> for SkipsTheCheckWithoutVersion
where
    Account: Stored<DB>,
{
    async fn load(connection: &mut DB::Connection) -> Result<Account, String> {
        let row = Statement::new(LOAD).fetch_one::<DB>(connection).await.map_err(|error| error.to_string())?;
        let balance = row.int(0).expect("a balance");
        let version = Version::new(row.optional_int(1).expect("a version or NULL").unwrap_or(0));
        Ok(Account { id: "a".to_owned(), balance, version })
    }

    async fn add(tx: &mut Transaction<'_, DB>, account: &mut Account, amount: i64) -> Verdict {
        add_where(tx, sql::<DB>(ADD_IF_VERSIONED, ADD_IF_VERSIONED_MYSQL), amount, account.version.as_i64()).await
    }

    async fn delete(tx: &mut Transaction<'_, DB>, account: &mut Account) -> Verdict {
        Derived::delete(tx, account).await
    }
}

/// O6: knows only that no row was changed, and calls that stale at the next version.
pub(crate) struct CallsEverythingStale;

impl<DB: TestEngine> Accounts<DB> for CallsEverythingStale
where
    Account: Stored<DB>,
{
    async fn load(connection: &mut DB::Connection) -> Result<Account, String> {
        Derived::load(connection).await
    }

    async fn add(tx: &mut Transaction<'_, DB>, account: &mut Account, amount: i64) -> Verdict {
        let expected = account.version.as_i64();
        let add = Statement::new(adding::<DB>()).bind(amount).bind(expected);
        match add.execute::<DB>(&mut **tx).await {
            // The number is the right one here, so that it is the missing row that gives the double away.
            Ok(0) => Verdict::Stale { expected, actual: expected + 4 },
            Ok(_) => Verdict::Applied,
            Err(error) => Verdict::Failed(error.to_string()),
        }
    }

    async fn delete(tx: &mut Transaction<'_, DB>, account: &mut Account) -> Verdict {
        Derived::delete(tx, account).await
    }
}
