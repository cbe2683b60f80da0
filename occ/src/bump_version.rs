//! A trigger that raises the version in raw SQL, which the library cannot see.
//!
//! A writer that does not take part leaves the version as it is, and the values that others have loaded then overwrite
//! its work without a conflict. Where such writers cannot be ruled out, this trigger makes every `UPDATE` raise it. Updates
//! of this library, and others that raise the version themselves, are left alone: the trigger fires where the version is unchanged.
//!
//! Each text is a template for the application's migrations: [`bump_version_trigger`] answers it with `{table}` and `{version}`
//! where the names go.
//!
//! | engine | what to know |
//! |---|---|
//! | PostgreSQL | `BEFORE UPDATE`, one function for each name of version column |
//! | SQLite | `AFTER UPDATE` with an update of its own, not for `WITHOUT ROWID` tables; `RETURNING` shows the row from before it |
//! | MySQL, MariaDB | `BEFORE UPDATE`; not fired by what a foreign key cascades |
//!
//! A NULL version stays NULL. With the trigger, what
//! [`update_many_keeping_versions`](crate::bulk::update_many_keeping_versions) keeps is raised as well, so its values answer a version that is
//! no longer current: a later update of them is a conflict, never a lost one.

use leastlock_core::Engine;

/// The template of an engine.
///
/// ```
/// use leastlock_core::Engine;
/// use leastlock_occ::bump_version::bump_version_trigger;
///
/// let migration = bump_version_trigger(Engine::Sqlite).replace("{table}", "account").replace("{version}", "version");
/// assert!(migration.contains("AFTER UPDATE ON account"));
/// ```
#[must_use]
pub const fn bump_version_trigger(engine: Engine) -> &'static str {
    match engine {
        Engine::Sqlite => include_str!("../sql/sqlite/bump_version_trigger.sql"),
        Engine::MySql => include_str!("../sql/mysql/bump_version_trigger.sql"),
        _ => include_str!("../sql/postgres/bump_version_trigger.sql"),
    }
}
