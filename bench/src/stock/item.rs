//! A row with a version, as the library has it: derived updates, and `Retry`.

use anyhow::bail;
use leastlock_core::Dialect;
use leastlock_occ::{
    Attempt, Attempts, Committed, Conflict, ConflictClass, Error, MayConflict, Retry, RetryError, Stored, Update,
    Version, Versioned,
};
use sqlx::Pool;

use crate::contest::{Done, Outcome};

/// A row of `stock`.
#[derive(Debug, Clone, Versioned)]
#[versioned(table = "stock", key = "code", version = "version")]
pub(crate) struct Item {
    pub(super) code: String,
    pub(super) units: i64,
    pub(super) version: Version,
}

/// Why a unit was not taken.
#[derive(Debug, thiserror::Error)]
enum TakeError {
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Database(#[from] Error),
}

impl<DB: Dialect> MayConflict<DB> for TakeError {
    fn conflict(&self) -> Option<ConflictClass> {
        match self {
            Self::Conflict(conflict) => MayConflict::<DB>::conflict(conflict),
            Self::Database(error) => MayConflict::<DB>::conflict(error),
        }
    }
}

/// Takes a unit of a row that nobody else writes, in one statement; the item is then as it stands in the table.
pub(super) async fn take<DB: Dialect>(pool: &Pool<DB>, item: &mut Item) -> anyhow::Result<bool>
where
    Item: Stored<DB>,
{
    if item.units < 1 {
        return Ok(false);
    }
    let mut connection = pool.acquire().await?;
    let updated = item.update(&mut *connection, |item| item.units -= 1).await?;
    match updated {
        Update::Applied(new) => *item = new,
        Update::Conflict(conflict) => bail!("somebody else wrote {}: {conflict}", item.code),
    }
    Ok(true)
}

/// Takes a unit of a row that others write as well, with the default limits of [`Retry`].
pub(super) async fn take_with_retry<DB: Dialect>(pool: &Pool<DB>, code: &str) -> anyhow::Result<Done>
where
    Item: Stored<DB>,
{
    let mut attempts: Attempts<DB, TakeError> = Retry::default().start(pool);
    loop {
        let attempt = attempts.next().await?;
        let conflicts = u64::from(attempt.number()) - 1;
        match attempts.settle(unit(attempt, code).await) {
            Ok(None) => {}
            Ok(Some(was_there)) => return Ok(Done { conflicts, ..Done::at_once(was_there) }),
            Err(RetryError::Exhausted { attempts, .. }) => {
                return Ok(Done { outcome: Outcome::GaveUp, conflicts: u64::from(attempts) });
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// One unit of work: load, decide, write if nobody else did.
async fn unit<DB: Dialect>(mut attempt: Attempt<DB>, code: &str) -> Result<Committed<bool>, TakeError>
where
    Item: Stored<DB>,
{
    let item = Item::load(attempt.connection(), code).await?.ok_or(Conflict::Gone)?;
    let was_there = item.units > 0;
    if was_there {
        let _ = item.update(attempt.connection(), |item| item.units -= 1).await?.into_result()?;
    }
    Ok(attempt.commit(was_there).await?)
}
