//! The backend in Redis: `SET … NX PX`, and a script that deletes what is one's own.

use std::sync::{Arc, LazyLock};

use anyhow::Context;
use leastlock_lease::{LockName, RedisLeaseStore};
use leastlock_testkit::REDIS_URLS;
use redis::aio::MultiplexedConnection;
use redis::{Client, Script, Value, cmd};

use super::locks::{Locks, TTL_MS};

static GIVE_UP: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../../redis/give_up.lua")));

/// Keys under a namespace of their own. The server must be durable, or the store refuses it.
#[derive(Debug)]
pub(super) struct Redis {
    client: Client,
    url: String,
    namespace: String,
}

impl Redis {
    /// Where the server is, and the namespace of the keys.
    pub(super) fn address(&self) -> (String, String) {
        (self.url.clone(), self.namespace.clone())
    }
}

/// One connection for all clients, as the store has it.
pub(super) struct Driver {
    connection: MultiplexedConnection,
    namespace: String,
}

impl Driver {
    fn key(&self, name: &LockName) -> String {
        format!("{}:plain:{name}", self.namespace)
    }
}

impl Locks for Redis {
    type Store = RedisLeaseStore;
    type Driver = Driver;

    const SERVER: Option<&'static str> = Some(REDIS_URLS);

    async fn create() -> anyhow::Result<Self> {
        let urls = std::env::var(REDIS_URLS)?;
        // The first may have a replica, with which nothing is durable.
        let url = urls.split(',').nth(1).with_context(|| format!("{REDIS_URLS} names one Redis, and not five"))?;
        let namespace = format!("bench-{:016x}", fastrand::u64(..));
        Ok(Self { client: Client::open(url)?, url: url.to_owned(), namespace })
    }

    async fn about(&self) -> anyhow::Result<String> {
        let mut connection = self.client.get_multiplexed_async_connection().await?;
        let info: String = cmd("INFO").arg("server").query_async(&mut connection).await?;
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let fsync: Vec<String> = cmd("CONFIG").arg("GET").arg("appendfsync").query_async(&mut connection).await?;
        Ok(format!("Redis {} with appendfsync {}", version.unwrap_or("?"), fsync.last().map_or("?", String::as_str)))
    }

    async fn open(&self, _clients: u32) -> anyhow::Result<Driver> {
        let connection = self.client.get_multiplexed_async_connection().await?;
        Ok(Driver { connection, namespace: self.namespace.clone() })
    }

    fn store(&self, _driver: &Driver) -> RedisLeaseStore {
        RedisLeaseStore::new(self.client.clone()).namespace(self.namespace.clone())
    }

    async fn take(driver: &Driver, name: &LockName, owner: &[u8]) -> anyhow::Result<bool> {
        let set = cmd("SET").arg(driver.key(name)).arg(owner).arg("NX").arg("PX").arg(TTL_MS).clone();
        let taken: Value = set.query_async(&mut driver.connection.clone()).await?;
        Ok(taken == Value::Okay)
    }

    async fn give_up(driver: &Driver, name: &LockName, owner: &[u8]) -> anyhow::Result<bool> {
        let given_up = GIVE_UP.key(driver.key(name)).arg(owner).invoke_async(&mut driver.connection.clone()).await;
        Ok(given_up.map(|deleted: i64| deleted == 1)?)
    }

    /// It closes with its last clone.
    async fn close(&self, _driver: Arc<Driver>) -> anyhow::Result<()> {
        Ok(())
    }

    async fn end(self) -> anyhow::Result<()> {
        let mut connection = self.client.get_multiplexed_async_connection().await?;
        let mut cursor = 0_u64;
        loop {
            let scan = cmd("SCAN").arg(cursor).arg("MATCH").arg(format!("{}:*", self.namespace)).clone();
            let (next, keys): (u64, Vec<String>) = scan.query_async(&mut connection).await?;
            if !keys.is_empty() {
                cmd("UNLINK").arg(&keys).exec_async(&mut connection).await?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}
