//! L15: Redlock with nodes that are down or slow. The five Redis of the tests, each behind a proxy that can take it away.

mod doubles;

use std::net::SocketAddr;
use std::time::Duration;

use ::redis::{Client, cmd};
use futures_util::future::join_all;
use leastlock_lease::{Claim, Grant, Holder, LeaseStore, OwnerNonce, RedlockStore, Release, Renewal, StoreError};
use leastlock_testkit::proxy::FaultProxy;

use crate::rig::redlock::{ask, five, key};
use crate::world::{LONG, eventually, lock};
use doubles::{Careless, Mistake};

/// Longer than a busy machine takes for an answer, and short beside a test.
const NODE_LIMIT: Duration = Duration::from_millis(700);

/// Five nodes, and the way to each.
struct Nodes {
    direct: Vec<Client>,
    proxies: Vec<FaultProxy>,
    namespace: String,
}

/// How a node is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Down {
    /// It refuses connections.
    Refuses,
    /// It swallows what is sent to it.
    Silent,
}

impl Nodes {
    async fn create() -> Self {
        let direct = five();
        let mut proxies = Vec::new();
        for node in &direct {
            let address: SocketAddr = node.get_connection_info().addr().to_string().parse().expect("an address");
            proxies.push(FaultProxy::start(address).await);
        }
        Self { direct, proxies, namespace: format!("test-{:032x}", fastrand::u128(..)) }
    }

    fn through_proxies(&self) -> Vec<Client> {
        let url = |proxy: &FaultProxy| Client::open(format!("redis://{}/", proxy.address())).unwrap();
        self.proxies.iter().map(url).collect()
    }

    fn store(&self, node_limit: Duration) -> RedlockStore {
        let store = RedlockStore::new(self.through_proxies()).unwrap();
        store.namespace(self.namespace.clone()).node_limit(node_limit)
    }

    fn double(&self, mistake: Mistake) -> Careless {
        Careless { nodes: self.through_proxies(), key: key(&self.namespace, "redlock"), mistake }
    }

    /// Takes the first so many away.
    async fn take_down(&self, count: usize, how: Down) {
        for proxy in &self.proxies[..count] {
            match how {
                Down::Refuses => proxy.cut().await,
                Down::Silent => proxy.black_hole(),
            }
        }
    }

    fn heal(&self) {
        for proxy in &self.proxies {
            proxy.heal();
        }
    }

    /// On how many nodes the lock is.
    async fn votes(&self) -> usize {
        let mut votes = 0;
        for node in &self.direct {
            votes += ask::<usize>(node, cmd("EXISTS").arg(key(&self.namespace, "redlock"))).await;
        }
        votes
    }

    /// A rival who got there first on so many nodes.
    async fn held_by_rivals(&self, count: usize) {
        for (number, node) in self.direct[..count].iter().enumerate() {
            let key = key(&self.namespace, "redlock");
            let () = ask(node, cmd("HSET").arg(&key).arg("nonce").arg(format!("rival {number}"))).await;
            let () = ask(node, cmd("EXPIRE").arg(&key).arg(60)).await;
        }
    }
}

fn nonce() -> OwnerNonce {
    OwnerNonce::random().unwrap()
}

async fn acquire(store: &impl LeaseStore<Token = ()>, claim: Claim<'_>) -> Result<Grant<()>, StoreError> {
    store.acquire(claim).await
}

fn is_granted(grant: &Result<Grant<()>, StoreError>) -> bool {
    matches!(grant, Ok(Grant::Granted { .. }))
}

mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l15_with_two_of_five_down_it_works_and_with_three_it_fails_and_gives_back() {
        let ways = [Down::Refuses, Down::Silent].into_iter().flat_map(|how| (0..=3).map(move |down| (how, down)));
        let each = ways.map(async |(how, down)| {
            let (nodes, name) = (Nodes::create().await, lock());
            let (store, claim) = (nodes.store(NODE_LIMIT), Claim::new(&name, nonce(), LONG));
            nodes.take_down(down, how).await;
            let grant = acquire(&store, claim).await;
            if down < 3 {
                assert!(is_granted(&grant), "{down} {how:?}: {grant:?}");
                let renewal = store.renew(claim, ()).await.unwrap();
                assert_eq!(renewal, Renewal::Renewed { ttl: LONG }, "{down} {how:?}");
                let rival = acquire(&store, Claim::new(&name, nonce(), LONG)).await.unwrap();
                let Grant::Held(Holder { owner, .. }) = rival else { panic!("{rival:?}") };
                assert_eq!(owner, claim.nonce.hash());
                assert_eq!(store.release(claim).await.unwrap(), Release::Released, "{down} {how:?}");
            } else {
                assert!(grant.is_err_and(|error| error.is_retryable()), "no answer is no refusal");
                assert!(store.renew(claim, ()).await.is_err() && store.release(claim).await.is_err());
            }
            eventually("what two nodes had granted is given back", async || nodes.votes().await == 0).await;
            nodes.heal();
            let next = Claim::new(&name, nonce(), LONG);
            eventually("all are there again", async || is_granted(&acquire(&store, next).await)).await;
        });
        join_all(each).await;
        // The doubles: one is content with fewer, the other leaves behind what it has got.
        let (nodes, name) = (Nodes::create().await, lock());
        nodes.take_down(3, Down::Refuses).await;
        let claim = Claim::new(&name, nonce(), LONG);
        assert!(is_granted(&acquire(&nodes.double(Mistake::TakesAMinority), claim).await));
        let _ = nodes.double(Mistake::TakesAMinority).release(claim).await.unwrap();
        assert!(!is_granted(&acquire(&nodes.double(Mistake::KeepsItsVotes), claim).await));
        assert_eq!(nodes.votes().await, 2, "the double keeps others out for the TTL");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l15_slow_nodes_that_eat_the_ttl_are_a_failure() {
        let ttl = Duration::from_millis(100);
        let (nodes, name) = (Nodes::create().await, lock());
        let (store, long) = (nodes.store(Duration::from_secs(10)), Claim::new(&name, nonce(), LONG));
        assert!(is_granted(&acquire(&store, long).await), "connected to all");
        assert_eq!(store.release(long).await.unwrap(), Release::Released);
        // Three of five: no majority without one of them. Each answer takes twice this, longer than the lease would last.
        for proxy in &nodes.proxies[..3] {
            proxy.delay(ttl * 3 / 4);
        }
        let claim = Claim::new(&name, nonce(), ttl);
        let late = acquire(&store, claim).await;
        assert!(late.is_err_and(|error| error.is_retryable()), "nothing is left of the lease");
        let double = nodes.double(Mistake::ForgetsTheTime);
        assert!(is_granted(&acquire(&double, claim).await), "the double believes in it");
        let _ = double.release(claim).await.unwrap();
        eventually("nothing is left behind", async || nodes.votes().await == 0).await;
        // Two of five: the others decide without them.
        nodes.proxies[2].delay(Duration::ZERO);
        let claim = Claim::new(&name, nonce(), LONG);
        let granted = acquire(&store, claim).await;
        assert!(is_granted(&granted), "{granted:?}");
        assert_eq!(store.release(claim).await.unwrap(), Release::Released);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l15_votes_that_are_split_give_nobody_the_lock_and_are_given_back() {
        let (nodes, name) = (Nodes::create().await, lock());
        let (store, claim) = (nodes.store(NODE_LIMIT), Claim::new(&name, nonce(), LONG));
        nodes.held_by_rivals(3).await;
        let refused = acquire(&store, claim).await.unwrap();
        assert!(matches!(refused, Grant::Held(_)), "{refused:?}");
        eventually("two votes are given back", async || nodes.votes().await == 3).await;
        assert_eq!(store.renew(claim, ()).await.unwrap(), Renewal::NotOwner);
        assert_eq!(store.release(claim).await.unwrap(), Release::NotOwner);
        assert_eq!(nodes.votes().await, 3, "nobody else's vote is touched");
    }

    #[test]
    fn nodes_that_are_no_majority_of_anything_are_refused() {
        let node = |port: u16| Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
        assert!(RedlockStore::new([node(1), node(2)]).is_err(), "the loss of either stops all");
        assert!(RedlockStore::new([node(1), node(2), node(1)]).is_err(), "one would have two votes");
        assert!(RedlockStore::new([node(1), node(2), node(3)]).is_ok());
    }
}
