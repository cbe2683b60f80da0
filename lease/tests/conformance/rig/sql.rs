use std::sync::Arc;
use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_lease::{LeaseSql, MIGRATIONS, OwnerNonce, SqlLeaseStore};
use leastlock_testkit::database::Prepared;
use leastlock_testkit::{TestDatabase, TestEngine};

use super::{Rig, Seen};
use crate::world::lock;

/// The SQL store, and the resource in the same database.
pub(crate) struct Sql<DB: TestEngine>(Arc<TestDatabase<DB>>);

impl<DB: TestEngine> Clone for Sql<DB> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The crate's tables, and a row whose value names its last writer.
pub(crate) async fn protected<DB: TestEngine>() -> TestDatabase<DB> {
    TestDatabase::prepared(&Prepared {
        suite: "lease",
        migrations: &MIGRATIONS,
        tables: &["CREATE TABLE protected (value BIGINT NOT NULL)"],
        rows: &["INSERT INTO protected VALUES (0)"],
    })
    .await
}

impl<DB: TestEngine + LeaseSql> Rig for Sql<DB> {
    type Store = SqlLeaseStore<DB>;
    type DB = DB;

    const TELLS_THE_TIME_TO: Option<Duration> = Some(Duration::from_millis(2));

    async fn create() -> Self {
        Self(Arc::new(protected().await))
    }

    fn store(&self) -> SqlLeaseStore<DB> {
        SqlLeaseStore::new(&self.0.pool)
    }

    fn database(&self) -> &TestDatabase<DB> {
        &self.0
    }

    async fn expire(&self) {
        self.0.execute("UPDATE leastlock_lease SET lease_until = acquired_at").await;
    }

    async fn forget(&self) {
        self.0.execute("DELETE FROM leastlock_lease").await;
    }

    async fn look(&self) -> Seen {
        const STANDING: &str = "SELECT COUNT(*) FROM leastlock_lease WHERE lease_until > acquired_at";
        const RELEASED: &str = "SELECT COUNT(*) FROM leastlock_lease WHERE lease_until IS NULL";
        let mut connection = self.0.pool.acquire().await.unwrap();
        let row = Statement::new("SELECT fencing_seq FROM leastlock_lease").fetch_optional::<DB>(&mut connection).await;
        let token = row.unwrap().map(|row| row.int(0).unwrap());
        drop(connection);
        let (held, released) = (self.0.int(STANDING).await == 1, self.0.int(RELEASED).await == 1);
        Seen { token, held, released }
    }

    async fn end_whosever_it_is(&self) {
        self.0.execute("UPDATE leastlock_lease SET lease_until = NULL").await;
    }

    async fn hold_by_force(&self, nonce: OwnerNonce) {
        let force = match DB::ENGINE {
            Engine::Postgres => {
                "UPDATE leastlock_lease SET owner_token = $1, lease_until = now() + interval '1 hour' WHERE lock_name = $2"
            }
            Engine::MySql => {
                "UPDATE leastlock_lease SET owner_token = ?, lease_until = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR \
                 WHERE lock_name = ?"
            }
            _ => {
                "UPDATE leastlock_lease SET owner_token = ?1, lease_until = acquired_at + 3600000 WHERE lock_name = ?2"
            }
        };
        let (name, mut connection) = (lock(), self.0.pool.acquire().await.unwrap());
        let force = Statement::new(force).bind(&nonce.as_bytes()[..]);
        force.bind(name.as_str()).execute::<DB>(&mut connection).await.unwrap();
    }
}
