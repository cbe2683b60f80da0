//! The statements, per engine.

use std::time::Duration;

use leastlock_core::{Migration, Migrations, Statement};
use sqlx::{Pool, Transaction};

use crate::own_transaction::OwnTransaction;
use crate::parked::ParkedSql;
use crate::poison::PoisonSql;

#[cfg(feature = "mysql")]
mod mysql;

/// The tables of this crate: `leastlock_partition`, `leastlock_partition_gate`, `leastlock_partition_done`,
/// `leastlock_partition_audit`, and those of failed records: `leastlock_partition_parked`, `leastlock_partition_parked_record`,
/// `leastlock_partition_parked_audit`, `leastlock_partition_tenure`, `leastlock_partition_suspect`.
pub const MIGRATIONS: Migrations = Migrations {
    table: "leastlock_partition_worker_migrations",
    postgres: &[
        Migration { version: 1, name: "partition", sql: include_str!("../migrations/postgres/0001_partition.sql") },
        Migration { version: 2, name: "topic id", sql: include_str!("../migrations/postgres/0002_topic_id.sql") },
        Migration { version: 3, name: "parked", sql: include_str!("../migrations/postgres/0003_parked.sql") },
        Migration { version: 4, name: "suspect", sql: include_str!("../migrations/postgres/0004_suspect.sql") },
    ],
    sqlite: &[
        Migration { version: 1, name: "partition", sql: include_str!("../migrations/sqlite/0001_partition.sql") },
        Migration { version: 2, name: "topic id", sql: include_str!("../migrations/sqlite/0002_topic_id.sql") },
        Migration { version: 3, name: "parked", sql: include_str!("../migrations/sqlite/0003_parked.sql") },
        Migration { version: 4, name: "suspect", sql: include_str!("../migrations/sqlite/0004_suspect.sql") },
    ],
    mysql: &[
        Migration { version: 1, name: "partition", sql: include_str!("../migrations/mysql/0001_partition.sql") },
        Migration { version: 3, name: "parked", sql: include_str!("../migrations/mysql/0003_parked.sql") },
        Migration { version: 4, name: "suspect", sql: include_str!("../migrations/mysql/0004_suspect.sql") },
    ],
};

/// The statements of this crate in an engine's words. Sealed, as [`Dialect`](leastlock_core::Dialect) is.
///
/// # Contract
/// Every statement takes group, topic and partition as its first parameters; what follows stands beside each constant. The
/// files in `sql/` say which locks they take.
pub trait WorkerSql: ParkedSql + PoisonSql {
    /// Time-out in ms alone → the backend's id. `None`: the engine bounds its one lock by the connection's own time-out.
    const SEAL_BOUND: Option<&'static str>;
    /// From which offset on, how many at most → offsets.
    const SEAL_FINISHED: &'static str;
    /// The backend's id alone → id, state and age in ms of those that it waits for. `None`: the engine cannot tell.
    const SEAL_BLOCKERS: Option<&'static str>;
    /// epoch, offset.
    const SEAL_ANCHOR: &'static str;
    /// epoch, offset, idle time-out in ms → one row changed if the handler may go on. A finished record is no row, or an
    /// error of the class `UniqueViolation`.
    const FENCE_ENTER: &'static str;
    /// epoch, offset → is the epoch the newest, is the record finished.
    const FENCE_WHY: &'static str;
    /// epoch, idle time-out in ms → one row if the epoch is the newest.
    const FENCE_HOLD: &'static str;
    /// epoch, offsets as `1,2,3`, idle time-out in ms → as many rows changed as offsets if the handler may go on. A finished
    /// record is no row, or an error of the class `UniqueViolation`.
    const FENCE_BATCH: &'static str;
    /// epoch, offsets as `1,2,3` → which of them are finished, beside NULL; no row if the epoch is not the newest.
    const FENCE_FINISHED: &'static str;
    /// Lock time-out in ms alone, before the next. `None`: the next statement bounds itself.
    const FOLD_BOUND: Option<&'static str>;
    /// epoch, `next_offset`, lock time-out in ms.
    const FOLD_RAISE: &'static str;
    /// `next_offset`, how many at most.
    const FOLD_FORGET: &'static str;
    /// epoch, topic id → one row changed if none was known.
    const TOPIC_NAME: &'static str;
    /// epoch → topic id.
    const TOPIC_KNOWN: &'static str;
    /// epoch, `next_offset`.
    const REBASE: &'static str;
    /// action, actor, reason, offset before, offset after, topic id.
    const AUDIT: &'static str;

    /// Begins a transaction whose first statement is the fence. However it ends, [`commit`](Self::commit),
    /// [`roll_back`](Self::roll_back) or [`abandon`](Self::abandon) leaves the connection as it was before. Dropped at any time,
    /// no transaction stays open.
    fn begin(
        pool: &Pool<Self>,
        idle: Duration,
    ) -> impl Future<Output = Result<OwnTransaction<Self>, sqlx::Error>> + Send;

    /// Begins a transaction of the crate's own, which ends as those of [`begin`](Self::begin) do. Where the server can do it, it
    /// is ended after 10 s of idling, so that a process that stops in it holds its locks no longer.
    fn begin_step(pool: &Pool<Self>) -> impl Future<Output = Result<OwnTransaction<Self>, sqlx::Error>> + Send;

    /// Commits; fails where the transaction was aborted or ended by an error that somebody overlooked. Takes the transaction
    /// out of its slot once it has ended.
    fn commit(tx: &mut Option<Transaction<'static, Self>>) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Commits as [`commit`](Self::commit) does, and begins the next transaction of [`begin`](Self::begin)'s kind on the same
    /// connection, in one message: it is in the slot then. An empty slot says that this engine begins none.
    fn commit_and_begin(
        tx: &mut Option<Transaction<'static, Self>>,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Rolls back, in the same way.
    fn roll_back(tx: &mut Option<Transaction<'static, Self>>) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Ends a transaction that was dropped.
    fn abandon(tx: Transaction<'static, Self>);

    /// Whether a commit that failed with this error had nothing to commit, since an error that was ignored had ended the
    /// transaction.
    fn is_aborted(error: &sqlx::Error) -> bool;

    /// Claims the next epoch at the gate of this partition; answers it.
    fn claim_gate(
        connection: &mut Self::Connection,
        of: GroupPartition<'_>,
        owner: &str,
    ) -> impl Future<Output = Result<i64, sqlx::Error>> + Send;

    /// Raises the guard of this partition to this epoch; answers what stands in it, or `None` if the gate or the guard has
    /// moved on.
    fn raise_guard(
        connection: &mut Self::Connection,
        of: GroupPartition<'_>,
        epoch: i64,
        owner: &str,
    ) -> impl Future<Output = Result<Option<Found>, sqlx::Error>> + Send;
}

/// The partition that a statement is about.
#[derive(Debug, Clone, Copy)]
pub struct GroupPartition<'a> {
    /// The consumer group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// The number of the partition.
    pub partition: i64,
}

impl<'a> GroupPartition<'a> {
    /// `sql` with the first three parameters of every statement.
    pub fn bind_to(self, sql: &'static str) -> Statement<'a> {
        self.bind_next(Statement::new(sql))
    }

    fn bind_next(self, statement: Statement<'a>) -> Statement<'a> {
        statement.bind(self.group).bind(self.topic).bind(self.partition)
    }
}

/// What a seal finds in the guard row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Everything below is finished.
    pub next_offset: Option<i64>,
    /// Which topic of that name it is.
    pub topic_id: Option<String>,
}

impl Found {
    #[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
    fn read<DB: leastlock_core::Dialect>(row: &leastlock_core::Row<DB>) -> Result<Self, sqlx::Error> {
        Ok(Self { next_offset: row.optional_int(0)?, topic_id: row.optional_text(1)? })
    }
}

/// What engines do alike that can insert or else update, and answer with the row.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
macro_rules! seal_methods {
    ($gate:literal, $guard:literal) => {
        async fn claim_gate(
            connection: &mut Self::Connection,
            of: GroupPartition<'_>,
            owner: &str,
        ) -> Result<i64, sqlx::Error> {
            of.bind_to(include_str!($gate)).bind(owner).fetch_one::<Self>(connection).await?.int(0)
        }

        async fn raise_guard(
            connection: &mut Self::Connection,
            of: GroupPartition<'_>,
            epoch: i64,
            owner: &str,
        ) -> Result<Option<Found>, sqlx::Error> {
            let raise = of.bind_to(include_str!($guard)).bind(epoch).bind(owner);
            raise.fetch_optional::<Self>(connection).await?.as_ref().map(Found::read).transpose()
        }

        async fn begin_step(pool: &Pool<Self>) -> Result<OwnTransaction<Self>, sqlx::Error> {
            leastlock_core::begin(pool).await.map(OwnTransaction::new)
        }

        async fn commit(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
            match tx.take() {
                Some(tx) => leastlock_core::commit(tx).await,
                None => Ok(()),
            }
        }

        async fn roll_back(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
            match tx.take() {
                Some(tx) => tx.rollback().await,
                None => Ok(()),
            }
        }

        fn abandon(tx: Transaction<'static, Self>) {
            drop(tx);
        }
    };
}

#[cfg(feature = "postgres")]
impl WorkerSql for sqlx::Postgres {
    const SEAL_BOUND: Option<&'static str> = Some(include_str!("../sql/postgres/seal_bound.sql"));
    const SEAL_FINISHED: &'static str = include_str!("../sql/postgres/seal_finished.sql");
    const SEAL_BLOCKERS: Option<&'static str> = Some(include_str!("../sql/postgres/seal_blockers.sql"));
    const SEAL_ANCHOR: &'static str = include_str!("../sql/postgres/seal_anchor.sql");
    const FENCE_ENTER: &'static str = include_str!("../sql/postgres/fence_enter.sql");
    const FENCE_WHY: &'static str = include_str!("../sql/postgres/fence_why.sql");
    const FENCE_HOLD: &'static str = include_str!("../sql/postgres/fence_hold.sql");
    const FENCE_BATCH: &'static str = include_str!("../sql/postgres/fence_batch.sql");
    const FENCE_FINISHED: &'static str = include_str!("../sql/postgres/fence_finished.sql");
    const FOLD_BOUND: Option<&'static str> = None;
    const FOLD_RAISE: &'static str = include_str!("../sql/postgres/fold_raise.sql");
    const FOLD_FORGET: &'static str = include_str!("../sql/postgres/fold_forget.sql");
    const TOPIC_NAME: &'static str = include_str!("../sql/postgres/topic_name.sql");
    const TOPIC_KNOWN: &'static str = include_str!("../sql/postgres/topic_known.sql");
    const REBASE: &'static str = include_str!("../sql/postgres/rebase.sql");
    const AUDIT: &'static str = include_str!("../sql/postgres/audit.sql");

    seal_methods!("../sql/postgres/seal_gate.sql", "../sql/postgres/seal_guard.sql");

    async fn begin(pool: &Pool<Self>, _: Duration) -> Result<OwnTransaction<Self>, sqlx::Error> {
        leastlock_core::begin_with(pool, include_str!("../sql/postgres/begin.sql")).await.map(OwnTransaction::new)
    }

    async fn commit_and_begin(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
        match tx {
            Some(tx) => {
                sqlx::raw_sql(include_str!("../sql/postgres/commit_and_begin.sql")).execute(&mut **tx).await.map(drop)
            }
            None => Ok(()),
        }
    }

    /// `in_failed_sql_transaction` (PostgreSQL's manual, Appendix A).
    fn is_aborted(error: &sqlx::Error) -> bool {
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).is_some_and(|code| code == "25P02")
    }
}

#[cfg(feature = "sqlite")]
impl WorkerSql for sqlx::Sqlite {
    const SEAL_BOUND: Option<&'static str> = None;
    const SEAL_FINISHED: &'static str = include_str!("../sql/sqlite/seal_finished.sql");
    const SEAL_BLOCKERS: Option<&'static str> = None;
    const SEAL_ANCHOR: &'static str = include_str!("../sql/sqlite/seal_anchor.sql");
    const FENCE_ENTER: &'static str = include_str!("../sql/sqlite/fence_enter.sql");
    const FENCE_WHY: &'static str = include_str!("../sql/sqlite/fence_why.sql");
    const FENCE_HOLD: &'static str = include_str!("../sql/sqlite/fence_hold.sql");
    const FENCE_BATCH: &'static str = include_str!("../sql/sqlite/fence_batch.sql");
    const FENCE_FINISHED: &'static str = include_str!("../sql/sqlite/fence_finished.sql");
    const FOLD_BOUND: Option<&'static str> = None;
    const FOLD_RAISE: &'static str = include_str!("../sql/sqlite/fold_raise.sql");
    const FOLD_FORGET: &'static str = include_str!("../sql/sqlite/fold_forget.sql");
    const TOPIC_NAME: &'static str = include_str!("../sql/sqlite/topic_name.sql");
    const TOPIC_KNOWN: &'static str = include_str!("../sql/sqlite/topic_known.sql");
    const REBASE: &'static str = include_str!("../sql/sqlite/rebase.sql");
    const AUDIT: &'static str = include_str!("../sql/sqlite/audit.sql");

    seal_methods!("../sql/sqlite/seal_gate.sql", "../sql/sqlite/seal_guard.sql");

    async fn begin(pool: &Pool<Self>, _: Duration) -> Result<OwnTransaction<Self>, sqlx::Error> {
        leastlock_core::begin(pool).await.map(OwnTransaction::new)
    }

    /// A transaction that only may write would hold the file's one lock; and there is no way to a server that could be saved.
    async fn commit_and_begin(tx: &mut Option<Transaction<'static, Self>>) -> Result<(), sqlx::Error> {
        Self::commit(tx).await
    }

    /// The `COMMIT` of a transaction that an error has ended fails by itself.
    fn is_aborted(_: &sqlx::Error) -> bool {
        false
    }
}
