//! Looking at the locks of a Redis, and taking one away.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{ErrorKind, RedisError, Value, cmd};
use sqlx::Pool;

use super::durability::Durability;
use super::{RedisLeaseStore, token};
use crate::admin::{Answer, Approval, Forced, Inspect, LockRecord, Standing, audited};
use crate::error::Error;
use crate::lock_name::LockName;
use crate::sql::LeaseSql;
use crate::store::{Holder, StoreError};
use crate::token::{FencingToken, OwnerHash};

/// How many keys the server looks at for each answer of a scan.
const SCAN: u32 = 1000;

impl<D: Durability> Inspect for RedisLeaseStore<D> {
    async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>, StoreError> {
        let answer = self.run(&self.scripts.inspect, name, &[]).await?;
        record(name, answer).map_err(StoreError::permanent)
    }

    /// Scans the whole server, in many short steps, and needs `+scan`. Locks that are taken or released meanwhile are there or not.
    async fn list(&self, after: Option<&LockName>, limit: u32) -> Result<Vec<LockRecord>, StoreError> {
        let mut records = Vec::new();
        for name in self.held(after, limit).await? {
            // It may be over since.
            if let Some(record) = self.inspect(&name).await?
                && record.standing == Standing::Held
            {
                records.push(record);
            }
        }
        Ok(records)
    }
}

impl<D: Durability> RedisLeaseStore<D> {
    /// The least names behind `after` that have an owner.
    async fn held(&self, after: Option<&LockName>, limit: u32) -> Result<BTreeSet<LockName>, StoreError> {
        let (start, end) = (format!("{}:{{", self.namespace), "}:owner");
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut names = BTreeSet::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("{start}*{end}")).arg("COUNT").arg(SCAN);
            let answer = self.connections.request(async |mut connection| scan.query_async(&mut connection).await);
            let (next, keys): (u64, Vec<Vec<u8>>) =
                redis::from_redis_value(answer.await?).map_err(StoreError::permanent)?;
            let found = keys.iter().filter_map(|key| {
                let key = std::str::from_utf8(key).ok()?.strip_prefix(&*start)?.strip_suffix(end)?;
                LockName::new(key).ok().filter(|name| after.is_none_or(|after| name > after))
            });
            names.extend(found);
            while names.len() > limit {
                names.pop_last();
            }
            cursor = next;
            if cursor == 0 {
                return Ok(names);
            }
        }
    }

    /// Takes the lock away from the holder that has this token. Who has allowed it is written into `leastlock_audit` in the database
    /// of `audit`: as an intent before the lock is taken away, and with its outcome after. An intent without an outcome is
    /// unknown; whether it took effect, [`inspect`](Inspect::inspect) tells, by the lock's owner.
    ///
    /// What it does to the lock and to its holder is said at [`SqlLeaseStore::force_release`](crate::SqlLeaseStore::force_release).
    ///
    /// # Errors
    /// [`Error::Database`]: if the intent could not be written nothing was changed; if it was the outcome, the intent stays unknown.
    /// [`Error::Store`] if the server refused. No answer within 10 s is [`Forced::Unknown`].
    ///
    /// # Cancel safety
    /// Dropped, the intent may be there without an outcome: it is unknown.
    pub async fn force_release<DB: LeaseSql>(
        &self,
        audit: &Pool<DB>,
        name: &LockName,
        token: FencingToken,
        approval: &Approval,
    ) -> Result<Forced, Error> {
        let release = async |nonce: crate::OwnerNonce| {
            let (token, until, channel) = (token.to_string(), approval.until_ms().to_string(), self.channel());
            let arguments = [
                token.as_bytes(),
                &nonce.as_bytes()[..],
                until.as_bytes(),
                channel.as_bytes(),
                name.as_str().as_bytes(),
            ];
            let answer = self.run(&self.scripts.force_release, name, &arguments).await?;
            forced(answer).map_err(StoreError::permanent)
        };
        audited(audit, (name, token, approval), release, async || self.inspect(name).await).await
    }
}

/// Reads what inspect.lua answers.
fn record(name: &LockName, answer: Value) -> Result<Option<LockRecord>, RedisError> {
    let parts = redis::from_redis_value::<Vec<Value>>(answer)?;
    let Ok([standing, last, owner, age, remaining, job]) = <[Value; 6]>::try_from(parts) else { return Ok(None) };
    let standing = match standing {
        Value::Int(0) => Standing::Held,
        Value::Int(1) => Standing::Expired,
        _ => Standing::Released,
    };
    let job: String = redis::from_redis_value(job)?;
    let holder = Holder {
        owner: OwnerHash::of(&redis::from_redis_value::<Vec<u8>>(owner)?),
        token: token(&redis::from_redis_value::<String>(last)?),
        age: Duration::from_millis(redis::from_redis_value(age)?),
        remaining: Duration::from_millis(redis::from_redis_value(remaining)?),
        job: Some(job).filter(|job| !job.is_empty()).map(String::into_boxed_str),
    };
    Ok(Some(LockRecord::new(name.clone(), standing, holder)))
}

/// Reads what `force_release.lua` answers.
fn forced(answer: Value) -> Result<Answer, RedisError> {
    let mut parts = redis::from_redis_value::<Vec<Value>>(answer)?.into_iter();
    match parts.next() {
        Some(Value::Int(1)) => {
            let raised = token(&redis::from_redis_value::<String>(parts.next().unwrap_or(Value::Nil))?);
            let token = raised.ok_or((ErrorKind::UnexpectedReturnType, "a token below 1"))?;
            Ok(Answer::Released { token })
        }
        Some(Value::Int(2)) => Ok(Answer::ApprovalExpired),
        _ => Ok(Answer::Changed),
    }
}
