//! A partition under test, and a fence that can be exchanged for a double.

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_partition_worker::progress::{Entry, Seal, Sealed};
use leastlock_partition_worker::{Epoch, MIGRATIONS, Progress, TopicPartition, WorkerSql};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;

pub(crate) const GROUP: &str = "ledger";

/// The engines of these tests.
pub(crate) trait Tested: TestEngine + WorkerSql {}
impl<DB: TestEngine + WorkerSql> Tested for DB {}

pub(crate) fn partition() -> TopicPartition {
    TopicPartition::new("stock-moves", 0)
}

pub(crate) async fn prepared<DB: Tested>(database: TestDatabase<DB>) -> TestDatabase<DB> {
    let database = database.with(&MIGRATIONS).await;
    database.execute("CREATE TABLE effect (record_offset BIGINT NOT NULL, owner TEXT NOT NULL)").await;
    database
}

pub(crate) fn owner<DB: Tested>(database: &TestDatabase<DB>, name: &str) -> Progress<DB> {
    Progress::new(database.pool.clone(), GROUP, name)
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) fn owner_with<DB: Tested>(
    database: &TestDatabase<DB>,
    name: &str,
    timeouts: leastlock_partition_worker::Timeouts,
) -> Progress<DB> {
    owner(database, name).with_timeouts(timeouts)
}

/// Seals the partition, and fixes its start at `start` if it has none.
pub(crate) async fn sealed<DB: Tested>(progress: &Progress<DB>, start: i64) -> Sealed {
    let Seal::Sealed(sealed) = progress.seal(&partition()).await.expect("a seal") else {
        panic!("nobody else seals");
    };
    if sealed.next_offset.is_none() {
        assert!(progress.anchor(&partition(), sealed.epoch, start).await.expect("an anchor"));
    }
    sealed
}

/// What lets a handler in: the fence of one record or of many, or a double of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fence {
    sql: &'static str,
    takes_many: bool,
}

impl Fence {
    pub(crate) const fn one(sql: &'static str) -> Self {
        Self { sql, takes_many: false }
    }

    pub(crate) const fn many(sql: &'static str) -> Self {
        Self { sql, takes_many: true }
    }

    pub(crate) fn real<DB: WorkerSql>() -> Self {
        Self::one(DB::FENCE_ENTER)
    }

    pub(crate) fn batch<DB: WorkerSql>() -> Self {
        Self::many(DB::FENCE_BATCH)
    }

    /// Whether the handler may go on.
    pub(crate) async fn enter<DB: WorkerSql>(self, tx: &mut Transaction<'_, DB>, epoch: Epoch, offset: i64) -> bool {
        self.enter_with_idle(tx, epoch, offset, 10_000).await
    }

    pub(crate) async fn enter_with_idle<DB: WorkerSql>(
        self,
        tx: &mut Transaction<'_, DB>,
        epoch: Epoch,
        offset: i64,
        idle_ms: i64,
    ) -> bool {
        let enter = Statement::new(self.sql).bind(GROUP).bind("stock-moves").bind(0_i64).bind(epoch.get());
        let listed = offset.to_string();
        let enter = if self.takes_many { enter.bind(&*listed) } else { enter.bind(offset) };
        match enter.bind(idle_ms).execute::<DB>(tx).await {
            Err(error) if classify::<DB>(&error) == ErrorClass::UniqueViolation => false,
            entered => entered.expect("the fence answers") == 1,
        }
    }
}

/// A handler from `BEGIN` to `COMMIT`; answers whether it was let in.
pub(crate) async fn handle<DB: Tested>(database: &TestDatabase<DB>, fence: Fence, epoch: Epoch, offset: i64) -> bool {
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let entered = fence.enter(&mut tx, epoch, offset).await;
    if entered {
        effect::<DB>(&mut tx, offset, "handler").await;
        tx.commit().await.expect("a commit");
    }
    entered
}

pub(crate) async fn effect<DB: WorkerSql>(connection: &mut DB::Connection, offset: i64, owner: &str) {
    let insert = sql::<DB>(
        "INSERT INTO effect (record_offset, owner) VALUES ($1, $2)",
        "INSERT INTO effect (record_offset, owner) VALUES (?, ?)",
    );
    let insert = Statement::new(insert).bind(offset).bind(owner);
    insert.execute::<DB>(connection).await.expect("an effect");
}

pub(crate) async fn entry<DB: Tested>(progress: &Progress<DB>, epoch: Epoch, offset: i64) -> Entry {
    let mut tx = progress.pool().begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    progress.enter(&mut tx, &partition(), epoch, offset).await.expect("the fence answers")
}
