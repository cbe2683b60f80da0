//! The lock store in Redis.

mod admin;
mod connection;
mod durability;
mod redlock;
mod waiter;

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use redis::{Client, Script, Value};

use crate::capabilities::{Capabilities, WakeUp};
use crate::lock_name::LockName;
use crate::store::{Claim, FencedStore, Grant, Holder, LeaseStore, Release, Renewal, StoreError, milliseconds};
use crate::token::{FencingToken, OwnerHash};
use crate::wake::Bells;

use connection::Connections;

pub use durability::{AcceptBestEffortToken, Durability, Durable, Undurable};
pub use redlock::RedlockStore;
pub use waiter::RedisWaiter;

/// The lock store in one Redis, from version 5 on.
///
/// | key | content |
/// |---|---|
/// | `leastlock:{name}:owner` | the owner's nonce; ends with the lease |
/// | `leastlock:{name}:fence` | the last token, its owner, since when, and for which job; never ends |
///
/// Each request is one script. A release is published on the channel `leastlock:freed`, which the waiters of a store listen to on one
/// connection of their own.
///
/// **A store asks one server, and is no client of a cluster.** The two keys share a hash tag, and so a slot. A server of a cluster serves
/// the locks whose slot it has; of any other the error is permanent, and says so. Put the locks on a server of their own.
///
/// Its tokens are monotonic. Whether they are durable is a matter of how the server is set up, and of what the type says:
///
/// - [`RedisLeaseStore::new`] is [`Durable`]: on every connect and reconnect it asks the server whether an acknowledged write
///   can be lost, and refuses to serve if so ([`Undurable`] says why). A server that does not let itself be asked (`CONFIG` is
///   refused) counts as one that can lose it.
/// - [`RedisLeaseStore::best_effort`] does not ask. After the loss of a write, a restart without persistence or the promotion
///   of a replica, a token may be issued again, and two may hold the lock. The resource still refuses the lower token, and of
///   two equal ones the second; a [floor](crate::Acquire::floor) lifts new ones above what it has seen. For an
///   [`EfficiencyLease`](crate::EfficiencyLease) that is as good as the other.
///
/// A setting that is changed under an open connection is noticed at the next reconnect only. Leases run out by the server's wall
/// clock: if it is stepped, two may hold the lock, and no stale fenced write is applied.
///
/// Every connection is the client's, that of the waiters too: over TLS with a URL of `rediss://` and `Client::build_with_tls`, as the user
/// of the URL. A certificate or a password that is refused is no time-out: it ends an acquisition at once.
///
/// ```no_run
/// use std::time::Duration;
/// use leastlock_lease::{Hold, Leases, LockName, RedisLeaseStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisLeaseStore::new(redis::Client::open("redis://127.0.0.1/")?);
/// store.check().await?; // fails early, instead of at the first lease
/// let leases = Leases::new(store);
/// let lease = leases.acquire(&LockName::new("job:settlement")?, Hold::renewed(Duration::from_secs(30))).await?;
/// # drop(lease);
/// # Ok(())
/// # }
/// ```
pub struct RedisLeaseStore<D: Durability = Durable> {
    connections: Connections,
    bells: Bells,
    namespace: Box<str>,
    scripts: Scripts,
    durability: PhantomData<D>,
}

#[derive(Clone)]
struct Scripts {
    acquire: Script,
    renew: Script,
    release: Script,
    inspect: Script,
    force_release: Script,
}

impl RedisLeaseStore<Durable> {
    /// A store on a server that loses no acknowledged write. It connects when it is first used.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self::on(client)
    }
}

impl RedisLeaseStore<AcceptBestEffortToken> {
    /// A store whose tokens are as durable as the server happens to be.
    #[must_use]
    pub fn best_effort(client: Client) -> Self {
        Self::on(client)
    }
}

impl<D: Durability> RedisLeaseStore<D> {
    /// The first part of every key, unless [`namespace`](Self::namespace) says otherwise.
    pub const DEFAULT_NAMESPACE: &'static str = "leastlock";

    fn on(client: Client) -> Self {
        let scripts = Scripts {
            acquire: Script::new(include_str!("../redis/acquire.lua")),
            renew: Script::new(include_str!("../redis/renew.lua")),
            release: Script::new(include_str!("../redis/release.lua")),
            inspect: Script::new(include_str!("../redis/inspect.lua")),
            force_release: Script::new(include_str!("../redis/force_release.lua")),
        };
        let connections = Connections::new(client, D::CHECKED);
        let namespace = Self::DEFAULT_NAMESPACE.into();
        Self { connections, bells: Bells::default(), namespace, scripts, durability: PhantomData }
    }

    /// Another first part of every key and of the channel, for applications that share a server. It must not have braces.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Box<str>>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Connects, and asks the server whether it will do, so that a service can fail when it starts.
    ///
    /// # Errors
    /// What any request would meet: a server that cannot be reached (retryable), or one that is [`Undurable`].
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.connections.check().await
    }

    fn key(&self, name: &LockName, part: &str) -> String {
        format!("{}:{{{name}}}:{part}", self.namespace)
    }

    fn channel(&self) -> String {
        format!("{}:freed", self.namespace)
    }

    /// Runs one script on the two keys of the lock.
    async fn run(&self, script: &Script, name: &LockName, arguments: &[&[u8]]) -> Result<Value, StoreError> {
        let mut invocation = script.prepare_invoke();
        invocation.key(self.key(name, "owner")).key(self.key(name, "fence"));
        for argument in arguments {
            invocation.arg(*argument);
        }
        self.connections.request(async |mut connection| invocation.invoke_async(&mut connection).await).await
    }
}

impl<D: Durability> Clone for RedisLeaseStore<D> {
    /// On the same connections.
    fn clone(&self) -> Self {
        Self {
            connections: self.connections.clone(),
            bells: self.bells.clone(),
            namespace: self.namespace.clone(),
            scripts: self.scripts.clone(),
            durability: PhantomData,
        }
    }
}

impl<D: Durability> fmt::Debug for RedisLeaseStore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client's address may have a password in it.
        f.debug_struct("RedisLeaseStore").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl<D: Durability> LeaseStore for RedisLeaseStore<D> {
    type Token = FencingToken;
    type Waiter = RedisWaiter;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN.wake_up(WakeUp::Woken).takes_over();

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        let ttl = milliseconds(claim.ttl).to_string();
        let floor = claim.floor.map_or(0, FencingToken::value).to_string();
        let job = claim.job.unwrap_or_default();
        let after = claim.after.as_ref().map_or(&[][..], |owner| &owner.as_bytes()[..]);
        let arguments = [&claim.nonce.as_bytes()[..], ttl.as_bytes(), floor.as_bytes(), job.as_bytes(), after];
        let answer = self.run(&self.scripts.acquire, claim.name, &arguments).await?;
        grant(answer, claim.ttl).map_err(StoreError::permanent)
    }

    fn waiter(&self, claim: Claim<'_>) -> RedisWaiter {
        RedisWaiter::new(self.connections.client(), self.channel(), &self.bells, claim.name)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        let (token, ttl) = (token.to_string(), milliseconds(claim.ttl).to_string());
        let arguments = [&claim.nonce.as_bytes()[..], token.as_bytes(), ttl.as_bytes()];
        let renewed = self.run(&self.scripts.renew, claim.name, &arguments).await?;
        Ok(if renewed == Value::Int(1) { Renewal::Renewed { ttl: claim.ttl } } else { Renewal::NotOwner })
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let channel = self.channel();
        let arguments = [&claim.nonce.as_bytes()[..], channel.as_bytes(), claim.name.as_str().as_bytes()];
        let released = self.run(&self.scripts.release, claim.name, &arguments).await?;
        Ok(if released == Value::Int(1) { Release::Released } else { Release::NotOwner })
    }

    /// The server ends its key.
    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}
}

impl FencedStore for RedisLeaseStore<Durable> {}

/// The caller has accepted by name that a token may be issued again.
impl FencedStore for RedisLeaseStore<AcceptBestEffortToken> {}

/// Reads what acquire.lua answers.
fn grant(answer: Value, ttl: Duration) -> Result<Grant<FencingToken>, redis::RedisError> {
    let mut parts = redis::from_redis_value::<Vec<Value>>(answer)?.into_iter();
    let mut next = || parts.next().unwrap_or(Value::Nil);
    if next() == Value::Int(1) {
        let token = token(&redis::from_redis_value::<String>(next())?);
        let token = token.ok_or((redis::ErrorKind::UnexpectedReturnType, "a token below 1"))?;
        return Ok(Grant::Granted { token, ttl });
    }
    let token = token(&redis::from_redis_value::<String>(next())?);
    let owner = OwnerHash::of(&redis::from_redis_value::<Vec<u8>>(next())?);
    let age = Duration::from_millis(redis::from_redis_value(next())?);
    let remaining = Duration::from_millis(redis::from_redis_value(next())?);
    let job: String = redis::from_redis_value(next())?;
    let job = Some(job).filter(|job| !job.is_empty()).map(String::into_boxed_str);
    Ok(Grant::Held(Holder { owner, token, age, remaining, job }))
}

/// `None` as well for a fence that somebody has deleted.
fn token(text: &str) -> Option<FencingToken> {
    text.parse().ok().and_then(FencingToken::new)
}
