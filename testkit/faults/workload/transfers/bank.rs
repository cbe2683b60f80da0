//! The accounts, and what committed transfers did to them.

use std::time::Duration;

use leastlock_core::{Statement, begin};
use leastlock_occ::{Stored, Version, Versioned};
use leastlock_testkit::TestDatabase;
use serde::{Deserialize, Serialize};

use super::client::Engine;
use super::{ACCOUNTS, OPENING};

/// How long an account may be locked by somebody before that counts.
const LOCKED: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
pub(super) struct Account {
    pub(super) id: i64,
    pub(super) balance: i64,
    pub(super) version: Version,
}

/// A transfer that has committed, with the versions that it gave both accounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) id: String,
    pub(super) debtor: i64,
    pub(super) creditor: i64,
    pub(super) units: i64,
    pub(super) debtor_version: i64,
    pub(super) creditor_version: i64,
}

/// What is in the database.
#[derive(Debug, Clone, Default)]
pub(super) struct Bank {
    /// Id, balance, version.
    pub(super) accounts: Vec<(i64, i64, i64)>,
    pub(super) moved: Vec<Moved>,
}

/// Makes the tables and the accounts.
pub(super) async fn open<DB: Engine>(database: &TestDatabase<DB>) -> anyhow::Result<()>
where
    Account: Stored<DB>,
{
    database.execute(include_str!("../../sql/transfers/accounts.sql")).await;
    database.execute(include_str!("../../sql/transfers/moved.sql")).await;
    let mut tx = begin::<DB>(&database.pool).await?;
    for id in 0..ACCOUNTS {
        Account { id, balance: OPENING, version: Version::FIRST }.insert(&mut *tx).await?;
    }
    Ok(tx.commit().await?)
}

/// Writes every account as it is, and takes that back; says which one is locked.
pub(super) async fn is_locked<DB: Engine>(database: &TestDatabase<DB>) -> anyhow::Result<Option<String>>
where
    Account: Stored<DB>,
{
    let every = async {
        let mut tx = begin::<DB>(&database.pool).await?;
        for id in 0..ACCOUNTS {
            Account::lock_row(&mut tx, &id).await?;
        }
        tx.rollback().await.map_err(anyhow::Error::from)
    };
    match tokio::time::timeout(LOCKED, every).await {
        Ok(Ok(())) => Ok(None),
        Ok(Err(error)) => Ok(Some(error.to_string())),
        Err(_) => Ok(Some("an account is locked".to_owned())),
    }
}

impl Bank {
    /// As it is at one moment after another: transfers first, so that none of them is missing in the accounts.
    pub(super) async fn read<DB: Engine>(database: &TestDatabase<DB>) -> anyhow::Result<Self>
    where
        Account: Stored<DB>,
    {
        let mut tx = database.pool.begin_with(DB::SNAPSHOT).await?;
        let rows = Statement::new(include_str!("../../sql/transfers/all_moved.sql")).fetch_all::<DB>(&mut tx).await?;
        let moved = rows.iter().map(|row| {
            Ok(Moved {
                id: row.text(0)?,
                debtor: row.int(1)?,
                creditor: row.int(2)?,
                units: row.int(3)?,
                debtor_version: row.int(4)?,
                creditor_version: row.int(5)?,
            })
        });
        let moved = moved.collect::<Result<_, sqlx::Error>>()?;
        let rows = Statement::new(include_str!("../../sql/transfers/all_accounts.sql"));
        let rows = rows.fetch_all::<DB>(&mut tx).await?;
        let accounts = rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?, row.int(2)?)));
        let accounts = accounts.collect::<Result<_, sqlx::Error>>()?;
        tx.rollback().await?;
        Ok(Self { accounts, moved })
    }
}
