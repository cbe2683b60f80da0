//! Looking at the locks of an etcd, and taking one away.

use std::collections::BTreeSet;
use std::time::SystemTime;

use etcd_client::{Client, Compare, CompareOp, DeleteOptions, Error, GetOptions, PutOptions, Txn, TxnOp};
use sqlx::Pool;

use super::EtcdLeaseStore;
use super::requests::{self, Keys, Record, hex};
use crate::admin::{Answer, Approval, Forced, Inspect, LockRecord, Standing, audited};
use crate::lock_name::LockName;
use crate::sql::LeaseSql;
use crate::store::StoreError;
use crate::token::{FencingToken, OwnerNonce};

/// How many keys are read at once.
const PAGE: i64 = 1000;

/// How long it stands who has taken a lock away, in seconds, unless somebody releases it before.
const REMEMBERED: i64 = 3600;

impl Inspect for EtcdLeaseStore {
    /// Nothing is left of a lease that has run out. Of a release there is, for as long as the lease of who has released would have
    /// lasted, and the age is the time since then.
    async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>, StoreError> {
        let link = self.connections.get().await?;
        let record = self.record(&link.client, name).await;
        link.judge(record)
    }

    /// Reads the names of all keys, a thousand at a time. Locks that are taken or released meanwhile are there or not.
    async fn list(&self, after: Option<&LockName>, limit: u32) -> Result<Vec<LockRecord>, StoreError> {
        let link = self.connections.get().await?;
        let records = self.records(&link.client, after, limit).await;
        link.judge(records)
    }
}

impl EtcdLeaseStore {
    async fn record(&self, client: &Client, name: &LockName) -> Result<Option<LockRecord>, Error> {
        let seen = requests::look(client, &Keys::new(&self.namespace, name), None).await?;
        let record = |standing, holder| LockRecord::new(name.clone(), standing, holder);
        if seen.oldest.is_none() {
            return Ok(seen.last().map(|last| record(Standing::Released, last)));
        }
        let remaining = requests::remaining(client, seen.oldest.as_ref()).await?;
        Ok(Some(record(Standing::Held, seen.holder(remaining))))
    }

    async fn records(&self, client: &Client, after: Option<&LockName>, limit: u32) -> Result<Vec<LockRecord>, Error> {
        let mut records = Vec::new();
        for name in self.claimed(client, after, limit).await? {
            // It may be over since.
            if let Some(record) = self.record(client, &name).await?
                && record.standing == Standing::Held
            {
                records.push(record);
            }
        }
        Ok(records)
    }

    /// The least names behind `after` that have a claim. The keys are not in the order of the names: some of what may stand in a name
    /// comes before `/`.
    async fn claimed(
        &self,
        client: &Client,
        after: Option<&LockName>,
        limit: u32,
    ) -> Result<BTreeSet<LockName>, Error> {
        let (start, limit) = (format!("{}/", self.namespace), usize::try_from(limit).unwrap_or(usize::MAX));
        // '0' is what comes after '/'.
        let end = format!("{}0", self.namespace);
        let mut names = BTreeSet::new();
        let mut next = start.clone().into_bytes();
        loop {
            let page = GetOptions::new().with_range(&*end).with_limit(PAGE).with_keys_only();
            let mut found = client.kv_client().get(next, Some(page)).await?;
            let (keys, more) = (found.take_kvs(), found.more());
            names.extend(keys.iter().filter_map(|key| {
                let key = std::str::from_utf8(key.key()).ok()?.strip_prefix(&*start)?;
                let name = key.split_once("/queue/")?.0;
                LockName::new(name).ok().filter(|name| after.is_none_or(|after| name > after))
            }));
            while names.len() > limit {
                names.pop_last();
            }
            let Some(last) = keys.last().filter(|_| more) else { return Ok(names) };
            next = [last.key(), b"\0"].concat();
        }
    }

    /// Takes the lock away from the holder that has this token. Who has allowed it is written into `leastlock_audit` in the database
    /// of `audit`: as an intent before the lock is taken away, and with its outcome after. An intent without an outcome is
    /// unknown; whether it took effect, [`inspect`](Inspect::inspect) tells, by the lock's owner, for an hour.
    ///
    /// What it does to the lock and to its holder is said at [`SqlLeaseStore::force_release`](crate::SqlLeaseStore::force_release).
    /// Besides, **who waits loses the place** and stands in the queue anew: tokens are the order of the places, and those of the
    /// places before would be below the raised one. The approval is compared with the clock of this process, since etcd tells none.
    ///
    /// # Errors
    /// [`Error::Database`](crate::Error::Database): if the intent could not be written nothing was changed; if it was the outcome,
    /// the intent stays unknown. [`Error::Store`](crate::Error::Store) if the server refused. No answer within 10 s is
    /// [`Forced::Unknown`].
    ///
    /// # Cancel safety
    /// Dropped, the intent may be there without an outcome: it is unknown.
    pub async fn force_release<DB: LeaseSql>(
        &self,
        audit: &Pool<DB>,
        name: &LockName,
        token: FencingToken,
        approval: &Approval,
    ) -> Result<Forced, crate::Error> {
        let release = async |nonce: OwnerNonce| {
            let link = self.connections.get().await?;
            let answer = take_away(&link.client, &Keys::new(&self.namespace, name), nonce, token, approval).await;
            link.judge(answer)
        };
        audited(audit, (name, token, approval), release, async || self.inspect(name).await).await
    }
}

/// Who has this token and is the oldest stays that until its key is deleted, so that one comparison is enough.
async fn take_away(
    client: &Client,
    keys: &Keys,
    nonce: OwnerNonce,
    token: FencingToken,
    approval: &Approval,
) -> Result<Answer, Error> {
    let oldest = requests::look(client, keys, None).await?.oldest;
    let Some(holder) = oldest.filter(|oldest| oldest.create_revision() == token.value()) else {
        return Ok(Answer::Changed);
    };
    let lease = requests::grant(client, REMEMBERED).await?;
    if approval.until() <= SystemTime::now() {
        requests::revoke(client, lease).await?;
        return Ok(Answer::ApprovalExpired);
    }
    let stands = Compare::create_revision(holder.key(), CompareOp::Equal, token.value());
    let clear = TxnOp::delete(&*keys.queue, Some(DeleteOptions::new().with_prefix()));
    // Its token is the revision at which this is put: above whatever was in the queue, and below whatever comes.
    let note = TxnOp::put(&*keys.released, Record::write(&hex(nonce)), Some(PutOptions::new().with_lease(lease.id)));
    let answer = client.kv_client().txn(Txn::new().when([stands]).and_then([clear, note])).await?;
    if !answer.succeeded() {
        requests::revoke(client, lease).await?;
        return Ok(Answer::Changed);
    }
    let revision = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
    // The holder's own is a revision too, and there is none below 1.
    let token = FencingToken::new(revision).ok_or_else(|| Error::InvalidArgs("a revision below 1".to_owned()))?;
    Ok(Answer::Released { token })
}
