use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    Client, ConnectOptions, EventType, GetOptions, KeyValue, PutOptions, SortOrder, SortTarget, WatchOptions,
};
use leastlock_lease::{EtcdLeaseStore, OwnerNonce};
use leastlock_testkit::{ETCD_ENDPOINTS, TestDatabase};
use sqlx::Sqlite;
use tokio::time::timeout;

use super::{Rig, Seen, sql};
use crate::fair::FairRig;
use crate::world::{LIMIT, LONG, lock};

/// The store in the etcd of the tests, under a namespace of its own, and the resource in SQLite.
#[derive(Clone)]
pub(crate) struct Etcd {
    endpoints: Box<[String]>,
    client: Client,
    namespace: Box<str>,
    resource: Arc<TestDatabase<Sqlite>>,
}

impl Etcd {
    /// On another cluster than that of the tests.
    pub(crate) async fn at(endpoints: &str) -> Self {
        let endpoints: Box<[String]> = endpoints.split(',').map(str::to_owned).collect();
        let client = Client::connect(&endpoints, None).await.expect("endpoints of etcd");
        let namespace = format!("test-{:032x}", fastrand::u128(..)).into();
        Self { endpoints, client, namespace, resource: Arc::new(sql::protected().await) }
    }

    /// Where another process finds it: endpoint and namespace.
    pub(crate) fn address(&self) -> String {
        format!("{} {}", self.endpoints[0], self.namespace)
    }

    pub(crate) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Another client of the store, which goes by these endpoints.
    pub(crate) fn store_by<E: Into<String>>(&self, endpoints: impl IntoIterator<Item = E>) -> EtcdLeaseStore {
        EtcdLeaseStore::new(endpoints, ConnectOptions::new()).namespace(self.namespace.clone())
    }

    pub(crate) async fn owners_lease(&self) -> i64 {
        self.owner().await.expect("somebody holds the lock").lease()
    }

    /// Moves the cluster's counter ahead.
    pub(crate) async fn write_until(&self, revision: i64) {
        let beside = format!("{}/beside", self.namespace);
        loop {
            let put = self.client.kv_client().put(&*beside, "", None).await.unwrap();
            if put.header().unwrap().revision() >= revision {
                return;
            }
        }
    }

    fn key(&self, part: &str) -> String {
        format!("{}/{}/{part}", self.namespace, lock())
    }

    /// The names of all keys that the lock's queue has had since this revision, one for each time that a claim was put.
    pub(crate) async fn names_since(&self, revision: i64) -> Vec<String> {
        const LAST: &str = "queue/last";
        self.client.kv_client().put(self.key(LAST), "", None).await.unwrap();
        self.client.kv_client().delete(self.key(LAST), None).await.unwrap();
        let all = WatchOptions::new().with_prefix().with_start_revision(revision + 1);
        let mut events = self.client.watch_client().watch(self.key("queue/"), Some(all)).await.unwrap();
        let mut names = Vec::new();
        loop {
            let heard = timeout(LIMIT, events.message()).await.expect("the last one is told");
            for event in heard.unwrap().expect("it watches").events() {
                let name = event.kv().expect("what has changed").key_str().unwrap().to_owned();
                match event.event_type() {
                    _ if name.ends_with(LAST) => return names,
                    EventType::Put => names.push(name),
                    EventType::Delete => {}
                }
            }
        }
    }

    /// Puts a stranger's claim at the name that the lock's last claim since this revision had.
    pub(crate) async fn stand_in_the_way(&self, stranger: OwnerNonce, since: i64) {
        let names = self.names_since(since).await;
        let lease = self.client.lease_client().grant(60, None).await.unwrap().id();
        let put = PutOptions::new().with_lease(lease);
        let claim = format!("0 {} ", hex(stranger));
        self.client.kv_client().put(names.last().expect("it was claimed").as_str(), claim, Some(put)).await.unwrap();
    }

    /// Where the cluster's counter is.
    pub(crate) async fn revision(&self) -> i64 {
        let nothing = self.client.kv_client().get(self.key("nothing"), None).await.unwrap();
        nothing.header().unwrap().revision()
    }

    async fn claim(&self, nonce: OwnerNonce) -> Option<KeyValue> {
        let all = GetOptions::new().with_prefix();
        let mut found = self.client.kv_client().get(self.key("queue/"), Some(all)).await.unwrap();
        found.take_kvs().into_iter().find(|claim| claim.value_str().unwrap().contains(&hex(nonce)))
    }

    /// The oldest claim.
    async fn owner(&self) -> Option<KeyValue> {
        let oldest = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
        let mut found = self.client.kv_client().get(self.key("queue/"), Some(oldest)).await.unwrap();
        found.take_kvs().into_iter().next()
    }

    async fn get(&self, key: String) -> Option<KeyValue> {
        self.client.kv_client().get(key, None).await.unwrap().take_kvs().into_iter().next()
    }

    /// It may have ended by itself meanwhile.
    async fn revoke(&self, lease: i64) {
        let _gone = self.client.lease_client().revoke(lease).await;
    }
}

fn hex(nonce: OwnerNonce) -> String {
    format!("{:032x}", u128::from_be_bytes(*nonce.as_bytes()))
}

impl Rig for Etcd {
    type Store = EtcdLeaseStore;
    type DB = Sqlite;

    const TELLS_THE_TIME_TO: Option<Duration> = Some(Duration::from_secs(1));

    async fn create() -> Self {
        let endpoints = std::env::var(ETCD_ENDPOINTS)
            .unwrap_or_else(|_| panic!("{ETCD_ENDPOINTS} is not set: eval \"$(scripts/services env)\""));
        Self::at(&endpoints).await
    }

    fn store(&self) -> EtcdLeaseStore {
        self.store_by(self.endpoints.iter())
    }

    fn database(&self) -> &TestDatabase<Sqlite> {
        &self.resource
    }

    async fn expire(&self) {
        if let Some(owner) = self.owner().await {
            self.revoke(owner.lease()).await;
        }
    }

    async fn forget(&self) {
        let all = etcd_client::DeleteOptions::new().with_prefix();
        self.client.kv_client().delete(self.key(""), Some(all)).await.unwrap();
    }

    async fn look(&self) -> Seen {
        if let Some(owner) = self.owner().await {
            return Seen { token: Some(owner.create_revision()), held: true, released: false };
        }
        let Some(released) = self.get(self.key("released")).await else {
            return Seen { token: None, held: false, released: false };
        };
        // Who has taken a lock away has the revision of that as token.
        let token = released.value_str().unwrap().split(' ').nth(2).map(|token| token.parse().unwrap());
        Seen { token: Some(token.unwrap_or(released.mod_revision())), held: false, released: true }
    }

    async fn end_whosever_it_is(&self) {
        if let Some(owner) = self.owner().await {
            self.client.kv_client().delete(owner.key(), None).await.unwrap();
        }
    }

    async fn hold_by_force(&self, nonce: OwnerNonce) {
        self.forget().await;
        let ttl = i64::try_from(LONG.as_secs()).unwrap();
        let lease = self.client.lease_client().grant(ttl, None).await.unwrap().id();
        let put = PutOptions::new().with_lease(lease);
        let claim = format!("0 {} ", hex(nonce));
        self.client.kv_client().put(self.key("queue/by-force"), claim, Some(put)).await.unwrap();
    }
}

impl FairRig for Etcd {
    async fn end_claim(&self, nonce: OwnerNonce) {
        let claim = self.claim(nonce).await.expect("the claim stands in the queue");
        self.revoke(claim.lease()).await;
    }
}
