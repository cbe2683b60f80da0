//! L13 and L20 on etcd: a connection behind which nobody answers, and a cluster that was restored from a copy. And users that
//! are changed under a holder.

mod doubles;
mod server;

use std::collections::BTreeSet;
use std::time::Duration;

use leastlock_lease::{
    Acquire, Claim, CorrectnessLease, Error, EtcdLeaseStore, Fence, FencedStore, Grant, Hold, LeaseStatus, LeaseStore,
    Leases, LockName, LossReason, OwnerNonce, Refusal, Release, Released,
};
use leastlock_testkit::proxy::FaultProxy;
use tokio::time::timeout;

use crate::rig::{Etcd, Rig};
use crate::world::{LIMIT, LONG, SOON, answered_by_one_of_many, eventually, fixed, hastened, lock};
use doubles::{BelievesItsOwnSending, LogsInOnce, NamesEachClaim};
use server::Server;

/// As short as the server has it.
const TTL: Duration = Duration::from_secs(2);

/// A proxy to the server of the rig.
async fn proxy(rig: &Etcd) -> FaultProxy {
    FaultProxy::start(rig.endpoints()[0].trim_start_matches("http://").parse().expect("an address")).await
}

fn through(proxy: &FaultProxy) -> String {
    format!("http://{}", proxy.address())
}

mod etcd {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l13_black_holed_keep_alives_are_noticed_by_the_leases_own_deadline() {
        let rig = Etcd::create().await;
        let proxy = proxy(&rig).await;
        let leases = Leases::new(rig.store_by([through(&proxy)]));
        let lease = leases.acquire(&lock(), Hold::renewed(TTL)).await.unwrap();
        proxy.black_hole();
        let unconfirmed = async || !matches!(lease.status(), LeaseStatus::Held { .. });
        eventually("a renewal is not answered", unconfirmed).await;
        timeout(LIMIT, lease.lost()).await.expect("its deadline passes");
        assert_eq!(lease.status(), LeaseStatus::Lost { reason: LossReason::Expired });
        eventually("the server ends it as well", async || !rig.look().await.held).await;

        // Nothing of the old connection stands in the way.
        proxy.heal();
        let again = leases.acquire(&lock(), Hold::renewed(LONG)).await.expect("on a new one");
        assert_eq!(again.release().await, Released::Released);

        let double = BelievesItsOwnSending::new(&rig, &through(&proxy)).await;
        // However busy the machine is, it comes to sending in time.
        let (leases, _control) = hastened(double);
        let lease = leases.acquire(&lock(), Hold::renewed(TTL)).await.unwrap();
        proxy.black_hole();
        eventually("the server has ended it", async || !rig.look().await.held).await;
        assert!(
            lease.permit().is_ok(),
            "the double takes what it has sent for what was answered: {:?}",
            lease.status()
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l13_a_stalled_connection_is_given_up_for_the_next_endpoint_while_the_lease_stands() {
        let rig = Etcd::create().await;
        let proxy = proxy(&rig).await;
        let store = rig.store_by([through(&proxy), rig.endpoints()[0].clone()]);
        let (leases, _control) = hastened(store);
        let lease = leases.acquire(&lock(), Hold::renewed(SOON)).await.unwrap();
        proxy.black_hole();
        let unconfirmed = async || matches!(lease.status(), LeaseStatus::Unconfirmed { .. });
        eventually("a renewal is not answered", unconfirmed).await;
        eventually("the next one is", async || matches!(lease.status(), LeaseStatus::Held { .. })).await;
        assert_eq!(rig.look().await.token, Some(lease.token().value()));
        assert_eq!(lease.release().await, Released::Released);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_names_of_keys_do_not_grow_with_the_claims() {
        let rig = Etcd::create().await;
        assert!(uses_its_names_again(&rig, &rig.store()).await);
        rig.forget().await;
        let double = NamesEachClaim::new(&rig);
        assert!(!uses_its_names_again(&rig, &double).await, "the double leaves a name behind with each claim");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_name_that_is_used_again_is_nobody_elses_claim() {
        let (rig, name) = (Etcd::create().await, lock());
        let (store, before) = (rig.store(), rig.revision().await);
        let [first, second] = [(); 2].map(|()| Claim::new(&name, OwnerNonce::random().unwrap(), LONG));
        // Nobody releases it, and what it has stands on.
        assert!(matches!(store.acquire(first).await.unwrap(), Grant::Granted { .. }));
        store.let_expire(first, LONG);
        assert!(matches!(store.acquire(second).await.unwrap(), Grant::Held(_)), "its name is left alone");
        assert_eq!(store.release(second).await.unwrap(), Release::NotOwner);

        // Another claim stands where the store would put the next one.
        rig.forget().await;
        let Grant::Granted { token, .. } = store.acquire(second).await.unwrap() else { panic!("the lock is free") };
        assert_eq!(store.release(second).await.unwrap(), Release::Released);
        let stranger = OwnerNonce::random().unwrap();
        rig.stand_in_the_way(stranger, before).await;
        let third = Claim::new(&name, OwnerNonce::random().unwrap(), LONG);
        let Grant::Held(holder) = store.acquire(third).await.unwrap() else { panic!("it is the stranger's") };
        assert_eq!(holder.owner, stranger.hash());
        rig.expire().await;
        let Grant::Granted { token: later, .. } = store.acquire(third).await.unwrap() else { panic!("its turn") };
        assert!(later > token);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_change_of_users_under_a_holder_has_its_store_log_in_again() {
        let server = Server::with_users().await;
        let store = || EtcdLeaseStore::new([server.endpoint()], Server::user());
        assert!(goes_on_when_users_change(&server, store()).await);
        assert!(
            !goes_on_when_users_change(&server, LogsInOnce::new(store(), &server).await).await,
            "the double keeps a token that has become worthless"
        );
        // Where logging in again does not help, nobody waits for it.
        let nobody = Leases::new(EtcdLeaseStore::new([server.endpoint()], etcd_client::ConnectOptions::new()));
        let waits = Acquire::waiting(20 * LIMIT);
        let refused = timeout(LIMIT, nobody.acquire_with(&lock(), fixed(), waits)).await.expect("it is not waited for");
        assert!(matches!(refused, Err(Error::Store { .. })), "{refused:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_login_and_a_request_may_take_longer_than_one_attempt() {
        const ROUND_TRIP: Duration = Duration::from_millis(400);
        let server = Server::with_users().await;
        let address = server.endpoint();
        let proxy = FaultProxy::start(address.trim_start_matches("http://").parse().unwrap()).await;
        proxy.delay(ROUND_TRIP / 2);
        let another = || EtcdLeaseStore::new([through(&proxy)], Server::user());
        // Each of the two takes one.
        let (store, attempt) = (another(), ROUND_TRIP * 7 / 4);
        assert!(answered_by_one_of_many(attempt, LIMIT, || store.check()).await);
        let anew = || async { another().check().await };
        assert!(!answered_by_one_of_many(attempt, 5 * attempt, anew).await, "the double logs in for each attempt");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l20_a_number_that_a_restored_cluster_issues_again_is_refused() {
        let mut server = Server::start().await;
        let rig = Etcd::at(&server.endpoint()).await;
        let first = acquire(&rig, Acquire::default()).await.unwrap();
        // A crash loses neither the counter nor the lease.
        server.kill();
        server.restart().await;
        let rival = acquire(&rig, Acquire::fail_fast()).await;
        assert!(
            matches!(rival, Err(Error::Held { ref holder, .. }) if holder.token == Some(first.token())),
            "{rival:?}"
        );
        assert_eq!(first.release().await, Released::Released);

        server.kill();
        let copy = server.copy();
        server.restart().await;
        let sealed = acquire(&rig, Acquire::default()).await.unwrap();
        let fence = Fence::new("report:tenant-7").unwrap();
        let pool = &rig.database().pool;
        fence.seal(pool, &sealed.permit().unwrap()).await.unwrap();

        server.kill();
        server.restore(&copy);
        server.restart().await;
        let twin = acquire(&rig, Acquire::default()).await.unwrap();
        assert_eq!(twin.token(), sealed.token(), "the restored cluster issues the number again");
        let seal = fence.seal(pool, &twin.permit().unwrap()).await;
        assert!(matches!(seal, Err(Error::Refused { refusal: Refusal::OtherOwner { .. }, .. })), "{seal:?}");
        assert_eq!(twin.release().await, Released::Released);

        // Had much been written before the copy was brought back, the numbers would stay below the sealed one for long.
        server.kill();
        server.restore(&copy);
        server.restart().await;
        let floor = fence.generation(pool).await.unwrap();
        let refused = acquire(&rig, Acquire::default().floor(floor)).await;
        assert!(matches!(refused, Err(Error::TokenBelowFloor { token, .. }) if Some(token) == floor), "{refused:?}");
        assert!(!rig.look().await.held, "nothing is held");
        rig.write_until(floor.unwrap().value()).await;
        let above = acquire(&rig, Acquire::default().floor(floor)).await.expect("the counter was moved ahead");
        fence.seal(pool, &above.permit().unwrap()).await.unwrap();
    }
}

/// Whether claims, one at a time and then some beside each other, leave no more names than there were at a time.
async fn uses_its_names_again(rig: &Etcd, store: &impl FencedStore) -> bool {
    const CYCLES: usize = 20;
    let (name, before) = (lock(), rig.revision().await);
    for _ in 0..CYCLES {
        let [first, second] = [(); 2].map(|()| Claim::new(&name, OwnerNonce::random().unwrap(), LONG));
        assert!(matches!(store.acquire(first).await.unwrap(), Grant::Granted { .. }));
        assert!(matches!(store.acquire(second).await.unwrap(), Grant::Held(_)));
        assert_eq!(store.release(first).await.unwrap(), Release::Released);
        assert!(matches!(store.acquire(second).await.unwrap(), Grant::Granted { .. }));
        assert_eq!(store.release(second).await.unwrap(), Release::Released);
    }
    let names = rig.names_since(before).await;
    assert_eq!(names.len(), 2 * CYCLES, "each claim was put once");
    names.iter().collect::<BTreeSet<_>>().len() <= 2
}

async fn acquire(rig: &Etcd, policy: Acquire) -> Result<CorrectnessLease, Error> {
    Leases::new(rig.store()).acquire_with(&lock(), fixed(), policy).await
}

/// Whether a lease is renewed and another one is to be had after users have changed.
async fn goes_on_when_users_change<S: FencedStore>(server: &Server, store: S) -> bool {
    let leases = Leases::new(store);
    let lease = leases.acquire(&lock(), Hold::renewed(2 * TTL)).await.unwrap();
    let LeaseStatus::Held { deadline } = lease.status() else { panic!("{:?}", lease.status()) };
    server.change_users().await;
    let other = LockName::new("report:tenant-8").unwrap();
    let Ok(another) = leases.acquire(&other, fixed()).await else { return false };
    assert_eq!(another.release().await, Released::Released);
    server.change_users().await;
    // No renewal from before can have moved it so far.
    let renewed = async || matches!(lease.status(), LeaseStatus::Held { deadline: now } if now > deadline + 2 * TTL);
    eventually("it is renewed", async || renewed().await || lease.remaining().is_err()).await;
    lease.release().await == Released::Released
}
