//! A lock store over several Redis that know nothing of each other.

mod ballot;
mod node;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Script};
use tokio::task::JoinSet;

use crate::capabilities::{Capabilities, FloorRule};
use crate::clock::{BootClock, BootTime, Clock};
use crate::error::Error;
use crate::store::{Claim, Grant, LeaseStore, Polling, Release, Renewal, StoreError, milliseconds};

use ballot::{Ballot, Vote};
use node::Node;

/// Redlock: a lock store over several independent Redis, of which the majority decides. For
/// [`EfficiencyLease`](crate::EfficiencyLease)s only, by type: it has no fencing token.
///
/// It goes on as long as a majority answers: of five servers two may be down. Whoever gets the votes of a majority within the
/// TTL, less the time that it took and an allowance for drifting clocks, holds the lock for the rest of it; whoever does not
/// takes all votes back, also those whose answers were lost. (After Salvatore Sanfilippo, "Distributed Locks with Redis", Redis
/// manual.)
///
/// What it does not have (Martin Kleppmann, "How to do distributed locking", 2016): a holder that is paused for longer than the
/// TTL does not learn in time that another has the lock, a node whose clock jumps gives its vote away early, and so does one that
/// restarts without what it had acknowledged, unless it stays away for a TTL. Nothing tells a resource which of two holders is the
/// newer. Where that would corrupt data, take a [`CorrectnessLease`](crate::CorrectnessLease) from one durable store.
///
/// | key, on each node | content |
/// |---|---|
/// | `leastlock:{name}:redlock` | the owner's nonce, since when, and for which job; ends with the lease |
/// | `leastlock:{name}:redlock-spent` | the nonce that was released last, for one TTL |
///
/// All nodes are asked at once, and each gets [`node_limit`](Self::node_limit) to answer; a lease is granted as soon as a majority
/// has agreed. Waiters poll, with full jitter.
///
/// ```no_run
/// use std::time::Duration;
/// use leastlock_lease::{Hold, Leases, LockName, RedlockStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let nodes = ["redis://a/", "redis://b/", "redis://c/", "redis://d/", "redis://e/"].map(redis::Client::open);
/// let nodes = nodes.into_iter().collect::<Result<Vec<_>, _>>()?;
/// let leases = Leases::new(RedlockStore::new(nodes)?);
/// let lease = leases.acquire_efficiency(&LockName::new("cache:prices")?, Hold::renewed(Duration::from_secs(10))).await?;
/// # drop(lease);
/// # Ok(())
/// # }
/// ```
///
/// ```compile_fail,E0277
/// fn fenced(_: impl leastlock_lease::FencedStore) {}
/// fn refused(store: leastlock_lease::RedlockStore) {
///     fenced(store);
/// }
/// ```
pub struct RedlockStore {
    nodes: Box<[Arc<Node>]>,
    namespace: Box<str>,
    node_limit: Duration,
    scripts: Scripts,
}

struct Scripts {
    acquire: Arc<Script>,
    renew: Arc<Script>,
    withdraw: Arc<Script>,
    release: Arc<Script>,
}

impl RedlockStore {
    /// The fewest nodes: with two, the loss of either would stop all.
    pub const MIN_NODES: usize = 3;
    /// How long a node gets to answer, unless [`node_limit`](Self::node_limit) says otherwise.
    pub const DEFAULT_NODE_LIMIT: Duration = Duration::from_millis(50);

    /// A store over these nodes. It connects when it is first used.
    ///
    /// # Errors
    /// [`Error::Nodes`] if there are fewer than [`MIN_NODES`](Self::MIN_NODES), or one is named twice: its vote would count
    /// twice.
    pub fn new(nodes: impl IntoIterator<Item = Client>) -> Result<Self, Error> {
        let clients: Vec<_> = nodes.into_iter().collect();
        if clients.len() < Self::MIN_NODES {
            return Err(Error::Nodes { fault: "there are fewer than three" });
        }
        let address = |client: &Client| client.get_connection_info().addr().to_string();
        let mut addresses: Vec<_> = clients.iter().map(address).collect();
        addresses.sort_unstable();
        if addresses.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Error::Nodes { fault: "one is named twice, and would have two votes" });
        }
        let script = |code| Arc::new(Script::new(code));
        let scripts = Scripts {
            acquire: script(include_str!("../../redis/redlock/acquire.lua")),
            renew: script(include_str!("../../redis/redlock/renew.lua")),
            withdraw: script(include_str!("../../redis/redlock/withdraw.lua")),
            release: script(include_str!("../../redis/redlock/release.lua")),
        };
        let nodes = clients.into_iter().map(|client| Arc::new(Node::new(client))).collect();
        Ok(Self { nodes, namespace: "leastlock".into(), node_limit: Self::DEFAULT_NODE_LIMIT, scripts })
    }

    /// Another first part of every key, for applications that share servers. It must not have braces.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<Box<str>>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// How long each node gets to answer a request. It should be small beside the TTL: a node that is down must not eat it.
    #[must_use]
    pub fn node_limit(mut self, limit: Duration) -> Self {
        self.node_limit = limit;
        self
    }

    /// Asks all nodes at once, and counts until their answers have decided. What is on its way to a slow node arrives there.
    async fn ask(&self, script: &Arc<Script>, claim: Claim<'_>, arguments: &[&[u8]]) -> Ballot {
        let (ballot, mut others) = self.count(script, claim, arguments).await;
        others.detach_all();
        ballot
    }

    /// The same, with the requests that are still under way.
    async fn count(
        &self,
        script: &Arc<Script>,
        claim: Claim<'_>,
        arguments: &[&[u8]],
    ) -> (Ballot, JoinSet<Result<Vote, StoreError>>) {
        let mut ballot = Ballot::among(self.nodes.len());
        let mut votes = self.send(script, claim, arguments);
        let decided = async {
            while !ballot.is_decided() {
                match votes.join_next().await {
                    Some(Ok(Ok(vote))) => ballot.count(vote),
                    // A node that has failed has no vote.
                    Some(failed) => ballot.silent(failed.ok().and_then(Result::err)),
                    None => break,
                }
            }
        };
        let _over = tokio::time::timeout(self.node_limit, decided).await;
        (ballot, votes)
    }

    /// One request to each node, in a task of its own.
    fn send(&self, script: &Arc<Script>, claim: Claim<'_>, arguments: &[&[u8]]) -> JoinSet<Result<Vote, StoreError>> {
        let key = |part| format!("{}:{{{}}}:{part}", self.namespace, claim.name).into_bytes();
        let keys: Arc<[Vec<u8>]> = Arc::new([key("redlock"), key("redlock-spent")]);
        let arguments: Arc<[Vec<u8>]> = arguments.iter().map(|argument| argument.to_vec()).collect();
        let (mut votes, limit) = (JoinSet::new(), self.node_limit);
        for node in &self.nodes {
            let (node, script) = (Arc::clone(node), Arc::clone(script));
            let (keys, arguments) = (Arc::clone(&keys), Arc::clone(&arguments));
            votes.spawn(async move { Vote::read(node.run(&script, &keys, &arguments, limit).await?) });
        }
        votes
    }

    /// Takes back the votes of an attempt that has failed, those that arrive late included.
    async fn withdraw(&self, claim: Claim<'_>) {
        let mut votes = self.send(&self.scripts.withdraw, claim, &[claim.nonce.as_bytes()]);
        let all = async { while votes.join_next().await.is_some() {} };
        // Whoever does not answer in time may still do it.
        let _over = tokio::time::timeout(self.node_limit, all).await;
        votes.detach_all();
    }
}

impl fmt::Debug for RedlockStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A client's address may have a password in it.
        f.debug_struct("RedlockStore")
            .field("nodes", &self.nodes.len())
            .field("namespace", &self.namespace)
            .field("node_limit", &self.node_limit)
            .finish_non_exhaustive()
    }
}

impl LeaseStore for RedlockStore {
    type Token = ();
    type Waiter = Polling;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN.floor(FloorRule::NoToken);

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<()>, StoreError> {
        let (sent, ttl) = (BootClock.now(), milliseconds(claim.ttl).to_string());
        let arguments = [&claim.nonce.as_bytes()[..], ttl.as_bytes(), claim.job.unwrap_or_default().as_bytes()];
        let (ballot, mut others) = self.count(&self.scripts.acquire, claim, &arguments).await;
        if ballot.is_won() && is_valid(claim, sent) {
            others.detach_all();
            return Ok(Grant::Granted { token: (), ttl: claim.ttl });
        }
        // What takes a vote back must not overtake what asks for it, on a node that was only now connected to, say.
        while others.join_next().await.is_some() {}
        self.withdraw(claim).await;
        if ballot.is_won() {
            return Err(StoreError::retryable("the answers of the Redis took longer than the lease would have lasted"));
        }
        ballot.refusal().map(Grant::Held)
    }

    fn waiter(&self, _claim: Claim<'_>) -> Polling {
        Polling
    }

    async fn renew(&self, claim: Claim<'_>, (): ()) -> Result<Renewal, StoreError> {
        let (sent, ttl) = (BootClock.now(), milliseconds(claim.ttl).to_string());
        let arguments = [&claim.nonce.as_bytes()[..], ttl.as_bytes()];
        let ballot = self.ask(&self.scripts.renew, claim, &arguments).await;
        let stands = ballot.outcome()? && is_valid(claim, sent);
        Ok(if stands { Renewal::Renewed { ttl: claim.ttl } } else { Renewal::NotOwner })
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        let ttl = milliseconds(claim.ttl).to_string();
        let arguments = [&claim.nonce.as_bytes()[..], ttl.as_bytes()];
        let ballot = self.ask(&self.scripts.release, claim, &arguments).await;
        Ok(if ballot.outcome()? { Release::Released } else { Release::NotOwner })
    }

    /// Each node ends its key.
    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}
}

/// Whether anything is left of a lease that was asked for at `sent`: the TTL, less the time that it took and the drift of the
/// nodes' clocks.
fn is_valid(claim: Claim<'_>, sent: BootTime) -> bool {
    let drift = claim.ttl / 100 + Duration::from_millis(2);
    BootClock.now().since(sent) + drift < claim.ttl
}
