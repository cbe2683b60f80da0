//! The table of this crate.

use leastlock_core::{Migration, Migrations};

/// The migrations of `leastlock_idempotency`; their history is in `leastlock_idempotency_migrations`.
pub const MIGRATIONS: Migrations = Migrations {
    table: "leastlock_idempotency_migrations",
    postgres: &[
        Migration { version: 1, name: "idempotency", sql: include_str!("../migrations/postgres/0001_idempotency.sql") },
        Migration { version: 2, name: "phased", sql: include_str!("../migrations/postgres/0002_phased.sql") },
        Migration {
            version: 3,
            name: "heap_only_updates",
            sql: include_str!("../migrations/postgres/0003_heap_only_updates.sql"),
        },
        Migration {
            version: 4,
            name: "audit_retention",
            sql: include_str!("../migrations/postgres/0004_audit_retention.sql"),
        },
    ],
    sqlite: &[
        Migration { version: 1, name: "idempotency", sql: include_str!("../migrations/sqlite/0001_idempotency.sql") },
        Migration { version: 2, name: "phased", sql: include_str!("../migrations/sqlite/0002_phased.sql") },
        Migration {
            version: 3,
            name: "audit_retention",
            sql: include_str!("../migrations/sqlite/0003_audit_retention.sql"),
        },
    ],
    mysql: &[
        Migration { version: 1, name: "idempotency", sql: include_str!("../migrations/mysql/0001_idempotency.sql") },
        Migration { version: 2, name: "phased", sql: include_str!("../migrations/mysql/0002_phased.sql") },
        Migration {
            version: 3,
            name: "audit_retention",
            sql: include_str!("../migrations/mysql/0003_audit_retention.sql"),
        },
    ],
};
