use std::sync::Arc;
use std::time::Duration;

use leastlock_lease::{OwnerNonce, RedlockStore};
use leastlock_testkit::{REDIS_URLS, TestDatabase};
use redis::{Client, Cmd, FromRedisValue, cmd};
use sqlx::Sqlite;

use super::numbered::{Numbered, Numbers};
use super::redis::patiently;
use super::{Rig, Seen, sql};
use crate::world::{LONG, lock};

/// The store over the five Redis of the tests, under a namespace of its own, and a resource in SQLite that nothing protects.
#[derive(Clone)]
pub(crate) struct Redlock {
    nodes: Vec<Client>,
    namespace: Box<str>,
    numbers: Numbers,
    resource: Arc<TestDatabase<Sqlite>>,
}

/// The five Redis of the tests.
pub(crate) fn five() -> Vec<Client> {
    let urls = std::env::var(REDIS_URLS)
        .unwrap_or_else(|_| panic!("{REDIS_URLS} is not set: eval \"$(scripts/services env)\""));
    let nodes: Vec<_> = urls.split(',').map(|url| Client::open(url).expect("a Redis URL")).collect();
    assert_eq!(nodes.len(), 5, "{REDIS_URLS}");
    nodes
}

/// Asks one node behind the library's back.
pub(crate) async fn ask<T: FromRedisValue>(node: &Client, command: &Cmd) -> T {
    let mut connection = patiently(node).await.expect("the Redis of the tests answers");
    command.query_async(&mut connection).await.unwrap()
}

pub(crate) fn key(namespace: &str, part: &str) -> String {
    format!("{namespace}:{{{}}}:{part}", lock())
}

impl Redlock {
    async fn each(&self, command: &Cmd) {
        for node in &self.nodes {
            let () = ask(node, command).await;
        }
    }

    /// Whether this key is on a majority of the nodes.
    async fn most_have(&self, part: &str) -> bool {
        let mut found = 0;
        for node in &self.nodes {
            found += ask::<usize>(node, cmd("EXISTS").arg(key(&self.namespace, part))).await;
        }
        2 * found > self.nodes.len()
    }
}

impl Rig for Redlock {
    type Store = Numbered<RedlockStore>;
    type DB = Sqlite;

    const TELLS_THE_TIME_TO: Option<Duration> = Some(Duration::from_millis(2));

    async fn create() -> Self {
        let namespace = format!("test-{:032x}", fastrand::u128(..)).into();
        Self { nodes: five(), namespace, numbers: Numbers::default(), resource: Arc::new(sql::protected().await) }
    }

    fn store(&self) -> Numbered<RedlockStore> {
        let store = RedlockStore::new(self.nodes.clone()).unwrap().namespace(self.namespace.clone());
        // The machine is busy with other tests, and no node of this one is down.
        Numbered { store: Arc::new(store.node_limit(LONG)), numbers: self.numbers.clone() }
    }

    fn database(&self) -> &TestDatabase<Sqlite> {
        &self.resource
    }

    async fn expire(&self) {
        self.end_whosever_it_is().await;
    }

    async fn forget(&self) {
        let keys = ["redlock", "redlock-spent"].map(|part| key(&self.namespace, part));
        self.each(cmd("DEL").arg(&keys)).await;
        self.numbers.forget();
    }

    async fn look(&self) -> Seen {
        let held = self.most_have("redlock").await;
        let released = !held && self.most_have("redlock-spent").await;
        Seen { token: self.numbers.last(), held, released }
    }

    async fn end_whosever_it_is(&self) {
        self.each(cmd("DEL").arg(key(&self.namespace, "redlock"))).await;
    }

    async fn hold_by_force(&self, nonce: OwnerNonce) {
        let key = key(&self.namespace, "redlock");
        self.each(cmd("HSET").arg(&key).arg("nonce").arg(&nonce.as_bytes()[..])).await;
        self.each(cmd("EXPIRE").arg(&key).arg(LONG.as_secs())).await;
    }
}
