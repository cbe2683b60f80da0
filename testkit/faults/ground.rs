//! Where a scenario takes place: databases and names of its own on the servers, and how its processes reach them.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures_util::FutureExt;
use leastlock_testkit::broker::{Broker, Record};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use leastlock_testkit::{ETCD_ENDPOINTS, REDIS_URLS, TestDatabase, ZOOKEEPER_CONNECT};
use serde::{Deserialize, Serialize};

/// How long a topic may take to be read.
const READ_LIMIT: Duration = Duration::from_mins(1);

/// What processes talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Server {
    Postgres,
    MariaDb,
    /// A file: there is no network to it.
    Sqlite,
    Redis,
    Etcd,
    ZooKeeper,
    Kafka,
    /// A process of the scenario's own that others call over HTTP.
    Provider,
}

impl Server {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
            Self::Sqlite => "SQLite",
            Self::Redis => "Redis",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "ZooKeeper",
            Self::Kafka => "Kafka",
            Self::Provider => "the provider",
        }
    }
}

/// By which address each server is reached.
pub(crate) type Addresses = BTreeMap<Server, String>;

/// Where a scenario takes place. Its databases end with the value.
#[derive(Debug)]
pub(crate) struct Ground {
    /// A name that no other scenario of any run has, fit for topics, keys, paths and consumer groups.
    pub(crate) name: String,
    pub(crate) seed: u64,
    /// Which mistake is made on purpose.
    pub(crate) mutant: Option<&'static str>,
    /// For files; the histories are in it.
    pub(crate) folder: PathBuf,
    addresses: Addresses,
    postgres: Option<TestDatabase<Postgres>>,
    mariadb: Option<TestDatabase<MySql>>,
    sqlite: Option<TestDatabase<Sqlite>>,
    kafka: Option<Broker>,
}

impl Ground {
    pub(crate) fn new(seed: u64, mutant: Option<&'static str>, folder: PathBuf) -> Self {
        let name = format!("faults-{}", uuid::Uuid::new_v4().simple());
        let addresses = Addresses::new();
        Self { name, seed, mutant, folder, addresses, postgres: None, mariadb: None, sqlite: None, kafka: None }
    }

    /// By which addresses the processes find the servers, were it not for the proxies.
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Where a server is.
    pub(crate) fn address(&self, server: Server) -> anyhow::Result<&str> {
        self.addresses.get(&server).map(String::as_str).with_context(|| format!("{} is not in use", server.name()))
    }

    /// Says where a server is that the scenario has itself.
    pub(crate) fn is_at(&mut self, server: Server, address: impl Into<String>) {
        self.addresses.insert(server, address.into());
    }

    /// A database of the scenario's own.
    pub(crate) async fn postgres(&mut self) -> &TestDatabase<Postgres> {
        let database = TestDatabase::<Postgres>::create().await;
        self.is_at(Server::Postgres, database.url.clone());
        self.postgres.insert(database)
    }

    /// A database of the scenario's own.
    pub(crate) async fn mariadb(&mut self) -> &TestDatabase<MySql> {
        let database = TestDatabase::<MySql>::create().await;
        self.is_at(Server::MariaDb, database.url.clone());
        self.mariadb.insert(database)
    }

    /// A file of the scenario's own.
    pub(crate) async fn sqlite(&mut self) -> &TestDatabase<Sqlite> {
        let database = TestDatabase::<Sqlite>::create().await;
        self.is_at(Server::Sqlite, database.url.clone());
        self.sqlite.insert(database)
    }

    /// Uses the servers' common Redis, etcd, ZooKeeper or Kafka, under the scenario's name.
    pub(crate) fn common(&mut self, server: Server) -> anyhow::Result<()> {
        let variable = match server {
            Server::Redis => REDIS_URLS,
            Server::Etcd => ETCD_ENDPOINTS,
            Server::ZooKeeper => ZOOKEEPER_CONNECT,
            Server::Kafka => leastlock_testkit::broker::KAFKA_BROKERS,
            _ => anyhow::bail!("{} has databases", server.name()),
        };
        let all = std::env::var(variable).with_context(|| format!("{variable}: eval \"$(scripts/services env)\""))?;
        let mut each = all.split(',');
        // The first Redis may have a replica, which makes its locks less than durable.
        let address = if server == Server::Redis { each.nth(1) } else { each.next() };
        self.is_at(server, address.with_context(|| variable.to_owned())?);
        Ok(())
    }

    /// A topic with the scenario's name.
    pub(crate) async fn topic(&mut self, partitions: i32) -> anyhow::Result<()> {
        self.common(Server::Kafka)?;
        let broker = Broker::at(self.address(Server::Kafka)?);
        broker.topic_named(&self.name, partitions).await;
        self.kafka = Some(broker);
        Ok(())
    }

    /// Everything in the topic, partition by partition.
    pub(crate) async fn records(&self) -> anyhow::Result<Vec<Record>> {
        let broker = self.kafka.as_ref().context("the scenario has no topic")?;
        // It panics if the broker is away, which is the suite's own doing.
        let read = AssertUnwindSafe(broker.read_all(&self.name, READ_LIMIT)).catch_unwind().await;
        read.map_err(|_| anyhow!("the topic cannot be read"))
    }

    /// What a checker reads with.
    pub(crate) fn database<DB: OfGround>(&self) -> anyhow::Result<&TestDatabase<DB>> {
        DB::of(self).context("the scenario has no such database")
    }

    /// Where the processes write down what they do.
    pub(crate) fn histories(&self) -> PathBuf {
        self.folder.join("history")
    }
}

/// An engine on which a scenario may have a database.
pub(crate) trait OfGround: leastlock_testkit::TestEngine {
    const SERVER: Server;

    fn of(ground: &Ground) -> Option<&TestDatabase<Self>>;

    fn make(ground: &mut Ground) -> impl Future<Output = ()> + Send;
}

impl OfGround for Postgres {
    const SERVER: Server = Server::Postgres;

    fn of(ground: &Ground) -> Option<&TestDatabase<Self>> {
        ground.postgres.as_ref()
    }

    async fn make(ground: &mut Ground) {
        ground.postgres().await;
    }
}

impl OfGround for MySql {
    const SERVER: Server = Server::MariaDb;

    fn of(ground: &Ground) -> Option<&TestDatabase<Self>> {
        ground.mariadb.as_ref()
    }

    async fn make(ground: &mut Ground) {
        ground.mariadb().await;
    }
}

impl OfGround for Sqlite {
    const SERVER: Server = Server::Sqlite;

    fn of(ground: &Ground) -> Option<&TestDatabase<Self>> {
        ground.sqlite.as_ref()
    }

    async fn make(ground: &mut Ground) {
        ground.sqlite().await;
    }
}
