//! L14 and L21: a Redis that loses what it has acknowledged, and what it says when it is asked.

mod server;

use std::time::Duration;

use leastlock_lease::{
    AcceptBestEffortToken, Acquire, Claim, CorrectnessLease, Durability, Error, Fence, Grant, Hold, LeaseStore, Leases,
    LockName, OwnerNonce, Pause, RedisLeaseStore, Refusal, Release, Released, Renewal, Undurable, Waiter,
};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::FaultProxy;
use sqlx::Sqlite;
use tokio::time::timeout;

use crate::rig::protected;
use crate::world::{LIMIT, LONG, answered_by_one_of_many, fixed, lock};
pub(crate) use server::Server;

const SAFE: [(&str, &str); 3] = [("appendonly", "yes"), ("appendfsync", "always"), ("maxmemory-policy", "noeviction")];

fn fence() -> Fence {
    Fence::new("report:tenant-7").unwrap()
}

async fn acquire<D: Durability>(store: RedisLeaseStore<D>, hold: Hold) -> Result<CorrectnessLease, Error>
where
    RedisLeaseStore<D>: leastlock_lease::FencedStore,
{
    Leases::new(store).acquire_with(&lock(), hold, Acquire::waiting(Duration::from_secs(20))).await
}

/// Why the store does not serve; `None` if it does.
async fn refusal(store: RedisLeaseStore) -> Option<Undurable> {
    let refused = acquire(store, fixed()).await.err()?;
    assert!(!refused.is_retryable(), "{refused}");
    let Error::Store { source, .. } = &refused else { panic!("{refused:?}") };
    let source = std::error::Error::source(source).unwrap();
    Some(source.downcast_ref::<Undurable>().unwrap_or_else(|| panic!("{source:?}")).clone())
}

/// Acquires and seals, as the first holder; answers what it had.
async fn hold_and_seal(server: &Server, resource: &TestDatabase<Sqlite>) -> CorrectnessLease {
    let lease = acquire(RedisLeaseStore::best_effort(server.client()), fixed()).await.unwrap();
    fence().seal(&resource.pool, &lease.permit().unwrap()).await.unwrap();
    lease
}

mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l14_a_server_that_can_lose_a_token_is_refused_at_the_connect() {
        let server = Server::start(&SAFE).await;
        assert_eq!(refusal(RedisLeaseStore::new(server.client())).await, None);
        for (name, wrong, right) in [
            ("appendonly", "no", "yes"),
            ("appendfsync", "everysec", "always"),
            ("no-appendfsync-on-rewrite", "yes", "no"),
            ("maxmemory-policy", "allkeys-lru", "noeviction"),
        ] {
            server.set(name, wrong).await;
            let refused = refusal(RedisLeaseStore::new(server.client())).await;
            let Some(Undurable::Setting { name: found, needed, .. }) = refused else { panic!("{name}: {refused:?}") };
            assert_eq!((found, needed), (name, right));
            assert!(RedisLeaseStore::new(server.client()).check().await.is_err());
            // The double does not ask.
            assert!(RedisLeaseStore::best_effort(server.client()).check().await.is_ok());
            server.set(name, right).await;
        }

        let unasked = server.user("~* &* +@all -config").await;
        let refused = refusal(RedisLeaseStore::new(unasked)).await;
        assert!(matches!(refused, Some(Undurable::Refused { command: "CONFIG", .. })), "{refused:?}");

        let watching = server.sentinel().await;
        assert_eq!(refusal(RedisLeaseStore::new(server.client())).await, Some(Undurable::Watched));
        drop(watching);

        let replica = Server::replica_of(&server, &SAFE).await;
        assert_eq!(refusal(RedisLeaseStore::new(server.client())).await, Some(Undurable::HasReplicas));
        assert_eq!(refusal(RedisLeaseStore::new(replica.client())).await, Some(Undurable::Replica));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_rights_in_the_guide_suffice_for_a_lease_and_its_waiter() {
        let server = Server::start(&SAFE).await;
        let guide = include_str!("../../../docs/src/operations.md");
        let rules = guide.split_once("ACL SETUSER leases on >…").expect("the rules").1.split_once("```").unwrap().0;
        let limited = server.user(rules).await;
        let (store, rival) = (RedisLeaseStore::new(limited.clone()), RedisLeaseStore::new(limited));
        let (name, [owner, other]) = (lock(), [(); 2].map(|()| OwnerNonce::random().unwrap()));
        let (claim, late) = (Claim::new(&name, owner, LONG), Claim::new(&name, other, LONG));
        let Grant::Granted { token, .. } = store.acquire(claim).await.unwrap() else { panic!("the lock is free") };
        assert!(matches!(store.renew(claim, token).await.unwrap(), Renewal::Renewed { .. }));
        assert!(matches!(rival.acquire(late).await.unwrap(), Grant::Held(_)));
        let (mut waiter, far) = (rival.waiter(late), Pause::new(LONG, LONG));
        while timeout(Duration::from_millis(500), waiter.wait(far)).await.is_ok() {}
        assert_eq!(store.release(claim).await.unwrap(), Release::Released);
        timeout(LIMIT, waiter.wait(far)).await.expect("it hears of the release");
        let Grant::Granted { token, .. } = rival.acquire(late).await.unwrap() else { panic!("the lock is free") };
        // The double lacks one right, and cannot renew.
        let without = server.user(&rules.replace("+pexpire", "")).await;
        assert!(RedisLeaseStore::new(without).renew(late, token).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l14_a_server_that_has_become_unsafe_is_noticed_at_the_reconnect() {
        let server = Server::start(&SAFE).await;
        let store = Leases::new(RedisLeaseStore::new(server.client()));
        let double = Leases::new(RedisLeaseStore::best_effort(server.client()));
        for leases in [0, 1] {
            let name = lock();
            let released = if leases == 0 {
                store.acquire(&name, fixed()).await.unwrap().release().await
            } else {
                double.acquire(&name, fixed()).await.unwrap().release().await
            };
            assert_eq!(released, Released::Released);
        }
        server.set("appendfsync", "everysec").await;
        server.cut_all().await;
        let refused = store.acquire(&lock(), fixed()).await;
        assert!(matches!(refused, Err(Error::Store { .. })), "{refused:?}");
        assert!(double.acquire(&lock(), fixed()).await.is_ok(), "the double goes on");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_server_of_a_cluster_serves_what_it_has_the_slot_of_and_says_so_of_the_rest() {
        let settings = [&SAFE[..], &[("cluster-enabled", "yes")]].concat();
        let [first, second] = [Server::start(&settings).await, Server::start(&settings).await];
        let leases = Leases::new(RedisLeaseStore::new(first.client()));
        let short = Acquire::waiting(Duration::from_millis(100));
        let down = leases.acquire_with(&lock(), fixed(), short).await;
        assert!(
            matches!(down, Err(Error::Unanswered { .. })),
            "without slots a cluster is down, which may pass: {down:?}"
        );

        first.share_slots(&second).await;
        let refused = leases.acquire(&lock(), fixed()).await.expect_err("the slot is the other's");
        assert!(matches!(refused, Error::Store { .. }) && !refused.is_retryable(), "{refused:?}");
        let sources = std::iter::successors(std::error::Error::source(&refused), |&source| source.source());
        assert!(sources.map(ToString::to_string).any(|told| told.contains("one of a cluster")), "{refused:?}");
        let elsewhere = LockName::new("report:tenant-8").unwrap();
        let held = leases.acquire(&elsewhere, fixed()).await.expect("it has all other slots");
        assert_eq!(held.release().await, Released::Released);

        let first = acquire(RedisLeaseStore::new(second.client()), fixed()).await.unwrap();
        let rival = Leases::new(RedisLeaseStore::new(second.client()));
        let waits = tokio::spawn(async move { rival.acquire_with(&lock(), fixed(), Acquire::waiting(LIMIT)).await });
        let token = first.token();
        assert_eq!(first.release().await, Released::Released);
        let next = waits.await.unwrap().unwrap();
        assert!(next.token() > token);
        assert_eq!(next.release().await, Released::Released);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_connect_that_takes_longer_than_an_attempt_comes_to_its_end() {
        const ROUND_TRIP: Duration = Duration::from_millis(200);
        let server = Server::start(&SAFE).await;
        let proxy = FaultProxy::start(server.address()).await;
        proxy.delay(ROUND_TRIP / 2);
        let client = || ::redis::Client::open(format!("redis://{}/", proxy.address())).unwrap();
        // The questions to the server alone are six round trips.
        let attempt = 3 * ROUND_TRIP;
        let store = RedisLeaseStore::new(client());
        assert!(answered_by_one_of_many(attempt, LIMIT, || store.check()).await);
        // The double has each attempt connect for itself.
        let anew = || async { RedisLeaseStore::new(client()).check().await };
        assert!(!answered_by_one_of_many(attempt, 5 * attempt, anew).await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l14_a_durable_server_keeps_its_tokens_and_its_leases_over_a_crash() {
        let mut server = Server::start(&SAFE).await;
        let leases = Leases::new(RedisLeaseStore::new(server.client()));
        let before = leases.acquire(&lock(), fixed()).await.unwrap();
        server.kill();
        server.restart().await;
        let rival = leases.acquire_with(&lock(), fixed(), Acquire::fail_fast()).await;
        assert!(
            matches!(rival, Err(Error::Held { ref holder, .. }) if holder.token == Some(before.token())),
            "{rival:?}"
        );
        let token = before.token();
        assert_eq!(before.release().await, Released::Released);
        assert!(leases.acquire(&lock(), fixed()).await.unwrap().token() > token);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l14_a_token_that_a_crash_made_again_is_refused_at_the_resource_and_lifted_by_the_floor() {
        let resource = protected::<Sqlite>().await;
        let mut server = Server::start(&[("appendonly", "no")]).await;
        assert_eq!(hold_and_seal(&server, &resource).await.release().await, Released::Released);
        let sealed = hold_and_seal(&server, &resource).await;
        assert_eq!(sealed.token().value(), 2);
        server.kill();
        server.restart().await;

        let again = acquire(RedisLeaseStore::best_effort(server.client()), fixed()).await.unwrap();
        assert_eq!(again.token().value(), 1, "the server has forgotten");
        let seal = fence().seal(&resource.pool, &again.permit().unwrap()).await;
        assert!(matches!(seal, Err(Error::Refused { refusal: Refusal::Superseded { .. }, .. })), "{seal:?}");
        assert_eq!(again.release().await, Released::Released);
        lifted_by_the_floor(RedisLeaseStore::best_effort(server.client()), &resource, &sealed).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l21_after_a_promotion_two_may_hold_and_the_resource_takes_one() {
        let resource = protected::<Sqlite>().await;
        let mut primary = Server::start(&[("appendonly", "no")]).await;
        let replica = Server::replica_of(&primary, &[("appendonly", "no")]).await;
        assert_eq!(hold_and_seal(&primary, &resource).await.release().await, Released::Released);
        replica.has_token("1").await;

        // What comes now does not reach the replica.
        replica.stop_following().await;
        let first = hold_and_seal(&primary, &resource).await;
        primary.kill();
        let second = acquire(RedisLeaseStore::best_effort(replica.client()), fixed()).await.unwrap();
        assert!(first.permit().is_ok() && second.permit().is_ok(), "both believe in it, as the docs say");
        assert_eq!(second.token(), first.token(), "the same number again");
        let seal = fence().seal(&resource.pool, &second.permit().unwrap()).await;
        assert!(matches!(seal, Err(Error::Refused { refusal: Refusal::OtherOwner { .. }, .. })), "{seal:?}");
        let mut tx = resource.pool.begin().await.unwrap();
        fence().check(&mut tx, &first.permit().unwrap()).await.expect("the one that has sealed goes on");
        drop(tx);
        assert_eq!(second.release().await, Released::Released);
        lifted_by_the_floor(RedisLeaseStore::best_effort(replica.client()), &resource, &first).await;
    }
}

/// With the sealed generation as floor the next token is above it, and the one before is refused.
async fn lifted_by_the_floor(
    store: RedisLeaseStore<AcceptBestEffortToken>,
    resource: &TestDatabase<Sqlite>,
    before: &CorrectnessLease,
) {
    let floor = fence().generation(&resource.pool).await.unwrap();
    let policy = Acquire::default().floor(floor);
    let above = Leases::new(store).acquire_with(&lock(), Hold::fixed(LONG), policy).await.unwrap();
    assert!(above.token() > before.token());
    fence().seal(&resource.pool, &above.permit().unwrap()).await.unwrap();
    let mut tx = resource.pool.begin().await.unwrap();
    let late = fence().check(&mut tx, &before.permit().unwrap()).await;
    assert!(matches!(late, Err(Error::Refused { refusal: Refusal::Superseded { .. }, .. })), "{late:?}");
}
