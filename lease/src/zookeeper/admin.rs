//! Looking at the locks of a ZooKeeper, and taking one away.

use std::collections::BTreeSet;

use sqlx::Pool;
use tokio::join;
use zookeeper_client::{Client, Error};

use super::ZooKeeperLeaseStore;
use super::claims::Own;
use super::node::{holder, last, release_data};
use super::requests::{self, Seen, path_of};
use super::session::{Failure, Session, store_error};
use crate::admin::{Answer, Approval, Forced, Inspect, LockRecord, Standing, audited};
use crate::lock_name::LockName;
use crate::sql::LeaseSql;
use crate::store::{Claim, StoreError};
use crate::token::{FencingToken, OwnerNonce};

impl Inspect for ZooKeeperLeaseStore {
    /// Nothing is left of a lease that has run out. Of a release there is, until the server removes the lock's node, and the age is the
    /// time since then. What is left of a lease that stands is the time-out of its session.
    async fn inspect(&self, name: &LockName) -> Result<Option<LockRecord>, StoreError> {
        let session = self.sessions.get().await?;
        self.record(&session.client, name).await.map_err(store_error)
    }

    /// Reads the names of all locks at once, and then each. Locks that are taken or released meanwhile are there or not.
    async fn list(&self, after: Option<&LockName>, limit: u32) -> Result<Vec<LockRecord>, StoreError> {
        let session = self.sessions.get().await?;
        let mut records = Vec::new();
        for name in self.names(&session.client, after).await.map_err(store_error)? {
            if records.len() == usize::try_from(limit).unwrap_or(usize::MAX) {
                break;
            }
            let record = self.record(&session.client, &name).await.map_err(store_error)?;
            records.extend(record.filter(|record| record.standing == Standing::Held));
        }
        Ok(records)
    }
}

impl ZooKeeperLeaseStore {
    async fn record(&self, client: &Client, name: &LockName) -> Result<Option<LockRecord>, Error> {
        let lock = self.lock(name);
        let record = |standing, holder| LockRecord::new(name.clone(), standing, holder);
        // As often as somebody leaves in between.
        loop {
            let seen = requests::survey(client, &lock).await?;
            let Some(oldest) = seen.queue.oldest() else {
                return Ok(last(&seen.released, seen.released_ms).map(|last| record(Standing::Released, last)));
            };
            match client.get_data(&path_of(&lock, oldest)).await {
                Ok((data, stat)) => {
                    return Ok(Some(record(Standing::Held, holder(oldest, &data, &stat, seen.released_ms))));
                }
                Err(Error::NoNode) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn names(&self, client: &Client, after: Option<&LockName>) -> Result<BTreeSet<LockName>, Error> {
        let (synced, children) = join!(client.sync(&self.root), client.list_children(&self.root));
        let children = match children {
            Err(Error::NoNode) => return Ok(BTreeSet::new()),
            children => children?,
        };
        synced?;
        let names = children.into_iter().filter_map(|name| LockName::new(name).ok());
        Ok(names.filter(|name| after.is_none_or(|after| name > after)).collect())
    }

    /// Takes the lock away from the holder that has this token. Who has allowed it is written into `leastlock_audit` in the database
    /// of `audit`: as an intent before the lock is taken away, and with its outcome after. An intent without an outcome is
    /// unknown; whether it took effect, [`inspect`](Inspect::inspect) tells, by the lock's owner.
    ///
    /// What it does to the lock and to its holder is said at [`SqlLeaseStore::force_release`](crate::SqlLeaseStore::force_release).
    /// Besides, **who waits loses the place** and stands in the queue anew: tokens are the order of the places, and those of the
    /// places before would be below the raised one. It has a session of its own, so that nothing is left if it is dropped.
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
            let session = self.sessions.another().await?;
            Ok(self.take_away(&session, name, nonce, token, approval).await?)
        };
        audited(audit, (name, token, approval), release, async || self.inspect(name).await).await
    }

    /// Stands in the queue as a claim of its own, whose token is the raised one, and removes in one step what stands before it, the
    /// holder first, and itself.
    async fn take_away(
        &self,
        session: &Session,
        name: &LockName,
        nonce: OwnerNonce,
        token: FencingToken,
        approval: &Approval,
    ) -> Result<Answer, Failure> {
        let (client, lock) = (&session.client, self.lock(name));
        // A lock that is not used is to stay without a node.
        if !is_held(client, &lock, &requests::survey(client, &lock).await?, token).await? {
            return Ok(Answer::Changed);
        }
        let claim = Claim::new(name, nonce, client.session_timeout());
        let (own, mut seen) = requests::enter(session, &lock, &claim, self.acls(), true).await?;
        let raised = FencingToken::new(own.token).ok_or(Failure::Unreliable("a transaction below 1"))?;
        if own.node.is_beyond_counting() {
            return Err(Failure::Unreliable(
                "the server has counted to 2^31 for this lock; its node must be made anew",
            ));
        }
        // When it was made, by the clock of the leader.
        let made = client.check_stat(&path_of(&lock, &own.node)).await?.ok_or(Error::NoNode)?.ctime;
        loop {
            if made >= approval.until_ms() {
                requests::remove(client, &lock, &own.node).await?;
                return Ok(Answer::ApprovalExpired);
            }
            if !is_held(client, &lock, &seen, token).await? {
                requests::remove(client, &lock, &own.node).await?;
                return Ok(Answer::Changed);
            }
            if clear(client, &lock, &seen, nonce, &own).await? {
                return Ok(Answer::Released { token: raised });
            }
            // Somebody has left meanwhile.
            seen = requests::survey(client, &lock).await?;
        }
    }
}

/// Whether the holder has this token.
async fn is_held(client: &Client, lock: &str, seen: &Seen, token: FencingToken) -> Result<bool, Error> {
    let Some(oldest) = seen.queue.oldest() else { return Ok(false) };
    let stat = client.check_stat(&path_of(lock, oldest)).await?;
    Ok(stat.is_some_and(|stat| stat.czxid == token.value()))
}

/// Removes the own node and those before it, and notes the release; `false` if one of them is not there any more.
async fn clear(client: &Client, lock: &str, seen: &Seen, nonce: OwnerNonce, own: &Own) -> Result<bool, Error> {
    let mut all = client.new_multi_writer();
    for node in seen.queue.until(&own.node) {
        all.add_delete(&path_of(lock, node), None)?;
    }
    all.add_set_data(lock, release_data(nonce, own.token).as_bytes(), None)?;
    Ok(requests::there(all.commit().await.map_err(Error::from))?.is_some())
}
