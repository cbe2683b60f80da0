//! The statements, per engine.

use leastlock_core::{Migration, Migrations};

use crate::parked::ParkedSql;
use crate::poison::PoisonSql;

/// The tables of this crate: `leastlock_partition`, `leastlock_partition_gate`, `leastlock_partition_done`.
pub const MIGRATIONS: Migrations = Migrations {
    table: "leastlock_partition_worker_migrations",
    postgres: &[
        Migration { version: 1, name: "partition", sql: include_str!("../migrations/postgres/0001_partition.sql") },
        Migration { version: 3, name: "parked", sql: include_str!("../migrations/postgres/0003_parked.sql") },
        Migration { version: 4, name: "suspect", sql: include_str!("../migrations/postgres/0004_suspect.sql") },
    ],
    sqlite: &[
        Migration { version: 1, name: "partition", sql: include_str!("../migrations/sqlite/0001_partition.sql") },
        Migration { version: 3, name: "parked", sql: include_str!("../migrations/sqlite/0003_parked.sql") },
        Migration { version: 4, name: "suspect", sql: include_str!("../migrations/sqlite/0004_suspect.sql") },
    ],
    mysql: &[
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
    /// owner → the new epoch.
    const SEAL_GATE: &'static str;
    /// Time-out in ms alone → the backend's id. `None`: the engine bounds its one lock by the connection's own time-out.
    const SEAL_BOUND: Option<&'static str>;
    /// epoch, owner → `next_offset`, or no row.
    const SEAL_GUARD: &'static str;
    /// → offsets.
    const SEAL_FINISHED: &'static str;
    /// The backend's id alone → id, state and age in ms of those that it waits for. `None`: the engine cannot tell.
    const SEAL_BLOCKERS: Option<&'static str>;
    /// epoch, offset.
    const SEAL_ANCHOR: &'static str;
    /// epoch, offset, idle time-out in ms → one row changed if the handler may go on.
    const FENCE_ENTER: &'static str;
    /// epoch, offset → is the epoch the newest, is the record finished.
    const FENCE_WHY: &'static str;
    /// epoch, idle time-out in ms → one row if the epoch is the newest.
    const FENCE_HOLD: &'static str;
    /// epoch, `next_offset`, lock time-out in ms.
    const FOLD_RAISE: &'static str;
    /// `next_offset`.
    const FOLD_FORGET: &'static str;
}

#[cfg(feature = "postgres")]
impl WorkerSql for sqlx::Postgres {
    const SEAL_GATE: &'static str = include_str!("../sql/postgres/seal_gate.sql");
    const SEAL_BOUND: Option<&'static str> = Some(include_str!("../sql/postgres/seal_bound.sql"));
    const SEAL_GUARD: &'static str = include_str!("../sql/postgres/seal_guard.sql");
    const SEAL_FINISHED: &'static str = include_str!("../sql/postgres/seal_finished.sql");
    const SEAL_BLOCKERS: Option<&'static str> = Some(include_str!("../sql/postgres/seal_blockers.sql"));
    const SEAL_ANCHOR: &'static str = include_str!("../sql/postgres/seal_anchor.sql");
    const FENCE_ENTER: &'static str = include_str!("../sql/postgres/fence_enter.sql");
    const FENCE_WHY: &'static str = include_str!("../sql/postgres/fence_why.sql");
    const FENCE_HOLD: &'static str = include_str!("../sql/postgres/fence_hold.sql");
    const FOLD_RAISE: &'static str = include_str!("../sql/postgres/fold_raise.sql");
    const FOLD_FORGET: &'static str = include_str!("../sql/postgres/fold_forget.sql");
}

#[cfg(feature = "sqlite")]
impl WorkerSql for sqlx::Sqlite {
    const SEAL_GATE: &'static str = include_str!("../sql/sqlite/seal_gate.sql");
    const SEAL_BOUND: Option<&'static str> = None;
    const SEAL_GUARD: &'static str = include_str!("../sql/sqlite/seal_guard.sql");
    const SEAL_FINISHED: &'static str = include_str!("../sql/sqlite/seal_finished.sql");
    const SEAL_BLOCKERS: Option<&'static str> = None;
    const SEAL_ANCHOR: &'static str = include_str!("../sql/sqlite/seal_anchor.sql");
    const FENCE_ENTER: &'static str = include_str!("../sql/sqlite/fence_enter.sql");
    const FENCE_WHY: &'static str = include_str!("../sql/sqlite/fence_why.sql");
    const FENCE_HOLD: &'static str = include_str!("../sql/sqlite/fence_hold.sql");
    const FOLD_RAISE: &'static str = include_str!("../sql/sqlite/fold_raise.sql");
    const FOLD_FORGET: &'static str = include_str!("../sql/sqlite/fold_forget.sql");
}
