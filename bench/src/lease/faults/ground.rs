//! Where the pairs of holders meet: the locks' server, and the databases with the doors.

use std::time::Duration;

use anyhow::Context;
use leastlock_core::Engine;
use leastlock_lease::MIGRATIONS;
use leastlock_testkit::proxy::{FaultProxy, mysql, postgres};
use leastlock_testkit::{REDIS_URLS, TestDatabase};

use super::door::{self, Doors, is_one_file};
use super::holder::{Conduct, Task};
use crate::lease::Backend;
use crate::lease::etcd::Etcd;
use crate::lease::locks::Locks;
use crate::lease::redis::Redis;
use crate::lease::zookeeper::ZooKeeper;

/// What the pairs of one backend share.
pub(super) struct Ground<DB: Doors> {
    backend: Backend,
    /// One for all; of SQLite one a pair, since each is a file with one write lock.
    databases: Vec<TestDatabase<DB>>,
    locks: Server,
    /// The last numbers that were given.
    doors: i64,
    holders: i64,
}

/// Where the locks are.
#[expect(clippy::large_enum_variant, reason = "there is one in a run")]
enum Server {
    /// In the database of the door.
    Beside,
    Redis(Redis),
    Etcd(Etcd),
    ZooKeeper(ZooKeeper),
}

/// A door, and the database that it is in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) door: i64,
    database: usize,
}

/// The way of one holder to its servers.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) locks: FaultProxy,
    pub(super) doors: FaultProxy,
}

impl<DB: Doors> Ground<DB> {
    pub(super) async fn create(backend: Backend, pairs: u32) -> anyhow::Result<Self> {
        let count = if is_one_file::<DB>() { pairs } else { 1 };
        let mut databases = Vec::new();
        for _ in 0..count {
            let database = TestDatabase::<DB>::create().await.with(&MIGRATIONS).await;
            door::prepare(&database).await;
            databases.push(database);
        }
        let locks = match backend {
            Backend::Postgres | Backend::Sqlite | Backend::Mariadb => Server::Beside,
            Backend::Redis => Server::Redis(Redis::create().await.context(REDIS_URLS)?),
            Backend::Etcd => Server::Etcd(Etcd::create().await?),
            Backend::Zookeeper => Server::ZooKeeper(ZooKeeper::create().await?),
        };
        Ok(Self { backend, databases, locks, doors: 0, holders: 0 })
    }

    /// Name and version of the locks' server.
    pub(super) async fn about(&self) -> anyhow::Result<String> {
        match &self.locks {
            Server::Redis(redis) => redis.about().await,
            Server::Etcd(etcd) => etcd.about().await,
            Server::ZooKeeper(zookeeper) => zookeeper.about().await,
            Server::Beside => {
                let mut connection = self.database(0).pool.acquire().await?;
                let about = DB::fetch_query(&mut connection, sqlx::query(DB::ABOUT)).await?;
                Ok(about.context("the server has no version")?.text(0)?)
            }
        }
    }

    /// A door for a pair.
    pub(super) async fn open_door(&mut self) -> anyhow::Result<Place> {
        self.doors += 1;
        let database = usize::try_from(self.doors)? % self.databases.len();
        door::open(self.database(database), self.doors).await?;
        Ok(Place { door: self.doors, database })
    }

    pub(super) fn database_of(&self, place: Place) -> &TestDatabase<DB> {
        self.database(place.database)
    }

    pub(super) fn databases(&self) -> &[TestDatabase<DB>] {
        &self.databases
    }

    /// What one of a pair is told.
    pub(super) fn task(&mut self, place: Place, conduct: Conduct, ttl: Duration) -> Task {
        self.holders += 1;
        let resource = self.database_of(place).url.clone();
        let (store, namespace) = match &self.locks {
            Server::Beside => (resource.clone(), String::new()),
            Server::Redis(redis) => redis.address(),
            Server::Etcd(etcd) => etcd.address(),
            Server::ZooKeeper(zookeeper) => zookeeper.address(),
        };
        let (backend, door, holder) = (self.backend, place.door, self.holders);
        Task { backend, conduct, ttl, door, holder, store, namespace, resource }
    }

    /// Puts a network between a holder and its servers.
    pub(super) async fn connect(&self, task: &mut Task) -> anyhow::Result<Network> {
        let (doors, resource) = through::<DB>(&task.resource).await;
        let (locks, store) = match &self.locks {
            Server::Beside => through::<DB>(&task.store).await,
            Server::Redis(_) | Server::Etcd(_) | Server::ZooKeeper(_) => FaultProxy::to_server_in(&task.store).await?,
        };
        (task.store, task.resource) = (store, resource);
        Ok(Network { locks, doors })
    }

    /// Removes what was made. Databases end with their values.
    pub(super) async fn end(self) -> anyhow::Result<()> {
        match self.locks {
            Server::Beside => Ok(()),
            Server::Redis(redis) => redis.end().await,
            Server::Etcd(etcd) => etcd.end().await,
            Server::ZooKeeper(zookeeper) => zookeeper.end().await,
        }
    }

    fn database(&self, number: usize) -> &TestDatabase<DB> {
        &self.databases[number]
    }
}

/// A database's URL by way of a proxy.
async fn through<DB: Doors>(url: &str) -> (FaultProxy, String) {
    if DB::ENGINE == Engine::MySql {
        let proxy = FaultProxy::to_mysql(url).await;
        let url = mysql::through(&proxy, url);
        (proxy, url)
    } else {
        let proxy = FaultProxy::to_postgres(url).await;
        let url = postgres::through(&proxy, url);
        (proxy, url)
    }
}
