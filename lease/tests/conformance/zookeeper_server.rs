//! L20 on ZooKeeper, an ensemble that was set up anew, and a lock for which the server has counted to the end.

mod log;
pub(crate) mod server;

use std::error::Error as _;

use leastlock_core::Statement;
use leastlock_lease::{Acquire, CorrectnessLease, Error, Fence, Leases, OwnerNonce, Refusal, Released};
use sqlx::Sqlite;
use zookeeper_client::{Acls, CreateMode};

use crate::rig::{Rig, ZooKeeper};
use crate::world::{fixed, leases, lock};
use server::Server;

/// More than any test needs to begin.
const WRITES: i64 = 60;

/// Makes a node, which moves the counter ahead by one; answers how far that is.
async fn write(rig: &ZooKeeper, name: &str) -> i64 {
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let (stat, _) = rig.client().create(&format!("/{name}-"), b"", &options).await.unwrap();
    stat.czxid
}

async fn acquire(
    leases: &Leases<impl leastlock_lease::FencedStore>,
    policy: Acquire,
) -> Result<CorrectnessLease, Error> {
    leases.acquire_with(&lock(), fixed(), policy).await
}

/// The number that the server has given to a claim.
fn number(path: &str) -> i64 {
    let name = path.rsplit('/').next().unwrap();
    name.split_once('-').unwrap().1.parse().unwrap()
}

mod zookeeper {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l20_a_number_that_an_ensemble_set_up_anew_issues_again_is_refused() {
        let mut server = Server::start().await;
        let before = ZooKeeper::at(&server.address()).await;
        for _ in 0..WRITES {
            write(&before, "before").await;
        }
        let sealed = acquire(&leases(&before), Acquire::default()).await.unwrap();
        let fence = Fence::new("report:tenant-7").unwrap();
        let pool = &before.database().pool;
        fence.seal(pool, &sealed.permit().unwrap()).await.unwrap();

        server.kill();
        server.forget_all();
        server.restart().await;
        let after = ZooKeeper::at(&server.address()).await;
        let leases = leases(&after);
        let floor = fence.generation(pool).await.unwrap();
        let refused = acquire(&leases, Acquire::default().floor(floor)).await;
        assert!(matches!(refused, Err(Error::TokenBelowFloor { token, .. }) if Some(token) < floor), "{refused:?}");
        assert!(!after.look().await.held, "nothing is held");

        // Session and lock are there, so the next transaction is the claim's.
        while write(&after, "after").await < sealed.token().value() - 1 {}
        let twin = acquire(&leases, Acquire::default()).await.unwrap();
        assert_eq!(twin.token(), sealed.token(), "it issues the number again");
        let permit = twin.permit().unwrap();
        let seal = fence.seal(pool, &permit).await;
        assert!(matches!(seal, Err(Error::Refused { refusal: Refusal::OtherOwner { .. }, .. })), "{seal:?}");
        let compare =
            Statement::new("SELECT 1 FROM leastlock_fence WHERE generation = $1").bind(permit.token().value());
        let mut connection = pool.acquire().await.unwrap();
        let passes = compare.fetch_optional::<Sqlite>(&mut connection).await.unwrap().is_some();
        assert!(passes, "the double compares the number, and takes one for the other");
        drop(connection);
        assert_eq!(twin.release().await, Released::Released);
        let above = acquire(&leases, Acquire::default().floor(floor)).await.expect("the counter is ahead now");
        fence.seal(pool, &above.permit().unwrap()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_lock_for_which_the_server_has_counted_to_the_end_is_refused_until_its_node_is_made_anew() {
        let mut server = Server::start().await;
        let rig = ZooKeeper::at(&server.address()).await;
        let leases = leases(&rig);
        let claim = || async { rig.claim_by_hand_of(rig.client(), OwnerNonce::random().unwrap()).await };
        let first = claim().await;
        assert_eq!(number(&first), 0);

        server.kill();
        log::count_on_from(&server.versioned(), &first, i32::MAX - 1);
        server.restart().await;
        rig.forget().await;
        let last = acquire(&leases, Acquire::default()).await.expect("the last number that tells the order");
        assert_eq!(number(&rig.nodes().await[0].0), i64::from(i32::MAX) - 1);
        let token = last.token();
        assert_eq!(last.release().await, Released::Released);
        let refused = acquire(&leases, Acquire::default()).await;
        let Err(Error::Store { source, .. }) = refused else { panic!("{refused:?}") };
        let why = source.source().map(ToString::to_string).unwrap_or_default();
        assert!(why.contains("2^31") && !source.is_retryable(), "{why}");
        assert!(rig.nodes().await.is_empty(), "nothing is left behind");

        // The double goes by the numbers: of two claims neither has one before it, or the later one has.
        let [earlier, later] = [claim().await, claim().await].map(|path| number(&path));
        assert!(later <= earlier, "{earlier}, {later}");

        rig.forget().await;
        rig.client().delete(&rig.lock(), None).await.unwrap();
        let again = acquire(&leases, Acquire::default()).await.expect("the server counts from zero");
        assert!(again.token() > token, "tokens are no such numbers");
        assert_eq!(again.release().await, Released::Released);
    }
}
