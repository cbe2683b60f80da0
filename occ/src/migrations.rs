//! The tables `leastlock_occ_order` and `leastlock_occ_stock`.

use leastlock_core::{Migration, Migrations};

/// The tables of this crate, with their own history in `leastlock_occ_migrations`.
///
/// Only a [`StockCounter`](crate::StockCounter) needs them: for order ids, and for units that are not in a table of the
/// application's own.
///
/// ```
/// # #[cfg(feature = "sqlite")]
/// # async fn apply(pool: &sqlx::Pool<sqlx::Sqlite>) -> Result<(), leastlock_core::MigrationError> {
/// leastlock_occ::MIGRATIONS.run(pool).await?;
/// leastlock_occ::MIGRATIONS.validate(pool).await
/// # }
/// ```
pub const MIGRATIONS: Migrations = Migrations {
    table: "leastlock_occ_migrations",
    postgres: &[Migration { version: 1, name: "order", sql: include_str!("../migrations/postgres/0001_order.sql") }],
    sqlite: &[Migration { version: 1, name: "order", sql: include_str!("../migrations/sqlite/0001_order.sql") }],
    mysql: &[Migration { version: 1, name: "order", sql: include_str!("../migrations/mysql/0001_order.sql") }],
};
