use std::sync::Arc;
use std::time::Duration;

use leastlock_lease::{OwnerNonce, RedisLeaseStore};
use leastlock_testkit::{REDIS_URLS, TestDatabase};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, cmd};
use sqlx::Sqlite;
use tokio::sync::OnceCell;

use super::{Rig, Seen, sql};
use crate::world::{LIMIT, LONG, lock};

/// The store in the Redis of the tests, under a namespace of its own, and the resource in SQLite.
#[derive(Clone)]
pub(crate) struct Redis {
    client: Client,
    namespace: Box<str>,
    /// The test's own.
    connection: Arc<OnceCell<MultiplexedConnection>>,
    resource: Arc<TestDatabase<Sqlite>>,
}

/// A connection of the test's own, which is no worse for a machine that stands still for a second.
pub(crate) async fn patiently(client: &Client) -> redis::RedisResult<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new().set_connection_timeout(Some(LIMIT)).set_response_timeout(Some(LIMIT));
    client.get_multiplexed_async_connection_with_config(&patient).await
}

impl Redis {
    /// Where another process finds it: URL and namespace.
    pub(crate) fn address(&self) -> String {
        format!("redis://{}/ {}", self.client.get_connection_info().addr(), self.namespace)
    }

    fn key(&self, part: &str) -> String {
        format!("{}:{{{}}}:{part}", self.namespace, lock())
    }

    async fn connection(&self) -> MultiplexedConnection {
        let connection = self.connection.get_or_try_init(|| patiently(&self.client)).await;
        connection.expect("the Redis of the tests answers").clone()
    }
}

impl Rig for Redis {
    type Store = RedisLeaseStore;
    type DB = Sqlite;

    const TELLS_THE_TIME_TO: Option<Duration> = Some(Duration::from_millis(2));

    async fn create() -> Self {
        let urls = std::env::var(REDIS_URLS)
            .unwrap_or_else(|_| panic!("{REDIS_URLS} is not set: eval \"$(scripts/services env)\""));
        // The first may have a replica, with which nothing is durable.
        let url = urls.split(',').nth(1).expect("five Redis");
        let client = Client::open(url).expect("a Redis URL");
        let namespace = format!("test-{:032x}", fastrand::u128(..)).into();
        Self { client, namespace, connection: Arc::default(), resource: Arc::new(sql::protected().await) }
    }

    fn store(&self) -> RedisLeaseStore {
        RedisLeaseStore::new(self.client.clone()).namespace(self.namespace.clone())
    }

    fn database(&self) -> &TestDatabase<Sqlite> {
        &self.resource
    }

    async fn expire(&self) {
        self.end_whosever_it_is().await;
    }

    async fn forget(&self) {
        let keys = [self.key("owner"), self.key("fence")];
        cmd("DEL").arg(&keys).exec_async(&mut self.connection().await).await.unwrap();
    }

    async fn look(&self) -> Seen {
        let mut connection = self.connection().await;
        let token = cmd("HGET").arg(self.key("fence")).arg("token").query_async(&mut connection).await.unwrap();
        let held = cmd("EXISTS").arg(self.key("owner")).query_async(&mut connection).await.unwrap();
        let released: Option<String> =
            cmd("HGET").arg(self.key("fence")).arg("released").query_async(&mut connection).await.unwrap();
        Seen { token, held, released: released.as_deref() == Some("1") }
    }

    async fn end_whosever_it_is(&self) {
        cmd("DEL").arg(self.key("owner")).exec_async(&mut self.connection().await).await.unwrap();
    }

    async fn hold_by_force(&self, nonce: OwnerNonce) {
        let set = cmd("SET").arg(self.key("owner")).arg(&nonce.as_bytes()[..]).arg("EX").arg(LONG.as_secs()).clone();
        set.exec_async(&mut self.connection().await).await.unwrap();
    }
}
