//! The lock store in etcd.

mod admin;
mod claims;
mod connection;
mod requests;
mod waiter;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error};

use crate::capabilities::{Capabilities, FloorRule, Order, WakeUp};
use crate::clock::{BootClock, Clock};
use crate::store::{Claim, FairStore, FencedStore, Grant, LeaseStore, Release, Renewal, StoreError};
use crate::token::FencingToken;

use claims::{Claims, EtcdLease, whole_seconds};
use connection::Connections;
use requests::{Keys, Left, Seen};

pub use waiter::EtcdWaiter;

/// The lock store in etcd, from version 3.4 on.
///
/// | key | content |
/// |---|---|
/// | `leastlock/{name}/queue/{nonce}` | one claim: when, and for which job. On a lease of its own |
/// | `leastlock/{name}/released` | who has released last. On the lease of that claim, so that nothing is left of a lock that is not used |
///
/// Each claim has a key, created only if it is absent, and the lock belongs to the oldest: the queue is the order of their create
/// revisions, and **the create revision is the token**. So tokens rise with each owner, and are as durable as the cluster, which
/// answers a write when a majority has it on disk. They rise by more than one, since the whole cluster counts together. A waiter
/// watches the key before its own, and so no release wakes more than one.
///
/// - A TTL is rounded down to whole seconds, and the server raises it to its shortest (2 s, unless the election time-out is set
///   otherwise). The client never believes in more than was asked for.
/// - A renewal counts only once the server has answered for the lease *and* the key, within the time that the lease's own
///   deadline leaves. Each asks on a stream of its own. A connection on which an answer was not waited for is given up, and the next
///   request goes to the next endpoint on a new one: one that is black-holed looks like a slow one for minutes.
/// - Requests go to one endpoint at a time.
/// - A cluster that was restored from a snapshot counts on from there. Its store cannot raise the counter, and says so
///   ([`Grant::BelowFloor`]) where a [floor](crate::Acquire::floor) is given. Restore with `etcdutl snapshot restore
///   --bump-revision`, which etcd 3.6 has, or write until the revision has passed the floor.
/// - A claim may stand on the lease of an earlier one of this process. One that was extended less than a twentieth of its time ago is not
///   extended once more, and what is granted is as much shorter.
/// - Each claim leaves the name of its key behind until the cluster compacts, and a request reads past those of its lock. Have compaction on
///   (`--auto-compaction-retention`); a lock that is taken thousands of times between two compactions gets slower by a multiple.
/// - A user needs the role to read and write the keys under `leastlock/`. It is the options' (`with_user`), or that of the client's
///   certificate. A member whose certificate is not trusted, or that does not trust the client's, is left for the next one; when all have
///   refused, one after the other, the error is permanent.
///
/// ```no_run
/// use std::time::Duration;
/// use etcd_client::ConnectOptions;
/// use leastlock_lease::{EtcdLeaseStore, Hold, Leases, LockName};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options = ConnectOptions::new().with_user("leases", "…");
/// let store = EtcdLeaseStore::new(["http://10.0.0.1:2379", "http://10.0.0.2:2379"], options);
/// store.check().await?; // fails early, instead of at the first lease
/// let leases = Leases::new(store);
/// let lease = leases.acquire(&LockName::new("job:settlement")?, Hold::renewed(Duration::from_secs(30))).await?;
/// # drop(lease);
/// # Ok(())
/// # }
/// ```
pub struct EtcdLeaseStore {
    connections: Arc<Connections>,
    claims: Arc<Claims>,
    namespace: Box<str>,
}

impl EtcdLeaseStore {
    /// The first part of every key, unless [`namespace`](Self::namespace) says otherwise.
    pub const DEFAULT_NAMESPACE: &'static str = "leastlock";

    /// A store on the cluster with these members. It connects when it is first used.
    #[must_use]
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>, options: ConnectOptions) -> Self {
        let endpoints = endpoints.into_iter().map(Into::into).collect();
        let connections = Arc::new(Connections::new(endpoints, options));
        Self { connections, claims: Arc::default(), namespace: Self::DEFAULT_NAMESPACE.into() }
    }

    /// Another first part of every key, for applications that share a cluster.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Box<str>>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Connects, and asks the cluster for something that takes a leader, so that a service can fail when it starts.
    ///
    /// # Errors
    /// What any request would meet: a server that cannot be reached (retryable), or a user that it does not know.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn check(&self) -> Result<(), StoreError> {
        let link = self.connections.get().await?;
        let answer = link.client.kv_client().get(format!("{}/", self.namespace), None).await;
        link.judge(answer).map(drop)
    }

    fn keys(&self, claim: &Claim<'_>) -> Keys {
        Keys::new(&self.namespace, claim.name, claim.nonce)
    }

    async fn attempt(&self, client: &Client, claim: &Claim<'_>) -> Result<Grant<FencingToken>, Error> {
        let (keys, began) = (self.keys(claim), BootClock.now());
        let (mut seen, lease) = match self.look_again(client, &keys, claim).await? {
            Some(found) => found,
            None => self.enter(client, &keys, claim).await?,
        };
        let own = seen.own.as_ref().and_then(|own| FencingToken::new(own.create_revision()));
        let Some(token) = own else { return Err(vanished()) };
        if seen.is_spent(claim.nonce) {
            requests::remove(client, &keys).await?;
            return Ok(Grant::Held(seen.holder(Duration::ZERO)));
        }
        if claim.floor.is_some_and(|floor| token <= floor) {
            requests::remove(client, &keys).await?;
            return Ok(Grant::BelowFloor { token });
        }
        if seen.is_owner() {
            return Ok(Grant::Granted { token, ttl: lease.left_at(began) });
        }
        let known = seen.place.take();
        let place = async {
            match known {
                Some(place) => Ok(place),
                None => requests::predecessor(client, &keys, token.value()).await,
            }
        };
        let (place, remaining) = tokio::try_join!(place, requests::remaining(client, seen.oldest.as_ref()))?;
        self.claims.waits(claim.nonce, place);
        Ok(Grant::Held(seen.holder(remaining)))
    }

    /// Looks whether it is the turn of a claim that stands in the queue already, and extends its lease; `None` if it does not
    /// stand there any more, whose turn it would be now: its own lease had run out.
    async fn look_again(
        &self,
        client: &Client,
        keys: &Keys,
        claim: &Claim<'_>,
    ) -> Result<Option<(Seen, EtcdLease)>, Error> {
        let Some((lease, token)) = self.claims.seen(claim.nonce) else { return Ok(None) };
        let (kept, seen) = tokio::try_join!(extended(client, lease), requests::look(client, keys))?;
        let stands = seen.own.as_ref().is_some_and(|own| own.create_revision() == token && own.lease() == lease.id);
        if let Some(kept) = kept {
            self.claims.confirmed(claim.nonce, kept.confirmed);
        }
        Ok(kept.filter(|_| stands).map(|lease| (seen, lease)))
    }

    /// Puts the claim into the queue, unless an attempt without an answer has.
    async fn enter(&self, client: &Client, keys: &Keys, claim: &Claim<'_>) -> Result<(Seen, EtcdLease), Error> {
        let asked = whole_seconds(claim.ttl);
        let in_doubt = self.claims.is_doubtful(claim.nonce);
        let known = self.claims.lease(claim.nonce).or_else(|| self.claims.take_idle(asked));
        if let Some(lease) = known {
            self.claims.sends(claim.nonce, lease);
            // Side by side: if both are answered, the key stands on a lease that was extended.
            let (kept, seen) = tokio::try_join!(extended(client, lease), requests::enter(client, keys, claim, lease))?;
            if let (Some(lease), Some(seen)) = (kept, seen) {
                return self.entered(client, claim, seen, lease, in_doubt).await;
            }
            // It had run out.
        }
        let lease = requests::grant(client, asked).await?;
        self.claims.sends(claim.nonce, lease);
        let seen = requests::enter(client, keys, claim, lease).await?.ok_or_else(vanished)?;
        self.entered(client, claim, seen, lease, in_doubt).await
    }

    /// The key stands on the lease that it was first put with, which another store of this process may have done.
    async fn entered(
        &self,
        client: &Client,
        claim: &Claim<'_>,
        seen: Seen,
        lease: EtcdLease,
        in_doubt: bool,
    ) -> Result<(Seen, EtcdLease), Error> {
        let own = seen.own.as_ref().ok_or_else(vanished)?;
        let own_lease = EtcdLease { id: own.lease(), ..lease };
        if own_lease.id != lease.id {
            requests::keep_alive(client, own_lease).await?.ok_or_else(vanished)?;
        }
        self.claims.answered(claim.nonce, own_lease, own.create_revision(), in_doubt);
        Ok((seen, own_lease))
    }

    async fn renewal(&self, client: &Client, claim: &Claim<'_>, token: FencingToken) -> Result<Renewal, Error> {
        let keys = self.keys(claim);
        let Some((lease, _)) = self.known(client, &keys, claim).await? else { return Ok(Renewal::NotOwner) };
        let Some(lease) = requests::keep_alive(client, lease).await? else { return Ok(Renewal::NotOwner) };
        // The lease lives on where an operator has deleted the key.
        let own = requests::look(client, &keys).await?.own;
        let stands = own.is_some_and(|own| own.create_revision() == token.value() && own.lease() == lease.id);
        if !stands {
            return Ok(Renewal::NotOwner);
        }
        self.claims.confirmed(claim.nonce, lease.confirmed);
        Ok(Renewal::Renewed { ttl: lease.ttl })
    }

    /// The lease and the token of a claim: what this process knows of it, or what stands at its key.
    async fn known(&self, client: &Client, keys: &Keys, claim: &Claim<'_>) -> Result<Option<(EtcdLease, i64)>, Error> {
        let known = self.claims.seen(claim.nonce);
        if known.is_some() {
            return Ok(known);
        }
        let own = requests::look(client, keys).await?.own;
        Ok(own.map(|own| (EtcdLease::found(own.lease(), claim.ttl), own.create_revision())))
    }

    async fn leave(&self, client: &Client, claim: &Claim<'_>) -> Result<Release, Error> {
        let keys = self.keys(claim);
        let left = match self.known(client, &keys, claim).await? {
            Some((lease, token)) => requests::leave(client, &keys, claim.nonce, lease.id, token).await?,
            None => Left::NotThere(Box::new(requests::look(client, &keys).await?)),
        };
        if self.claims.is_doubtful(claim.nonce)
            && let Some(lease) = self.claims.lease(claim.nonce)
        {
            // An attempt that arrives only now finds no lease to stand on.
            requests::revoke(client, lease).await?;
        }
        Ok(match left {
            Left::AsOwner => {
                self.claims.end(claim.nonce);
                Release::Released
            }
            Left::AsWaiter => {
                self.claims.end(claim.nonce);
                Release::NotOwner
            }
            Left::NotThere(seen) => {
                self.claims.forget(claim.nonce);
                let repeated = seen.is_spent(claim.nonce) && seen.oldest.is_none();
                if repeated { Release::Released } else { Release::NotOwner }
            }
        })
    }
}

impl fmt::Debug for EtcdLeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The options may have a password in them.
        f.debug_struct("EtcdLeaseStore")
            .field("endpoints", &self.connections.endpoints())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl LeaseStore for EtcdLeaseStore {
    type Token = FencingToken;
    type Waiter = EtcdWaiter;

    const CAPABILITIES: Capabilities =
        Capabilities::PLAIN.order(Order::Fifo).wake_up(WakeUp::Woken).floor(FloorRule::Refused);

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        let link = self.connections.get().await?;
        let grant = self.attempt(&link.client, &claim).await;
        link.judge(grant)
    }

    fn waiter(&self, claim: Claim<'_>) -> EtcdWaiter {
        EtcdWaiter::new(Arc::clone(&self.connections), Arc::clone(&self.claims), claim.nonce, claim.ttl)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        let link = self.connections.get().await?;
        let renewal = self.renewal(&link.client, &claim, token).await;
        link.judge(renewal)
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let link = self.connections.get().await?;
        let release = self.leave(&link.client, &claim).await;
        link.judge(release)
    }

    /// The server ends its lease.
    fn let_expire(&self, claim: Claim<'_>, _remaining: Duration) {
        self.claims.forget(claim.nonce);
    }
}

impl FencedStore for EtcdLeaseStore {}
impl FairStore for EtcdLeaseStore {}

/// The lease, extended unless that was done a moment ago; `None` if there is no such lease any more.
async fn extended(client: &Client, lease: EtcdLease) -> Result<Option<EtcdLease>, Error> {
    if lease.is_fresh() { Ok(Some(lease)) } else { requests::keep_alive(client, lease).await }
}

/// The lease of a key ended between two requests of one attempt; the next attempt makes another.
fn vanished() -> Error {
    Error::LeaseKeepAliveError("the lease ran out under the attempt".to_owned())
}
