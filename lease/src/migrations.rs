//! The tables `leastlock_lease`, `leastlock_fence`, `leastlock_fence_gate`, `leastlock_once` and `leastlock_audit`.

use leastlock_core::{Migration, Migrations};

/// The tables of this crate, with their own history in `leastlock_lease_migrations`.
///
/// ```
/// # async fn apply(pool: &sqlx::Pool<sqlx::Sqlite>) -> Result<(), leastlock_core::MigrationError> {
/// leastlock_lease::MIGRATIONS.run(pool).await?;
/// leastlock_lease::MIGRATIONS.validate(pool).await
/// # }
/// ```
pub const MIGRATIONS: Migrations = Migrations {
    table: "leastlock_lease_migrations",
    postgres: &[
        Migration { version: 1, name: "lease", sql: include_str!("../migrations/postgres/0001_lease.sql") },
        Migration { version: 2, name: "waiters", sql: include_str!("../migrations/postgres/0002_waiters.sql") },
        Migration { version: 3, name: "once", sql: include_str!("../migrations/postgres/0003_once.sql") },
        Migration { version: 4, name: "audit", sql: include_str!("../migrations/postgres/0004_audit.sql") },
    ],
    sqlite: &[
        Migration { version: 1, name: "lease", sql: include_str!("../migrations/sqlite/0001_lease.sql") },
        Migration { version: 2, name: "once", sql: include_str!("../migrations/sqlite/0002_once.sql") },
        Migration { version: 3, name: "audit", sql: include_str!("../migrations/sqlite/0003_audit.sql") },
    ],
    mysql: &[
        Migration { version: 1, name: "lease", sql: include_str!("../migrations/mysql/0001_lease.sql") },
        Migration { version: 2, name: "once", sql: include_str!("../migrations/mysql/0002_once.sql") },
        Migration { version: 3, name: "audit", sql: include_str!("../migrations/mysql/0003_audit.sql") },
    ],
};
