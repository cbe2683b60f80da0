//! The operator's release, which has its audit elsewhere on some stores.

use std::time::{Duration, SystemTime};

use leastlock_lease::{Approval, Error, FencingToken, Forced, Inspect, LeaseSql};
use leastlock_testkit::TestEngine;

use crate::rig::{Rig, Sql};
use crate::world::lock;

/// A store at which an operator can take the lock away.
pub(crate) trait Admin: Rig<Store: Inspect> {
    /// Whether the release and its audit are one transaction.
    const ATOMIC: bool;
    /// Whether a lease that has run out is still shown, and how much is left of one that stands to the millisecond.
    const KEEPS_ROWS: bool;

    /// From a spawned task as well.
    fn force(&self, token: FencingToken, approval: &Approval) -> impl Future<Output = Result<Forced, Error>> + Send;
}

impl<DB: TestEngine + LeaseSql> Admin for Sql<DB> {
    const ATOMIC: bool = true;
    const KEEPS_ROWS: bool = true;

    async fn force(&self, token: FencingToken, approval: &Approval) -> Result<Forced, Error> {
        self.store().force_release(&lock(), token, approval).await
    }
}

#[cfg(all(feature = "redis", feature = "sqlite"))]
impl Admin for crate::rig::Redis {
    const ATOMIC: bool = false;
    const KEEPS_ROWS: bool = true;

    async fn force(&self, token: FencingToken, approval: &Approval) -> Result<Forced, Error> {
        self.store().force_release(&self.database().pool, &lock(), token, approval).await
    }
}

#[cfg(all(feature = "etcd", feature = "sqlite"))]
impl Admin for crate::rig::Etcd {
    const ATOMIC: bool = false;
    const KEEPS_ROWS: bool = false;

    async fn force(&self, token: FencingToken, approval: &Approval) -> Result<Forced, Error> {
        self.store().force_release(&self.database().pool, &lock(), token, approval).await
    }
}

#[cfg(all(feature = "zookeeper", feature = "sqlite"))]
impl Admin for crate::rig::ZooKeeper {
    const ATOMIC: bool = false;
    const KEEPS_ROWS: bool = false;

    async fn force(&self, token: FencingToken, approval: &Approval) -> Result<Forced, Error> {
        self.store().force_release(&self.database().pool, &lock(), token, approval).await
    }
}

pub(crate) fn approval() -> Approval {
    Approval::new("r.devi", "INC-4711: die Maschine ist fort, à l'aide", SystemTime::now() + Duration::from_mins(10))
        .unwrap()
}

/// One that was given in the night.
pub(crate) fn stale_approval() -> Approval {
    Approval::new("r.devi", "INC-4711", SystemTime::now() - Duration::from_secs(1)).unwrap()
}
