//! Looking at the table `leastlock_lease`, and taking a lock away in it.

use std::time::Duration;

use leastlock_core::{Row, Statement, begin, classify, commit};

use super::approval::Approval;
use super::audit::{AuditOutcome, Operation, database};
use super::forced::{Forced, Seizure};
use super::{Inspect, LockRecord, Standing};
use crate::error::Error;
use crate::event;
use crate::lock_name::LockName;
use crate::sql::LeaseSql;
use crate::sql_store::{SqlLeaseStore, store_error, token};
use crate::store::{Holder, StoreError};
use crate::token::{FencingToken, OwnerHash, OwnerNonce};

const RELEASE: &str = "take the lock away";

impl<DB: LeaseSql> Inspect for SqlLeaseStore<DB> {
    async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>, StoreError> {
        let read = self.read(Statement::new(DB::INSPECT).bind(name.as_str()));
        Ok(read.await.map_err(store_error::<DB>)?.pop())
    }

    async fn list(&self, after: Option<&LockName>, limit: u32) -> Result<Vec<LockRecord>, StoreError> {
        let list = Statement::new(DB::LIST).bind(after.map_or("", LockName::as_str)).bind(i64::from(limit));
        self.read(list).await.map_err(store_error::<DB>)
    }
}

impl<DB: LeaseSql> SqlLeaseStore<DB> {
    async fn read(&self, statement: Statement<'_>) -> Result<Vec<LockRecord>, sqlx::Error> {
        let mut connection = self.pool().acquire().await?;
        statement.fetch_all::<DB>(&mut connection).await?.iter().map(record).collect()
    }

    /// Takes the lock away from the holder that has this token, and writes into `leastlock_audit` who has allowed it, in the same
    /// transaction.
    ///
    /// The lock's token is raised, and the lock is free: whoever waits for it gets it, with a token above that. The holder finds
    /// [`Lost`](crate::LeaseStatus::Lost) at its next renewal, after a third of its TTL. Until then it gives permits, and until
    /// somebody seals above it they pass at the resource; [`Fence::seal_forced`](crate::Fence::seal_forced) has the resource
    /// refuse them at once.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use leastlock_lease::{Approval, Forced, Hold, Inspect, Leases, LockName, SqlLeaseStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # leastlock_lease::MIGRATIONS.run(&pool).await?;
    /// let store = SqlLeaseStore::new(&pool);
    /// let name = LockName::new("job:settlement")?;
    /// # let lease = Leases::new(store.clone()).acquire(&name, Hold::fixed(Duration::from_secs(30))).await?;
    /// let found = store.inspect(&name).await?.ok_or("nobody ever had it")?;
    /// println!("{found}"); // job:settlement is held: owner 374708ff, token 34, held for 2.0h, 21.3s left
    ///
    /// let until = SystemTime::now() + Duration::from_secs(600);
    /// let approval = Approval::new("r.devi", "INC-4711: the holder's machine is gone", until)?;
    /// let token = found.holder.token.ok_or("no token")?;
    /// match store.force_release(&name, token, &approval).await? {
    ///     Forced::Released(seizure) => println!("free; its token is {} now", seizure.token()),
    ///     other => println!("not taken away: {other:?}"),
    /// }
    /// # assert_eq!(leastlock_lease::audit(&pool, None, 10).await?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Database`]: nothing was changed, and nothing written. A commit without an answer is [`Forced::Unknown`].
    ///
    /// # Cancel safety
    /// Dropped, both the release and its row in the audit are there, or neither.
    pub async fn force_release(
        &self,
        name: &LockName,
        token: FencingToken,
        approval: &Approval,
    ) -> Result<Forced, Error> {
        let operation = Operation { nonce: OwnerNonce::random()?, name, token, approval };
        let mut tx = begin(self.pool()).await.map_err(database::<DB>(RELEASE))?;
        let forced = take_away::<DB>(&mut tx, operation).await.map_err(database::<DB>(RELEASE))?;
        let Forced::Released(seizure) = forced else { return Ok(forced) };
        match commit(tx).await {
            Ok(()) => {
                event::force_released(&seizure);
                Ok(Forced::Released(seizure))
            }
            Err(error) if classify::<DB>(&error).leaves_commit_unknown() => {
                Ok(Forced::Unknown { operation: seizure.operation(), source: Some(StoreError::retryable(error)) })
            }
            Err(error) => Err(database::<DB>(RELEASE)(error)),
        }
    }
}

async fn take_away<DB: LeaseSql>(
    connection: &mut DB::Connection,
    operation: Operation<'_>,
) -> Result<Forced, sqlx::Error> {
    let lock = Statement::new(DB::FORCE_LOCK).bind(operation.name.as_str());
    let found = lock.fetch_optional::<DB>(&mut *connection).await?.as_ref().map(record).transpose()?;
    let expected =
        |found: &LockRecord| found.standing != Standing::Released && found.holder.token == Some(operation.token);
    if !found.as_ref().is_some_and(expected) {
        return Ok(Forced::Changed(found));
    }
    let release = Statement::new(DB::FORCE_RELEASE)
        .bind(&operation.nonce.as_bytes()[..])
        .bind(operation.name.as_str())
        .bind(operation.approval.until_ms());
    if release.execute::<DB>(&mut *connection).await? == 0 {
        return Ok(Forced::ApprovalExpired);
    }
    // The row is locked, and the statement has added one.
    let raised = token(operation.token.value().saturating_add(1))?;
    operation.write::<DB>(connection, Some(AuditOutcome::Released), Some(raised)).await?;
    Ok(Forced::Released(Seizure { name: operation.name.clone(), token: raised, nonce: operation.nonce }))
}

fn record<DB: LeaseSql>(row: &Row<DB>) -> Result<LockRecord, sqlx::Error> {
    let duration = |index| Ok::<_, sqlx::Error>(Duration::from_millis(u64::try_from(row.int(index)?).unwrap_or(0)));
    let name = LockName::new(row.text(0)?).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let holder = Holder {
        owner: OwnerHash::of(&row.bytes(1)?),
        token: Some(token(row.int(2)?)?),
        age: duration(3)?,
        remaining: duration(4)?,
        job: row.optional_text(5)?.map(String::into_boxed_str),
    };
    let standing = match row.int(6)? {
        0 => Standing::Held,
        1 => Standing::Expired,
        _ => Standing::Released,
    };
    Ok(LockRecord { name, standing, holder })
}
