//! The lock store in ZooKeeper.

mod admin;
mod claims;
mod node;
mod requests;
mod session;
mod waiter;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zookeeper_client::{Acl, Acls, Connector, Error};

use crate::capabilities::{Capabilities, FloorRule, LeaseEnding, Order, WakeUp};
use crate::clock::{BootClock, Clock};
use crate::lock_name::LockName;
use crate::store::{Claim, FairStore, FencedStore, Grant, Holder, LeaseStore, Release, Renewal, StoreError};
use crate::token::{FencingToken, OwnerHash, OwnerNonce};

use claims::{Claims, Own, Place};
use node::{holder, is_spent};
use requests::{Seen, path_of};
use session::{Failure, Session, Sessions, store_error};

pub use waiter::ZooKeeperWaiter;

/// How long after a failure a node that is to go is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The lock store in ZooKeeper, from version 3.5 on.
///
/// | node | content |
/// |---|---|
/// | `/leastlock/{name}` | a container, which the server removes when the lock is not used; in it, who has released last |
/// | `/leastlock/{name}/{nonce}-{sequence}` | one claim: ephemeral and sequential |
///
/// The lock belongs to the oldest node. **The token is the transaction that made it** (`czxid`), which rises over the whole
/// ensemble and comes, as the session that the node lives with, from the answer to the creation. A node of this claim that belongs to an
/// earlier session is not its own: it ends with that one, and is removed. A waiter watches the node before its own and looks
/// again after each event. A release sees whose turn it is: if that claim is of the same session, it needs no more trips. The server counts the nodes of a lock with 32 bits; what comes after 2^31 - 1 says nothing about the
/// order, and is refused until the lock's node is made anew.
///
/// - All claims of a store live with **one session**. Its time-out is negotiated, and is how long a process that dies keeps others out,
///   whatever the TTL. A holder believes in its lease for the shorter of the two.
/// - The client's own pings are its own business: a renewal is a read of the own node, behind a `sync` by way of the leader, and
///   counts from its sending.
/// - The session goes on for as long as the process lives. A lease that nobody will release is therefore deleted when its time is
///   over. When the store and all its leases are dropped, the session is closed, and with it goes what is left.
/// - An ensemble that was set up anew from an old copy counts on from there, and cannot raise its counter: it says so
///   ([`Grant::BelowFloor`]) where a [floor](crate::Acquire::floor) is given. A new epoch, as each election of a leader
///   begins, raises it by 2^32.
///
/// ```no_run
/// use std::time::Duration;
/// use leastlock_lease::{Hold, Leases, LockName, ZooKeeperLeaseStore};
/// use zookeeper_client::{Acl, AuthId, Client, Permission};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let connector = Client::connector().with_session_timeout(Duration::from_secs(10)).with_auth("digest", "leases:…".as_bytes());
/// let store = ZooKeeperLeaseStore::new("10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181", connector)
///     .acl([Acl::new(Permission::ALL, AuthId::authed())]);
/// store.check().await?; // fails early, instead of at the first lease
/// let leases = Leases::new(store);
/// let lease = leases.acquire(&LockName::new("job:settlement")?, Hold::renewed(Duration::from_secs(10))).await?;
/// # drop(lease);
/// # Ok(())
/// # }
/// ```
pub struct ZooKeeperLeaseStore {
    sessions: Arc<Sessions>,
    claims: Arc<Claims>,
    root: Box<str>,
    acl: Box<[Acl]>,
}

impl ZooKeeperLeaseStore {
    /// The node above all, unless [`root`](Self::root) says otherwise.
    pub const DEFAULT_ROOT: &'static str = "/leastlock";

    /// A store on the ensemble of these servers (`host:port,host:port/chroot`). It connects when it is first used.
    #[must_use]
    pub fn new(cluster: impl Into<Box<str>>, connector: Connector) -> Self {
        let sessions = Arc::new(Sessions::new(cluster.into(), connector));
        Self { sessions, claims: Arc::default(), root: Self::DEFAULT_ROOT.into(), acl: Box::new([]) }
    }

    /// Another node above all, for applications that share an ensemble. It begins with `/`.
    #[must_use]
    pub fn root(mut self, root: impl Into<Box<str>>) -> Self {
        self.root = root.into();
        self
    }

    /// Who may do what with the nodes. Unless it is given, everybody may do everything.
    #[must_use]
    pub fn acl(mut self, acl: impl Into<Box<[Acl]>>) -> Self {
        self.acl = acl.into();
        self
    }

    /// Connects, and asks for something that takes a leader, so that a service can fail when it starts.
    ///
    /// # Errors
    /// What any request would meet: a server that cannot be reached (retryable), or a user that it does not know.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn check(&self) -> Result<(), StoreError> {
        let session = self.sessions.get().await?;
        requests::survey(&session.client, &self.root).await.map(drop).map_err(store_error)
    }

    fn lock(&self, name: &LockName) -> String {
        format!("{}/{name}", self.root)
    }

    fn acls(&self) -> Acls<'_> {
        if self.acl.is_empty() { Acls::anyone_all() } else { Acls::new(&self.acl) }
    }

    async fn attempt(&self, session: &Session, claim: &Claim<'_>) -> Result<Grant<FencingToken>, Failure> {
        let lock = self.lock(claim.name);
        if let Some((own, since)) = self.claims.take_turn(claim.nonce, session) {
            if let Some(refused) = self.refused(session, &lock, claim, &own).await? {
                return Ok(refused);
            }
            // The session was there when it was seen.
            return self.granted(session, claim.nonce, &own, since);
        }
        let (own, seen) = match self.look_again(session, &lock, claim.nonce).await? {
            Some(found) => found,
            None => self.enter(session, &lock, claim).await?,
        };
        if is_spent(&seen.released, claim.nonce) {
            requests::remove(&session.client, &lock, &own.node).await?;
            return Ok(Grant::Held(nobody()));
        }
        if let Some(refused) = self.refused(session, &lock, claim, &own).await? {
            return Ok(refused);
        }
        match seen.queue.predecessor(&own.node) {
            None => self.granted(session, claim.nonce, &own, Duration::ZERO),
            Some(before) => self.wait_behind(session, &lock, claim.nonce, &own, &seen, before).await,
        }
    }

    /// What is no lock wherever its node stands, which is removed. One that could not be removed before has been left in the queue.
    async fn refused(
        &self,
        session: &Session,
        lock: &str,
        claim: &Claim<'_>,
        own: &Own,
    ) -> Result<Option<Grant<FencingToken>>, Failure> {
        if own.node.is_beyond_counting() {
            requests::remove(&session.client, lock, &own.node).await?;
            return Err(Failure::Unreliable(
                "the server has counted to 2^31 for this lock; let it rest until the server has removed its node, or delete that",
            ));
        }
        let token = token_of(own)?;
        if claim.floor.is_none_or(|floor| token > floor) {
            return Ok(None);
        }
        requests::remove(&session.client, lock, &own.node).await?;
        Ok(Some(Grant::BelowFloor { token }))
    }

    /// What the oldest claim is granted, `since` it was seen to be that.
    fn granted(
        &self,
        session: &Session,
        nonce: OwnerNonce,
        own: &Own,
        since: Duration,
    ) -> Result<Grant<FencingToken>, Failure> {
        self.claims.is_granted(nonce);
        let ttl = session.client.session_timeout().saturating_sub(since);
        Ok(Grant::Granted { token: token_of(own)?, ttl })
    }

    /// Makes the claim's node, and removes what earlier attempts and sessions have left of it.
    async fn enter(&self, session: &Session, lock: &str, claim: &Claim<'_>) -> Result<(Own, Seen), Failure> {
        self.claims.sends(claim, session);
        let others = self.claims.are_several(claim.name);
        let (newest, mut seen) = requests::enter(session, lock, claim, self.acls(), others).await?;
        let own = requests::settle(session, lock, claim.nonce, newest, &seen).await?;
        seen.queue.keep_only(claim.nonce, &own.node);
        self.claims.has(claim.nonce, own.clone());
        Ok((own, seen))
    }

    /// The own node, if it still stands in this session, and what there is beside it.
    async fn look_again(&self, session: &Session, lock: &str, nonce: OwnerNonce) -> Result<Option<(Own, Seen)>, Error> {
        let Some(own) = self.claims.own(nonce, session) else { return Ok(None) };
        Ok(requests::look(session, lock, &own).await?.map(|seen| (own, seen)))
    }

    async fn wait_behind(
        &self,
        session: &Session,
        lock: &str,
        nonce: OwnerNonce,
        own: &Own,
        seen: &Seen,
        before: &node::Node,
    ) -> Result<Grant<FencingToken>, Failure> {
        let owner = seen.queue.oldest().unwrap_or(before);
        let shown = |node| self.claims.shown(node, session, seen.released_ms);
        let differ = |token| {
            let differ = Failure::Unreliable("the numbers of the nodes and the order of their creation differ");
            if token > own.token { Err(differ) } else { Ok(()) }
        };
        if let Some((owner, beside)) = shown(owner).zip(shown(before)) {
            beside.token.map_or(Ok(()), |token| differ(token.value()))?;
            self.claims.waits(nonce, Place::Beside(path_of(lock, before), session.clone()));
            return Ok(Grant::Held(owner));
        }
        let (owner_data, predecessor) = requests::ahead(&session.client, lock, owner, before).await?;
        match predecessor {
            Some((stat, watcher)) => {
                differ(stat.czxid)?;
                self.claims.waits(nonce, Place::Behind(watcher));
            }
            None => self.claims.waits(nonce, Place::Next),
        }
        let holder = owner_data.map(|(data, stat)| holder(owner, &data, &stat, seen.released_ms));
        Ok(Grant::Held(holder.unwrap_or_else(nobody)))
    }

    async fn renewal(&self, session: &Session, claim: &Claim<'_>, token: FencingToken) -> Result<Renewal, Error> {
        let lock = self.lock(claim.name);
        // One that is not known here is another session's.
        let Some(own) = self.claims.own(claim.nonce, session) else { return Ok(Renewal::NotOwner) };
        let stands = requests::probe(session, &path_of(&lock, &own.node), token.value()).await?;
        let ttl = session.client.session_timeout();
        Ok(if stands { Renewal::Renewed { ttl } } else { Renewal::NotOwner })
    }

    async fn leave(&self, session: &Session, claim: &Claim<'_>) -> Result<Release, Error> {
        let (lock, nonce) = (self.lock(claim.name), claim.nonce);
        let began = BootClock.now();
        let others = self.claims.are_several(claim.name);
        let released = match self.claims.granted(nonce) {
            Some(own) => requests::leave(&session.client, &lock, nonce, &own, others).await?,
            None => None,
        };
        let Some(left) = released else { return self.leave_queue(session, &lock, nonce).await };
        self.claims.end(nonce);
        if let Some(next) = left.oldest() {
            self.claims.comes(next, session, began);
        }
        Ok(Release::Released)
    }

    /// Removes whatever there is of the claim, of which little is known.
    async fn leave_queue(&self, session: &Session, lock: &str, nonce: OwnerNonce) -> Result<Release, Error> {
        let seen = requests::survey(&session.client, lock).await?;
        let owner = seen.queue.oldest().filter(|oldest| oldest.is_of(nonce)).cloned();
        let mut released = is_spent(&seen.released, nonce) && seen.queue.is_empty();
        if let Some(node) = owner {
            let stat = session.client.check_stat(&path_of(lock, &node)).await?;
            let own = stat.map(|stat| Own { node, token: stat.czxid, made_ms: stat.ctime });
            if let Some(own) = own {
                released = requests::leave(&session.client, lock, nonce, &own, false).await?.is_some();
            }
        }
        for node in seen.queue.of(nonce) {
            requests::remove(&session.client, lock, node).await?;
        }
        self.claims.end(nonce);
        Ok(if released { Release::Released } else { Release::NotOwner })
    }
}

impl fmt::Debug for ZooKeeperLeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The connector may have a password in it.
        f.debug_struct("ZooKeeperLeaseStore")
            .field("cluster", &self.sessions.cluster())
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl LeaseStore for ZooKeeperLeaseStore {
    type Token = FencingToken;
    type Waiter = ZooKeeperWaiter;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN
        .order(Order::Fifo)
        .wake_up(WakeUp::Woken)
        .ending(LeaseEnding::WithSession)
        .floor(FloorRule::Refused);

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        let session = self.sessions.get().await?;
        Ok(self.attempt(&session, &claim).await?)
    }

    fn waiter(&self, claim: Claim<'_>) -> ZooKeeperWaiter {
        ZooKeeperWaiter::new(Arc::clone(&self.claims), claim.nonce)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        let session = self.sessions.get().await?;
        self.renewal(&session, &claim, token).await.map_err(store_error)
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let session = self.sessions.get().await?;
        self.leave(&session, &claim).await.map_err(store_error)
    }

    /// Deletes its node when its time is over, unless the session ends before.
    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        let Some(session) = self.claims.end(claim.nonce) else { return };
        let (lock, nonce) = (self.lock(claim.name), claim.nonce);
        session.runtime.clone().spawn(async move {
            sleep(remaining).await;
            while !session.client.state().is_terminated() && remove_all(&session, &lock, nonce).await.is_err() {
                sleep(AGAIN).await;
            }
        });
    }
}

impl FencedStore for ZooKeeperLeaseStore {}
impl FairStore for ZooKeeperLeaseStore {}

/// Sent after whatever attempts there were in this session, it finds what they have made.
async fn remove_all(session: &Session, lock: &str, nonce: OwnerNonce) -> Result<(), Error> {
    let seen = requests::survey(&session.client, lock).await?;
    for node in seen.queue.of(nonce) {
        requests::remove(&session.client, lock, node).await?;
    }
    Ok(())
}

fn token_of(own: &Own) -> Result<FencingToken, Failure> {
    FencingToken::new(own.token).ok_or(Failure::Unreliable("a transaction below 1"))
}

/// Of whom nothing is known but that somebody holds, or held a moment ago.
fn nobody() -> Holder {
    Holder::new(OwnerHash::of(&[]), Duration::ZERO, Duration::from_secs(1))
}
