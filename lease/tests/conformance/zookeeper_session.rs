//! L12, and what else comes of a lease that lives with a session.

use std::time::Duration;

use leastlock_lease::{
    Claim, FencingToken, Grant, Hold, LeaseStatus, LeaseStore, Leases, LossReason, OwnerNonce, Release, Released,
};
use leastlock_testkit::proxy::FaultProxy;
use tokio::time::{Instant, timeout};
use zookeeper_client::Client;

use crate::rig::{Rig, ZooKeeper};
use crate::world::{LIMIT, LONG, eventually, lock};

/// About as short as the server has it.
const SHORT: Duration = Duration::from_secs(2);

async fn proxy(rig: &ZooKeeper) -> FaultProxy {
    FaultProxy::start(rig.cluster().parse().expect("an address")).await
}

fn nonces<const N: usize>() -> [OwnerNonce; N] {
    [(); N].map(|()| OwnerNonce::random().unwrap())
}

/// The double: takes the node that has its name for its own.
async fn takes_what_has_its_name(rig: &ZooKeeper, nonce: OwnerNonce) -> Option<FencingToken> {
    let name = format!("{:032x}", u128::from_be_bytes(*nonce.as_bytes()));
    let nodes = rig.nodes().await;
    let (_, stat) = nodes.first().filter(|(path, _)| path.contains(&name))?;
    FencingToken::new(stat.czxid)
}

mod zookeeper {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l12_a_node_of_an_earlier_session_is_not_its_own_and_is_removed() {
        for double in [false, true] {
            let (rig, name, [nonce]) = (ZooKeeper::create().await, lock(), nonces());
            let store = rig.store();
            // What an attempt has left whose answer was lost, and whose session is no more in use.
            let earlier = Client::connector().with_session_timeout(LONG).connect(rig.cluster()).await.unwrap();
            let stray = rig.claim_by_hand_of(&earlier, nonce).await;
            let stray_token = earlier.check_stat(&stray).await.unwrap().unwrap().czxid;
            let token = if double {
                takes_what_has_its_name(&rig, nonce).await.expect("it is there")
            } else {
                let Grant::Granted { token, .. } = store.acquire(Claim::new(&name, nonce, LONG)).await.unwrap() else {
                    panic!("the lock is free")
                };
                assert_eq!(rig.nodes().await.len(), 1, "the stray is removed");
                token
            };
            assert_eq!(token.value() == stray_token, double);
            drop(earlier);
            let gone = async || rig.client().check_stat(&stray).await.unwrap().is_none();
            eventually("the earlier session's node is gone", gone).await;
            assert_eq!(rig.look().await.held, !double, "the double holds what ends with another session");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l9_waiter_whose_session_has_expired_is_refused() {
        let (rig, name, [holder, late, next]) = (ZooKeeper::create().await, lock(), nonces());
        let proxy = proxy(&rig).await;
        let (others, store) = (rig.store(), rig.store_by(&proxy.address().to_string(), SHORT));
        let claim = |nonce| Claim::new(&name, nonce, LONG);
        assert!(matches!(others.acquire(claim(holder)).await.unwrap(), Grant::Granted { .. }));
        assert!(matches!(store.acquire(claim(late)).await.unwrap(), Grant::Held(_)));
        proxy.black_hole();
        eventually("its session has expired", async || rig.nodes().await.len() == 1).await;
        assert!(matches!(others.acquire(claim(next)).await.unwrap(), Grant::Held(_)));
        assert_eq!(others.release(claim(holder)).await.unwrap(), Release::Released);
        proxy.heal();
        let mut answer = None;
        eventually("it is answered, in a new session", async || {
            answer = store.acquire(claim(late)).await.ok();
            answer.is_some()
        })
        .await;
        assert!(matches!(answer, Some(Grant::Held(_))), "the other one's turn has come: {answer:?}");
        assert!(matches!(others.acquire(claim(next)).await.unwrap(), Grant::Granted { .. }));
        assert_eq!(others.release(claim(next)).await.unwrap(), Release::Released);
        assert!(matches!(store.acquire(claim(late)).await.unwrap(), Grant::Granted { .. }));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_silent_server_is_noticed_by_the_leases_own_deadline() {
        let rig = ZooKeeper::create().await;
        let proxy = proxy(&rig).await;
        let leases = Leases::new(rig.store_by(&proxy.address().to_string(), SHORT));
        let lease = leases.acquire(&lock(), Hold::renewed(LONG)).await.unwrap();
        assert!(lease.remaining().unwrap() <= SHORT, "no longer than the session lasts");
        let token = lease.token();
        proxy.black_hole();
        timeout(LIMIT, lease.lost()).await.expect("its deadline passes");
        assert_eq!(lease.status(), LeaseStatus::Lost { reason: LossReason::Expired });
        eventually("the server ends it as well", async || !rig.look().await.held).await;
        proxy.heal();
        let again = leases.acquire(&lock(), Hold::renewed(LONG)).await.expect("in a new session");
        assert!(again.token() > token);
        assert_eq!(again.release().await, Released::Released);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_lease_that_nobody_will_release_is_deleted_when_its_time_is_over_and_not_before() {
        let (rig, name, [nonce]) = (ZooKeeper::create().await, lock(), nonces());
        let (store, claim) = (rig.store(), Claim::new(&name, nonce, SHORT));
        assert!(matches!(store.acquire(claim).await.unwrap(), Grant::Granted { .. }));
        let begun = Instant::now();
        store.let_expire(claim, SHORT);
        tokio::time::sleep(SHORT / 2).await;
        let held = rig.look().await.held;
        assert!(held || begun.elapsed() > SHORT, "its holder may believe in it");
        eventually("it is deleted, though its session goes on", async || !rig.look().await.held).await;
        assert!(!rig.look().await.released);
        assert!(matches!(
            store.acquire(Claim::new(&name, nonces::<1>()[0], LONG)).await.unwrap(),
            Grant::Granted { .. }
        ));
    }
}
