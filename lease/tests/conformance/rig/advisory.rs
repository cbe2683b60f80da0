use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leastlock_core::{Engine, Statement};
use leastlock_lease::{AdvisoryLeaseStore, AdvisorySql, Claim, LeaseSql, LeaseStore, OwnerNonce};
use leastlock_testkit::{TestDatabase, TestEngine};
use sha2::{Digest, Sha256};
use sqlx::AssertSqlSafe;

use super::numbered::{Numbered, Numbers};
use super::{Rig, Seen, protected};
use crate::world::{LIMIT, LONG, lock};

/// The locks of the server's sessions, in a namespace of the test's own; all sessions that have one are this test's.
pub(crate) struct Advisory<DB: TestEngine> {
    database: Arc<TestDatabase<DB>>,
    namespace: String,
    numbers: Numbers,
    /// A lock ends with its store: a double's would not outlive it, as one that is left behind in a server does.
    kept: Arc<Mutex<Vec<Arc<AdvisoryLeaseStore<DB>>>>>,
}

impl<DB: TestEngine> Clone for Advisory<DB> {
    fn clone(&self) -> Self {
        let Self { database, namespace, numbers, kept } = self;
        let (database, kept) = (Arc::clone(database), Arc::clone(kept));
        Self { database, namespace: namespace.clone(), numbers: numbers.clone(), kept }
    }
}

impl<DB: TestEngine + AdvisorySql> Advisory<DB> {
    /// The number of the session that has the lock. A database of PostgreSQL has no locks but this test's; of MariaDB's, which are
    /// the server's, this is the one.
    async fn holder(&self) -> Option<i64> {
        let mut connection = self.database.pool.acquire().await.unwrap();
        if DB::ENGINE == Engine::MySql {
            let digest = Sha256::new().chain_update(&self.namespace).chain_update([0]).chain_update(lock().as_str());
            let mut key = [0; 8];
            key.copy_from_slice(&digest.finalize()[..8]);
            let name = format!("leastlock:{:016x}", u64::from_be_bytes(key));
            let holder = Statement::new("SELECT CAST(IS_USED_LOCK(?) AS SIGNED)").bind(&*name);
            return holder.fetch_one::<DB>(&mut connection).await.unwrap().optional_int(0).unwrap();
        }
        let holder = Statement::new(
            "SELECT pid::bigint FROM pg_locks JOIN pg_database ON pg_database.oid = database \
             WHERE locktype = 'advisory' AND granted AND datname = current_database()",
        );
        let holder = holder.fetch_optional::<DB>(&mut connection).await.unwrap();
        holder.map(|row| row.int(0).unwrap())
    }

    /// How many sessions wait for it in the server.
    pub(crate) async fn waiting(&self) -> i64 {
        self.database
            .int(if DB::ENGINE == Engine::MySql {
                "SELECT CAST(count(*) AS SIGNED) FROM information_schema.processlist \
                 WHERE db = DATABASE() AND state = 'User lock'"
            } else {
                "SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = database \
                 WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"
            })
            .await
    }

    /// Ends the session that has it, as a broken connection or the server's time-out does.
    async fn end_session(&self) {
        let end = if DB::ENGINE == Engine::MySql { "KILL " } else { "SELECT pg_terminate_backend" };
        if let Some(session) = self.holder().await {
            let mut connection = self.database.pool.acquire().await.unwrap();
            let end = Statement::new(AssertSqlSafe(format!("{end}({session})"))).fetch_all::<DB>(&mut connection).await;
            // It may have ended in between.
            drop(end);
            let deadline = Instant::now() + LIMIT;
            while self.holder().await == Some(session) {
                assert!(Instant::now() < deadline, "the session is there after {LIMIT:?}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

impl<DB: TestEngine + AdvisorySql + LeaseSql> Rig for Advisory<DB> {
    type Store = Numbered<AdvisoryLeaseStore<DB>>;
    type DB = DB;

    const TELLS_THE_TIME_TO: Option<Duration> = None;

    async fn create() -> Self {
        let namespace = format!("test-{:032x}", fastrand::u128(..));
        Self { database: Arc::new(protected().await), namespace, numbers: Numbers::default(), kept: Arc::default() }
    }

    fn store(&self) -> Numbered<AdvisoryLeaseStore<DB>> {
        let store = AdvisoryLeaseStore::new(&self.database.pool).namespace(self.namespace.clone());
        let store = Arc::new(store);
        self.kept.lock().unwrap().push(Arc::clone(&store));
        Numbered { store, numbers: self.numbers.clone() }
    }

    fn database(&self) -> &TestDatabase<DB> {
        &self.database
    }

    async fn expire(&self) {
        self.end_session().await;
    }

    async fn forget(&self) {
        // Those who wait go with their stores.
        self.kept.lock().unwrap().clear();
        while self.holder().await.is_some() {
            self.end_session().await;
        }
        self.numbers.forget();
    }

    async fn look(&self) -> Seen {
        let held = self.holder().await.is_some();
        Seen { token: self.numbers.last(), held, released: !held && self.numbers.last_has_released() }
    }

    async fn end_whosever_it_is(&self) {
        self.end_session().await;
    }

    async fn hold_by_force(&self, nonce: OwnerNonce) {
        self.end_session().await;
        let (store, name) = (self.store().store, lock());
        let _granted = store.acquire(Claim::new(&name, nonce, LONG)).await.unwrap();
    }
}
