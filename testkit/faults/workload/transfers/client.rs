//! A client that transfers, again and again.

use std::time::Duration;

use leastlock_core::begin;
use leastlock_occ::{Attempt, Conflict, Error, MayConflict, Retry, RetryError, Stored};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use serde::{Deserialize, Serialize};
use sqlx::Pool;

use super::bank::{Account, Moved};
use super::{ACCOUNTS, note};
use crate::part::Part;
use crate::pool::Pooled;

/// What a client calls.
pub(super) const TRANSFER: &str = "transfer";
/// Points at which it may be killed or stopped.
pub(super) const DEBITED: &str = "debited";
pub(super) const COMMITTING: &str = "committing";
/// The mutant.
const INSIDE: &str = "retry inside the transaction";

/// How long a client waits for an answer before it takes the outcome for unknown.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two transfers of a client.
const BEAT_MS: std::ops::Range<u64> = 5..40;

/// An engine that accounts are on.
pub(super) trait Engine: Pooled {
    /// Begins a transaction that reads one moment.
    const SNAPSHOT: &'static str;
}

impl Engine for Postgres {
    const SNAPSHOT: &'static str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
}

impl Engine for MySql {
    const SNAPSHOT: &'static str = "START TRANSACTION WITH CONSISTENT SNAPSHOT";
}

impl Engine for Sqlite {
    const SNAPSHOT: &'static str = "BEGIN";
}

/// What is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) id: String,
    pub(super) debtor: i64,
    pub(super) creditor: i64,
    pub(super) units: i64,
}

#[derive(Debug, thiserror::Error, MayConflict)]
enum Failure {
    #[error("there is not so much")]
    Insufficient,
    #[error("there is no such account")]
    NoAccount,
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Database(#[from] Error),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

pub(super) async fn play<DB: Engine>(part: Part) -> anyhow::Result<()>
where
    Account: Stored<DB>,
{
    let pool = DB::lazy(part.address(DB::SERVER)?, 2)?;
    let mut rng = part.rng();
    let mut number = 0;
    while !part.draining.is_cancelled() {
        number += 1;
        let debtor = rng.i64(0..ACCOUNTS);
        let creditor = (debtor + rng.i64(1..ACCOUNTS)) % ACCOUNTS;
        let id = format!("{}:{number}", part.task.by());
        let order = Order { id, debtor, creditor, units: rng.i64(1..20) };
        let pending = part.recorder.call(TRANSFER, &order);
        match tokio::time::timeout(PATIENCE, transfer(&part, &pool, order)).await {
            Ok(Ok(moved)) => pending.done(&moved),
            // Of neither anything is committed.
            Ok(Err(RetryError::Failed(Failure::Insufficient) | RetryError::Exhausted { .. })) => {
                pending.refused(&None::<Moved>);
            }
            // What failed in between did not commit, or nobody knows: neither is claimed.
            Ok(Err(_)) | Err(_) => drop(pending),
        }
        part.pause(Duration::from_millis(rng.u64(BEAT_MS))).await;
    }
    part.shutdown.cancelled().await;
    Ok(())
}

async fn transfer<DB: Engine>(part: &Part, pool: &Pool<DB>, order: Order) -> Result<Moved, RetryError<Failure>>
where
    Account: Stored<DB>,
{
    if part.is_mutant(INSIDE) {
        return inside(part, pool, &order).await.map_err(RetryError::Failed);
    }
    let mut attempts = Retry::default().within(PATIENCE).start(pool);
    loop {
        let attempt = attempts.next().await?;
        if let Some(moved) = attempts.settle(once(part, attempt, &order).await)? {
            return Ok(moved);
        }
    }
}

async fn once<DB: Engine>(
    part: &Part,
    mut attempt: Attempt<DB>,
    order: &Order,
) -> Result<leastlock_occ::Committed<Moved>, Failure>
where
    Account: Stored<DB>,
{
    let moved = shift::<DB>(part, attempt.connection(), order).await?;
    part.point(COMMITTING);
    Ok(attempt.commit(moved).await?)
}

/// Debits and credits, each only if the account is as it was read.
async fn shift<DB: Engine>(part: &Part, connection: &mut DB::Connection, order: &Order) -> Result<Moved, Failure>
where
    Account: Stored<DB>,
{
    let debtor = load::<DB>(connection, order.debtor).await?;
    let creditor = load::<DB>(connection, order.creditor).await?;
    if debtor.balance < order.units {
        return Err(Failure::Insufficient);
    }
    let debited = debtor.update(connection, |account| account.balance -= order.units).await?.into_result()?;
    part.point(DEBITED);
    let credited = creditor.update(connection, |account| account.balance += order.units).await?.into_result()?;
    let Order { id, debtor, creditor, units } = order.clone();
    let (debtor_version, creditor_version) = (debited.version.as_i64(), credited.version.as_i64());
    let moved = Moved { id, debtor, creditor, units, debtor_version, creditor_version };
    note::<DB>(&moved).execute::<DB>(connection).await?;
    Ok(moved)
}

async fn load<DB: Engine>(connection: &mut DB::Connection, id: i64) -> Result<Account, Failure>
where
    Account: Stored<DB>,
{
    Account::load(connection, &id).await?.ok_or(Failure::NoAccount)
}

/// The mutant: after a conflict it goes on in the same transaction, in which the account is debited already.
async fn inside<DB: Engine>(part: &Part, pool: &Pool<DB>, order: &Order) -> Result<Moved, Failure>
where
    Account: Stored<DB>,
{
    let mut tx = begin::<DB>(pool).await?;
    loop {
        match shift::<DB>(part, &mut tx, order).await {
            Ok(moved) => {
                tx.commit().await?;
                return Ok(moved);
            }
            Err(Failure::Conflict(_)) => {}
            Err(other) => return Err(other),
        }
    }
}
