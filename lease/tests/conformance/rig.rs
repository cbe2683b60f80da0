//! One lock store under test, and what is needed to do to it what a test cannot wait for.

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod advisory;
#[cfg(all(feature = "etcd", feature = "sqlite"))]
mod etcd;
#[cfg(any(feature = "postgres", feature = "mysql", all(feature = "redis", feature = "sqlite")))]
mod numbered;
#[cfg(all(feature = "redis", feature = "sqlite"))]
mod redis;
#[cfg(all(feature = "redis", feature = "sqlite"))]
pub(crate) mod redlock;
mod sql;
#[cfg(all(feature = "zookeeper", feature = "sqlite"))]
mod zookeeper;

use std::time::Duration;

use leastlock_lease::{FencedStore, LeaseSql, OwnerNonce};
use leastlock_testkit::{TestDatabase, TestEngine};

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use advisory::Advisory;
#[cfg(all(feature = "etcd", feature = "sqlite"))]
pub(crate) use etcd::Etcd;
#[cfg(all(feature = "redis", feature = "sqlite"))]
pub(crate) use redis::Redis;
#[cfg(all(feature = "redis", feature = "sqlite"))]
pub(crate) use redlock::Redlock;
pub(crate) use sql::{Sql, protected};

#[cfg(all(feature = "zookeeper", feature = "sqlite"))]
pub(crate) use zookeeper::ZooKeeper;

/// A backend with a store of the test's own, and a database with a protected resource.
///
/// # Contract
/// Everything is about the one lock [`lock()`](crate::world::lock). What the methods do, they do at the store and behind the
/// library's back.
pub(crate) trait Rig: Clone + Send + Sync + 'static {
    /// The store under test.
    type Store: FencedStore;
    /// The engine of the resource.
    type DB: TestEngine + LeaseSql;

    /// How exactly those who ask are told what is left of a lease; `None` where it lasts as long as a session.
    const TELLS_THE_TIME_TO: Option<Duration>;

    /// An empty store, and a database with this crate's tables and the resource.
    async fn create() -> Self;

    /// Another client of the store, which shares nothing with those before.
    fn store(&self) -> Self::Store;

    /// The database of the resource.
    fn database(&self) -> &TestDatabase<Self::DB>;

    /// The holder's TTL runs out at the store, while the holder knows nothing of it.
    async fn expire(&self);

    /// The store is as it was before the first lease: what an old copy brings back.
    async fn forget(&self);

    /// What stands at the store.
    fn look(&self) -> impl Future<Output = Seen> + Send;

    /// The lock is free, whosever it is, and the store does not mind. For a double.
    fn end_whosever_it_is(&self) -> impl Future<Output = ()> + Send;

    /// This nonce holds the lock, whatever stands there. For a double.
    fn hold_by_force(&self, nonce: OwnerNonce) -> impl Future<Output = ()> + Send;
}

/// What stands at a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The last token that was issued.
    pub(crate) token: Option<i64>,
    /// Whether a lease stands.
    pub(crate) held: bool,
    /// Whether the last owner has released.
    pub(crate) released: bool,
}

/// Mounts the scenarios of a suite on every rig: `mount!(suite: l1_…, l2_…; unordered: l20_…; postgres: l3_…)`. The module's name is
/// the engine of the case matrix. `unordered` are the stores without a queue: the waiters of a process stand in one of its own,
/// and the tokens are counted for each lock, so that a copy of the store brings them back.
macro_rules! mount {
    (
        $suite:ident : $($case:ident),+ $(,)?
        $(; unordered : $($unordered:ident),+ $(,)?)?
        $(; postgres : $($only:ident),+ $(,)?)?
    ) => {
        #[cfg(feature = "sqlite")]
        mod sqlite {
            crate::rig::mount!(@ $suite, crate::rig::Sql<sqlx::Sqlite>, $($case),+ $(, $($unordered),+)?);
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            crate::rig::mount!(
                @ $suite, crate::rig::Sql<sqlx::Postgres>, $($case),+ $(, $($unordered),+)? $(, $($only),+)?
            );
        }
        #[cfg(feature = "mysql")]
        mod mysql {
            crate::rig::mount!(@ $suite, crate::rig::Sql<sqlx::MySql>, $($case),+ $(, $($unordered),+)?);
        }
        // The resource of the others is in SQLite.
        #[cfg(all(feature = "redis", feature = "sqlite"))]
        mod redis {
            crate::rig::mount!(@ $suite, crate::rig::Redis, $($case),+ $(, $($unordered),+)?);
        }
        #[cfg(all(feature = "etcd", feature = "sqlite"))]
        mod etcd {
            crate::rig::mount!(@ $suite, crate::rig::Etcd, $($case),+);
        }
        #[cfg(all(feature = "zookeeper", feature = "sqlite"))]
        mod zookeeper {
            crate::rig::mount!(@ $suite, crate::rig::ZooKeeper, $($case),+);
        }
    };
    (@ $suite:ident, $rig:ty, $($case:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                super::$suite::$case(<$rig as crate::rig::Rig>::create().await).await;
            }
        )+
    };
}

pub(crate) use mount;
