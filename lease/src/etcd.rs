//! The lock store in etcd.

mod admin;
mod claims;
mod connection;
mod requests;
mod slots;
mod waiter;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error};

use crate::capabilities::{Capabilities, FloorRule, Order, WakeUp};
use crate::clock::{BootClock, BootTime, Clock};
use crate::store::{Claim, FairStore, FencedStore, Grant, LeaseStore, Release, Renewal, StoreError};
use crate::token::FencingToken;

use claims::{Claims, EtcdLease, Known, whole_seconds};
use connection::Connections;
use requests::{Keys, Left, Seen};

pub use waiter::EtcdWaiter;

/// How many names are tried for a key, if other claims stand there.
const NAMES: u32 = 4;

/// The lock store in etcd, from version 3.4 on.
///
/// | key | content |
/// |---|---|
/// | `leastlock/{name}/queue/{store}-{number}` | one claim: when, whose, and for which job. On a lease of its own |
/// | `leastlock/{name}/released` | who has released last. On the lease of that claim, so that nothing is left of a lock that is not used |
///
/// Each claim has a key, created only if it is absent, and the lock belongs to the oldest: the queue is the order of their create
/// revisions, and **the create revision is the token**. So tokens rise with each owner, and are as durable as the cluster, which
/// answers a write when a majority has it on disk. They rise by more than one, since the whole cluster counts together. A waiter
/// watches the key before its own, and so no release wakes more than one. A release answers whose turn it is: if that claim is of the same
/// store, it needs no more trips, but for one that extends its lease where that was last done a while ago.
///
/// etcd keeps the name of each key that there was until the cluster compacts, and a request reads past those of its lock. So the names are
/// used again: a store has as many for a lock as it has had claims on it at a time. Whose a key is stands in it. Each new store has names of its own:
/// a process that runs for one claim leaves one behind, so have compaction on.
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
/// - Each change of a key stays in the cluster's history until that is compacted, as with all that is written there: have compaction on
///   (`--auto-compaction-retention`).
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
    /// What the names of its keys have that no other store's have.
    number: u64,
}

impl EtcdLeaseStore {
    /// The first part of every key, unless [`namespace`](Self::namespace) says otherwise.
    pub const DEFAULT_NAMESPACE: &'static str = "leastlock";

    /// A store on the cluster with these members. It connects when it is first used.
    #[must_use]
    pub fn new<E: Into<String>>(endpoints: impl IntoIterator<Item = E>, options: ConnectOptions) -> Self {
        let endpoints = endpoints.into_iter().map(Into::into).collect();
        let connections = Arc::new(Connections::new(endpoints, options));
        let namespace = Self::DEFAULT_NAMESPACE.into();
        Self { connections, claims: Arc::default(), namespace, number: fastrand::u64(..) }
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
        Keys::new(&self.namespace, claim.name)
    }

    async fn attempt(&self, client: &Client, claim: &Claim<'_>) -> Result<Grant<FencingToken>, Error> {
        let (keys, began) = (self.keys(claim), BootClock.now());
        if let Some(own) = self.take_turn(client, claim).await? {
            return Self::granted(client, claim, &own, began).await;
        }
        let (mut seen, own) = match self.look_again(client, &keys, claim).await? {
            Some(found) => found,
            None => self.enter(client, &keys, claim).await?,
        };
        if seen.is_spent(claim.nonce) {
            requests::remove(client, &own).await?;
            return Ok(Grant::Held(seen.holder(Duration::ZERO)));
        }
        if seen.is_owner() || is_below_floor(claim, own.token) {
            return Self::granted(client, claim, &own, began).await;
        }
        let remaining = self.wait_behind(client, &keys, claim, &mut seen, own.token).await?;
        Ok(Grant::Held(seen.holder(remaining)))
    }

    /// The claim's key, if this process has seen it become the oldest a moment ago, on a lease that has nearly all of its time left.
    async fn take_turn(&self, client: &Client, claim: &Claim<'_>) -> Result<Option<Known>, Error> {
        let Some(known) = self.claims.take_turn(claim.nonce) else { return Ok(None) };
        let lease = extended(client, known.lease).await?;
        if let Some(lease) = lease {
            self.claims.confirmed(claim.nonce, lease.confirmed);
        }
        Ok(lease.map(|lease| Known { lease, ..known }))
    }

    /// What the oldest claim is granted, or one that its floor refuses wherever it stands: an attempt whose key could not be removed has
    /// left it in the queue.
    async fn granted(
        client: &Client,
        claim: &Claim<'_>,
        own: &Known,
        began: BootTime,
    ) -> Result<Grant<FencingToken>, Error> {
        let token = FencingToken::new(own.token).ok_or_else(vanished)?;
        if is_below_floor(claim, own.token) {
            requests::remove(client, own).await?;
            return Ok(Grant::BelowFloor { token });
        }
        Ok(Grant::Granted { token, ttl: own.lease.left_at(began) })
    }

    /// Notes whom the claim waits for; answers how long the owner's lease lasts.
    async fn wait_behind(
        &self,
        client: &Client,
        keys: &Keys,
        claim: &Claim<'_>,
        seen: &mut Seen,
        token: i64,
    ) -> Result<Duration, Error> {
        let known = seen.place.take();
        let place = async {
            match known {
                Some(place) => Ok(place),
                None => requests::predecessor(client, keys, token).await,
            }
        };
        let oldest = seen.oldest.as_ref();
        let beside = oldest.and_then(|oldest| self.claims.remaining(oldest.key(), oldest.create_revision()));
        let remaining = async {
            match beside {
                Some(remaining) => Ok(remaining),
                None => requests::remaining(client, oldest).await,
            }
        };
        let (mut place, remaining) = tokio::try_join!(place, remaining)?;
        let before = place.predecessor.as_ref();
        place.beside = before.is_some_and(|(key, token)| self.claims.remaining(key, *token).is_some());
        self.claims.waits(claim.nonce, place);
        Ok(remaining)
    }

    /// Looks whether it is the turn of a claim that stands in the queue already, and extends its lease; `None` if it does not
    /// stand there any more, whose turn it would be now: its own lease had run out.
    async fn look_again(
        &self,
        client: &Client,
        keys: &Keys,
        claim: &Claim<'_>,
    ) -> Result<Option<(Seen, Known)>, Error> {
        let Some(known) = self.claims.seen(claim.nonce) else { return Ok(None) };
        let look = requests::look(client, keys, Some(&known.key));
        let (kept, seen) = tokio::try_join!(extended(client, known.lease), look)?;
        if let Some(kept) = kept {
            self.claims.confirmed(claim.nonce, kept.confirmed);
        }
        let stands = seen.own.as_ref().is_some_and(|own| known.is_at(own));
        Ok(kept.filter(|_| stands).map(|lease| (seen, Known { lease, ..known })))
    }

    /// Puts the claim into the queue, unless an attempt without an answer has.
    async fn enter(&self, client: &Client, keys: &Keys, claim: &Claim<'_>) -> Result<(Seen, Known), Error> {
        for _ in 0..NAMES {
            let (own, seen, lease, in_doubt) = self.put(client, keys, claim).await?;
            if seen.is_anothers(claim.nonce) {
                if in_doubt {
                    // An attempt of before finds no lease to stand on when that name is free.
                    requests::revoke(client, lease).await?;
                }
                self.claims.is_taken(claim.nonce, in_doubt);
                continue;
            }
            let found = match seen.oldest.as_ref().filter(|oldest| requests::owner(oldest) == Some(claim.nonce)) {
                Some(oldest) if oldest.key() != own.as_bytes() => oldest,
                _ => return self.entered(client, claim, own, seen, lease, in_doubt).await,
            };
            // It is the owner already, by another store.
            let mut seen = seen.clone();
            if let Some(put) = &seen.own {
                requests::remove(client, &Known { key: own, lease, token: put.create_revision() }).await?;
            }
            seen.own = Some(found.clone());
            let key = String::from_utf8_lossy(found.key()).into_owned();
            return self.entered(client, claim, key, seen, lease, in_doubt).await;
        }
        Err(vanished())
    }

    /// Puts the claim's key, on a lease that was extended; answers what stands there, and whether an attempt before was in doubt.
    async fn put(
        &self,
        client: &Client,
        keys: &Keys,
        claim: &Claim<'_>,
    ) -> Result<(String, Seen, EtcdLease, bool), Error> {
        let asked = whole_seconds(claim.ttl);
        let in_doubt = self.claims.is_doubtful(claim.nonce);
        let sends = |lease| {
            let of_slot = |slot| keys.of_slot(self.number, slot);
            self.claims.sends(claim.nonce, claim.name, lease, of_slot)
        };
        let known = self.claims.lease(claim.nonce).or_else(|| self.claims.take_idle(asked));
        if let Some(lease) = known {
            let own = sends(lease);
            // Side by side: if both are answered, the key stands on a lease that was extended.
            let enter = requests::enter(client, keys, &own, claim, lease);
            let (kept, seen) = tokio::try_join!(extended(client, lease), enter)?;
            if let (Some(lease), Some(seen)) = (kept, seen) {
                return Ok((own, seen, lease, in_doubt));
            }
            // It had run out.
        }
        let lease = requests::grant(client, asked).await?;
        let own = sends(lease);
        let seen = requests::enter(client, keys, &own, claim, lease).await?.ok_or_else(vanished)?;
        Ok((own, seen, lease, in_doubt))
    }

    /// The key stands on the lease that it was first put with.
    async fn entered(
        &self,
        client: &Client,
        claim: &Claim<'_>,
        key: String,
        seen: Seen,
        lease: EtcdLease,
        in_doubt: bool,
    ) -> Result<(Seen, Known), Error> {
        let own = seen.own.as_ref().ok_or_else(vanished)?;
        let own_lease = EtcdLease { id: own.lease(), ..lease };
        if own_lease.id != lease.id {
            requests::keep_alive(client, own_lease).await?.ok_or_else(vanished)?;
        }
        let known = Known { key, lease: own_lease, token: own.create_revision() };
        self.claims.answered(claim.nonce, known.clone(), in_doubt);
        Ok((seen, known))
    }

    async fn renewal(&self, client: &Client, claim: &Claim<'_>, token: FencingToken) -> Result<Renewal, Error> {
        let keys = self.keys(claim);
        let Some(known) = self.known(client, &keys, claim).await? else { return Ok(Renewal::NotOwner) };
        let Some(lease) = requests::keep_alive(client, known.lease).await? else { return Ok(Renewal::NotOwner) };
        // The lease lives on where an operator has deleted the key.
        let own = requests::look(client, &keys, Some(&known.key)).await?.own;
        let stands = own.is_some_and(|own| own.create_revision() == token.value() && own.lease() == lease.id);
        if !stands {
            return Ok(Renewal::NotOwner);
        }
        self.claims.confirmed(claim.nonce, lease.confirmed);
        Ok(Renewal::Renewed { ttl: lease.ttl })
    }

    /// A claim's key: what this process knows of it, or what stands in the queue.
    async fn known(&self, client: &Client, keys: &Keys, claim: &Claim<'_>) -> Result<Option<Known>, Error> {
        let known = self.claims.seen(claim.nonce);
        if known.is_some() {
            return Ok(known);
        }
        let found = requests::find(client, keys, claim.nonce).await?;
        Ok(found.map(|own| Known {
            key: String::from_utf8_lossy(own.key()).into_owned(),
            lease: EtcdLease::found(own.lease(), claim.ttl),
            token: own.create_revision(),
        }))
    }

    async fn leave(&self, client: &Client, claim: &Claim<'_>) -> Result<Release, Error> {
        let (keys, began) = (self.keys(claim), BootClock.now());
        let left = match self.known(client, &keys, claim).await? {
            Some(known) => requests::leave(client, &keys, claim.nonce, &known).await?,
            None => Left::NotThere(Box::new(requests::look(client, &keys, None).await?)),
        };
        if self.claims.is_doubtful(claim.nonce)
            && let Some(lease) = self.claims.lease(claim.nonce)
        {
            // An attempt that arrives only now finds no lease to stand on.
            requests::revoke(client, lease).await?;
        }
        Ok(match left {
            Left::AsOwner(next) => {
                self.claims.end(claim.nonce);
                if let Some(next) = next
                    && let Some(nonce) = requests::owner(&next)
                {
                    self.claims.comes(nonce, next.key(), next.create_revision(), began);
                }
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

fn is_below_floor(claim: &Claim<'_>, token: i64) -> bool {
    claim.floor.is_some_and(|floor| token <= floor.value())
}

/// The lease, extended unless that was done a moment ago; `None` if there is no such lease any more.
async fn extended(client: &Client, lease: EtcdLease) -> Result<Option<EtcdLease>, Error> {
    if lease.is_fresh() { Ok(Some(lease)) } else { requests::keep_alive(client, lease).await }
}

/// The lease of a key ended between two requests of one attempt; the next attempt makes another.
fn vanished() -> Error {
    Error::LeaseKeepAliveError("the lease ran out under the attempt".to_owned())
}
