//! The tables of this crate.

use leastlock_core::{Migration, Migrations};

/// The migrations of the outbox; their history is in `leastlock_outbox_migrations`.
pub const MIGRATIONS: Migrations = Migrations {
    table: "leastlock_outbox_migrations",
    postgres: &[
        Migration { version: 1, name: "outbox", sql: include_str!("../migrations/postgres/0001_outbox.sql") },
        Migration { version: 2, name: "parked", sql: include_str!("../migrations/postgres/0002_parked.sql") },
        Migration { version: 3, name: "shards", sql: include_str!("../migrations/postgres/0003_shards.sql") },
        Migration { version: 4, name: "append", sql: include_str!("../migrations/postgres/0004_append.sql") },
        Migration { version: 5, name: "raised", sql: include_str!("../migrations/postgres/0005_raised.sql") },
        Migration { version: 6, name: "generations", sql: include_str!("../migrations/postgres/0006_generations.sql") },
        Migration { version: 7, name: "readable", sql: include_str!("../migrations/postgres/0007_readable.sql") },
        Migration { version: 8, name: "check", sql: include_str!("../migrations/postgres/0008_check.sql") },
        Migration {
            version: 9,
            name: "append_checked",
            sql: include_str!("../migrations/postgres/0009_append_checked.sql"),
        },
    ],
    sqlite: &[
        Migration { version: 1, name: "outbox", sql: include_str!("../migrations/sqlite/0001_outbox.sql") },
        Migration { version: 2, name: "parked", sql: include_str!("../migrations/sqlite/0002_parked.sql") },
        Migration { version: 3, name: "shards", sql: include_str!("../migrations/sqlite/0003_shards.sql") },
        Migration { version: 4, name: "append", sql: include_str!("../migrations/sqlite/0004_append.sql") },
        Migration { version: 5, name: "readable", sql: include_str!("../migrations/sqlite/0005_readable.sql") },
    ],
    mysql: &[
        Migration { version: 1, name: "outbox", sql: include_str!("../migrations/mysql/0001_outbox.sql") },
        Migration { version: 2, name: "parked", sql: include_str!("../migrations/mysql/0002_parked.sql") },
        Migration { version: 3, name: "shards", sql: include_str!("../migrations/mysql/0003_shards.sql") },
        Migration { version: 4, name: "append", sql: include_str!("../migrations/mysql/0004_append.sql") },
        Migration { version: 5, name: "readable", sql: include_str!("../migrations/mysql/0005_readable.sql") },
    ],
};
