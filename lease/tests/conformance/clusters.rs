//! Clusters of three: what becomes of a lease and of those who wait for it when the leader dies, and when most are gone.

mod door;
mod doubles;
#[cfg(feature = "etcd")]
mod etcd_cluster;
#[cfg(feature = "zookeeper")]
mod zookeeper_ensemble;

use std::sync::Arc;
use std::time::Duration;

use leastlock_lease::{
    Acquire, BootClock, Clock, CorrectnessLease, Error, FairStore, FencedStore, Hold, LeaseStatus, Leases, LockName,
    LossReason, Released,
};
use tokio::time::timeout;

use crate::world::{LIMIT, eventually, lock};
use door::Door;
use doubles::TakesSilenceForYes;

/// Longer than an election takes.
const TTL: Duration = Duration::from_secs(4);
/// About as short as these have it.
const SHORT_TTL: Duration = Duration::from_secs(2);
/// How often each waiter takes its turn.
const TURNS: usize = 3;

/// Three servers of the test's own, on one lock.
trait Cluster: Sized {
    type Store: FencedStore + FairStore;

    async fn start() -> Self;

    /// A client of its own, which goes to this member first.
    fn store(&self, first: usize) -> Self::Store;

    /// Who leads; waits until somebody does.
    async fn leader(&self) -> usize;

    /// How many claims stand in the queue of [`lock()`].
    async fn claims(&self) -> usize;

    fn kill(&mut self, member: usize);

    /// Starts it with what it had; does not wait.
    fn restart(&mut self, member: usize);
}

async fn one_holder_whoever_leads<C: Cluster>() {
    let mut cluster = C::start().await;
    let door = Arc::new(Door::default());
    let leader = cluster.leader().await;
    let (next, last) = ((leader + 1) % 3, (leader + 2) % 3);
    leader_dies(&mut cluster, leader, &door).await;
    most_are_gone(&mut cluster, (next, last), &door).await;
}

/// The one that holds is at the leader, and those who wait at all three.
async fn leader_dies<C: Cluster>(cluster: &mut C, leader: usize, door: &Arc<Door>) {
    let hold = Hold::renewed(TTL);
    let first = Leases::new(cluster.store(leader)).acquire(&lock(), hold).await.unwrap();
    door.enter(&first);
    let waiters = [0, 1, 2].map(|member| {
        let (leases, door) = (Leases::new(cluster.store(member)), Arc::clone(door));
        tokio::spawn(async move { take_turns(&leases, &door).await })
    });
    eventually("all wait", async || cluster.claims().await == 4).await;

    let killed_at = BootClock.now();
    cluster.kill(leader);
    let confirmed_since = killed_at + TTL.saturating_sub(hold.drift());
    eventually("it is renewed at the next leader, or lost by its deadline", async || match first.status() {
        LeaseStatus::Held { deadline } => deadline > confirmed_since,
        status => matches!(status, LeaseStatus::Lost { .. }),
    })
    .await;
    if let LeaseStatus::Held { .. } = first.status() {
        assert_ne!(first.release().await, Released::NotOwner, "it was confirmed");
    } else {
        drop(first);
    }
    for waiter in waiters {
        timeout(2 * LIMIT, waiter).await.expect("every waiter gets through").unwrap();
    }
    assert_eq!(door.count(), 1 + 3 * TURNS);
}

async fn take_turns<S: FencedStore>(leases: &Leases<S>, door: &Door) {
    for _ in 0..TURNS {
        let lease = leases.acquire_with(&lock(), Hold::renewed(TTL), Acquire::waiting(2 * LIMIT)).await.unwrap();
        door.enter(&lease);
        // Unknown where the leader has died under it: then it ends by its TTL.
        let _released = lease.release().await;
    }
}

/// One is dead already.
async fn most_are_gone<C: Cluster>(cluster: &mut C, (next, last): (usize, usize), door: &Arc<Door>) {
    let [leases, others] = [(); 2].map(|()| Leases::new(cluster.store(next)));
    let hold = Hold::renewed(SHORT_TTL);
    let first = acquire(&leases, &lock(), hold).await;
    door.enter(&first);
    let beside = LockName::new("report:tenant-8:2026-09").unwrap();
    let double = acquire(&Leases::new(TakesSilenceForYes(cluster.store(next))), &beside, hold).await;

    cluster.kill(last);
    let (name, asks) = (lock(), Acquire::waiting(SHORT_TTL / 2));
    let (expired, nobody) = tokio::join!(timeout(LIMIT, first.lost()), others.acquire_with(&name, hold, asks));
    expired.expect("its deadline passes");
    assert_eq!(first.status(), LeaseStatus::Lost { reason: LossReason::Expired });
    assert!(matches!(nobody, Err(Error::Unanswered { .. })), "without a majority nobody is granted it: {nobody:?}");
    assert!(double.permit().is_ok(), "the double takes silence for a yes: {:?}", double.status());

    cluster.restart(last);
    door.enter(&acquire(&others, &lock(), hold).await);
}

async fn acquire<S: FencedStore>(leases: &Leases<S>, name: &LockName, hold: Hold) -> CorrectnessLease {
    let policy = Acquire::waiting(2 * LIMIT);
    leases.acquire_with(name, hold, policy).await.expect("a majority answers")
}

#[cfg(feature = "etcd")]
mod etcd {
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_cluster_has_one_holder_whoever_leads_and_none_without_a_majority() {
        super::one_holder_whoever_leads::<super::etcd_cluster::EtcdCluster>().await;
    }
}

#[cfg(feature = "zookeeper")]
mod zookeeper {
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_cluster_has_one_holder_whoever_leads_and_none_without_a_majority() {
        super::one_holder_whoever_leads::<super::zookeeper_ensemble::ZooKeeperEnsemble>().await;
    }
}
