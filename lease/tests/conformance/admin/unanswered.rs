//! A store that does not answer an operator: the intent is there, and nothing more is claimed.

use leastlock_lease::{FencingToken, Forced, Inspect, Leases, RedisLeaseStore, audit};
use sqlx::Sqlite;

use super::force::approval;
use crate::redis_server::Server;
use crate::rig::protected;
use crate::world::{fixed, lock};

mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn l17_release_without_an_answer_is_an_intent_without_an_outcome() {
        let database = protected::<Sqlite>().await;
        let mut server = Server::start(&[("appendonly", "yes"), ("appendfsync", "always")]).await;
        let store = RedisLeaseStore::best_effort(server.client());
        let lease = Leases::new(RedisLeaseStore::best_effort(server.client())).acquire(&lock(), fixed()).await.unwrap();
        server.kill();
        let unknown = store.force_release(&database.pool, &lock(), lease.token(), &approval()).await.unwrap();
        let Forced::Unknown { operation, source: Some(source) } = unknown else { panic!("{unknown:?}") };
        assert!(source.is_retryable(), "{source}");
        let entries = audit(&database.pool, None, 10).await.unwrap();
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!((entry.operation, entry.outcome, entry.raised_to), (operation, None, None));

        // Looking at the store tells what became of it: nothing.
        server.restart().await;
        let record = store.inspect(&lock()).await.unwrap().unwrap();
        assert_ne!(record.holder.owner, operation);
        let again = store.force_release(&database.pool, &lock(), lease.token(), &approval()).await.unwrap();
        let Forced::Released(seizure) = again else { panic!("{again:?}") };
        let record = store.inspect(&lock()).await.unwrap().unwrap();
        assert_eq!((record.holder.owner, record.holder.token), (seizure.operation(), FencingToken::new(2)));
    }
}
