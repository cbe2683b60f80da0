use std::sync::Arc;
use std::time::Duration;

use leastlock_lease::{OwnerNonce, ZooKeeperLeaseStore};
use leastlock_testkit::{TestDatabase, ZOOKEEPER_CONNECT};
use sqlx::Sqlite;
use zookeeper_client::{Acls, Client, CreateMode, Error, Stat};

use super::{Rig, Seen, sql};
use crate::fair::FairRig;
use crate::world::{LONG, lock};

/// The store in the ZooKeeper of the tests, under a node of its own, and the resource in SQLite.
#[derive(Clone)]
pub(crate) struct ZooKeeper {
    cluster: Box<str>,
    client: Client,
    root: Box<str>,
    resource: Arc<TestDatabase<Sqlite>>,
}

impl ZooKeeper {
    /// On another ensemble than that of the tests.
    pub(crate) async fn at(cluster: &str) -> Self {
        let client = Client::connector().with_session_timeout(LONG).connect(cluster).await.expect("ZooKeeper answers");
        let root = format!("/test-{:032x}", fastrand::u128(..)).into();
        Self { cluster: cluster.into(), client, root, resource: Arc::new(sql::protected().await) }
    }

    /// Where another process finds it: servers and root.
    pub(crate) fn address(&self) -> String {
        format!("{} {}", self.cluster, self.root)
    }

    pub(crate) fn cluster(&self) -> &str {
        &self.cluster
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Another client of the store, which goes by this address, and whose session ends after this time.
    pub(crate) fn store_by(&self, cluster: &str, session_timeout: Duration) -> ZooKeeperLeaseStore {
        let connector = Client::connector().with_session_timeout(session_timeout);
        ZooKeeperLeaseStore::new(cluster, connector).root(self.root.clone())
    }

    pub(crate) fn lock(&self) -> String {
        format!("{}/{}", self.root, lock())
    }

    /// The nodes of the lock, the oldest first.
    pub(crate) async fn nodes(&self) -> Vec<(String, Stat)> {
        let mut nodes = Vec::new();
        for name in self.client.list_children(&self.lock()).await.unwrap_or_default() {
            let path = format!("{}/{name}", self.lock());
            if let Some(stat) = self.client.check_stat(&path).await.unwrap() {
                nodes.push((path, stat));
            }
        }
        nodes.sort_by_key(|(_, stat)| stat.czxid);
        nodes
    }

    /// Makes a claim's node by hand, in this session.
    pub(crate) async fn claim_by_hand_of(&self, session: &Client, nonce: OwnerNonce) -> String {
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        session.mkdir(&self.lock(), &container).await.unwrap();
        let path = format!("{}/{}-", self.lock(), hex(nonce));
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = session.create(&path, b"60000 ", &options).await.unwrap();
        format!("{path}{sequence}")
    }

    async fn delete(&self, path: &str) {
        match self.client.delete(path, None).await {
            Ok(()) | Err(Error::NoNode) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn hex(nonce: OwnerNonce) -> String {
    format!("{:032x}", u128::from_be_bytes(*nonce.as_bytes()))
}

impl Rig for ZooKeeper {
    type Store = ZooKeeperLeaseStore;
    type DB = Sqlite;

    const TELLS_THE_TIME_TO: Option<Duration> = None;

    async fn create() -> Self {
        let cluster = std::env::var(ZOOKEEPER_CONNECT)
            .unwrap_or_else(|_| panic!("{ZOOKEEPER_CONNECT} is not set: eval \"$(scripts/services env)\""));
        Self::at(&cluster).await
    }

    fn store(&self) -> ZooKeeperLeaseStore {
        // As long as the longest lease in here.
        self.store_by(&self.cluster, LONG)
    }

    fn database(&self) -> &TestDatabase<Sqlite> {
        &self.resource
    }

    async fn expire(&self) {
        self.end_whosever_it_is().await;
    }

    async fn forget(&self) {
        for (path, _) in self.nodes().await {
            self.delete(&path).await;
        }
        let _absent = self.client.set_data(&self.lock(), b"", None).await;
    }

    async fn look(&self) -> Seen {
        if let Some((_, stat)) = self.nodes().await.first() {
            return Seen { token: Some(stat.czxid), held: true, released: false };
        }
        let released = self.client.get_data(&self.lock()).await.map(|(data, _)| data).unwrap_or_default();
        let token = std::str::from_utf8(&released).unwrap().split_once(' ').map(|(_, token)| token.parse().unwrap());
        Seen { token, held: false, released: token.is_some() }
    }

    async fn end_whosever_it_is(&self) {
        if let Some((path, _)) = self.nodes().await.first() {
            self.delete(path).await;
        }
    }

    async fn hold_by_force(&self, nonce: OwnerNonce) {
        self.forget().await;
        self.claim_by_hand_of(&self.client, nonce).await;
    }
}

impl FairRig for ZooKeeper {
    async fn end_claim(&self, nonce: OwnerNonce) {
        let nodes = self.nodes().await;
        let of_claim = nodes.iter().find(|(path, _)| path.contains(&hex(nonce)));
        self.delete(&of_claim.expect("the claim stands in the queue").0).await;
    }
}
