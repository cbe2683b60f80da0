//! What a combiner asks of an engine.

use std::time::Duration;

use leastlock_core::Dialect;
use sqlx::SqlStr;

/// An SQL engine on which batches are applied. Sealed by [`Dialect`]: implemented for `sqlx::Postgres`, `sqlx::Sqlite` and
/// `sqlx::MySql`, each behind the feature of its name.
///
/// # Contract
/// - [`begin`](Self::begin) opens a transaction as [`Dialect::BEGIN_WRITE`] does, in one round trip, and limits its waits
///   where the engine can. Where it can do so for a connection only, [`on_connection`](Self::on_connection) does.
/// - What [`TRANSACTION`](Self::TRANSACTION) answers names the transaction for [`FATE`](Self::FATE) from any connection,
///   until long after it has ended.
pub trait CombinerSql: Dialect {
    /// → the name of the open transaction, NULL if it has none as yet. `None` where the engine does not tell.
    const TRANSACTION: Option<&'static str>;
    /// name → `committed`, `aborted`, `in progress` or NULL (no longer known). `None` where the engine does not tell.
    const FATE: Option<&'static str>;

    /// → the bounds in force on the connection, of waits for locks and of idling, in milliseconds; zero is none. `None` where a
    /// transaction has no bounds of its own.
    const OWN_BOUNDS: Option<&'static str>;

    /// The statement that begins a batch's transaction. A wait for one lock ends after `lock_wait`; a transaction of a process that
    /// has stopped ends after `idle`; `None` leaves the connection's own bound. Where waits are bounded by connection, that
    /// bound stays until another is given, and is never more than [`on_connection`](Self::on_connection) has set.
    fn begin(lock_wait: Option<Duration>, idle: Option<Duration>) -> SqlStr;

    /// What sets the same bounds on a connection, unless its own are stricter, and what gives it back its own; put together
    /// once a combiner. What a statement without a transaction waits for is bounded by this only. `None` where there are no
    /// such bounds.
    fn on_connection(lock_wait: Duration, idle: Duration) -> Option<[SqlStr; 2]>;
}

#[cfg(feature = "postgres")]
impl CombinerSql for sqlx::Postgres {
    const TRANSACTION: Option<&'static str> = Some(include_str!("../../sql/postgres/transaction.sql"));
    const FATE: Option<&'static str> = Some(include_str!("../../sql/postgres/fate.sql"));
    const OWN_BOUNDS: Option<&'static str> = Some(include_str!("../../sql/postgres/own_bounds.sql"));

    fn begin(lock_wait: Option<Duration>, idle: Option<Duration>) -> SqlStr {
        use sqlx::SqlSafeStr;

        let set = |name: &str, limit: Duration| format!("; SET LOCAL {name} = {}", limit.as_millis());
        let lock_wait = lock_wait.map_or_else(String::new, |limit| set("lock_timeout", limit));
        let idle = idle.map_or_else(String::new, |limit| set("idle_in_transaction_session_timeout", limit));
        // Besides constants there are integers only.
        let begin = format!("{}{lock_wait}{idle}", Self::BEGIN_WRITE);
        sqlx::AssertSqlSafe(std::sync::Arc::<str>::from(begin)).into_sql_str()
    }

    /// Idling is bounded by transaction: there is none without one.
    fn on_connection(lock_wait: Duration, _idle: Duration) -> Option<[SqlStr; 2]> {
        use sqlx::SqlSafeStr;

        const BOUND: &str = include_str!("../../sql/postgres/bound_connection.sql");
        const RELEASE: &str = include_str!("../../sql/postgres/release_connection.sql");
        // Besides constants there is an integer only.
        let bound = BOUND.replace("{lock_wait_ms}", &lock_wait.as_millis().to_string());
        let bound = sqlx::AssertSqlSafe(std::sync::Arc::<str>::from(bound)).into_sql_str();
        Some([bound, SqlStr::from_static(RELEASE)])
    }
}

#[cfg(feature = "sqlite")]
impl CombinerSql for sqlx::Sqlite {
    const TRANSACTION: Option<&'static str> = None;
    const FATE: Option<&'static str> = None;
    const OWN_BOUNDS: Option<&'static str> = None;

    /// The wait for SQLite's one write lock is bounded by the connection's `busy_timeout`.
    fn begin(_lock_wait: Option<Duration>, _idle: Option<Duration>) -> SqlStr {
        SqlStr::from_static(Self::BEGIN_WRITE)
    }

    fn on_connection(_lock_wait: Duration, _idle: Duration) -> Option<[SqlStr; 2]> {
        None
    }
}

#[cfg(feature = "mysql")]
impl CombinerSql for sqlx::MySql {
    /// There is a number for a transaction (`information_schema.innodb_trx`), but nothing tells how one has ended.
    const TRANSACTION: Option<&'static str> = None;
    const FATE: Option<&'static str> = None;
    const OWN_BOUNDS: Option<&'static str> = None;

    /// Another wait is set for the connection, in the same round trip; less than a second is none (MariaDB).
    fn begin(lock_wait: Option<Duration>, _idle: Option<Duration>) -> SqlStr {
        use sqlx::SqlSafeStr;

        const SHARE: &str = include_str!("../../sql/mysql/share_wait.sql");
        let Some(share) = lock_wait else { return SqlStr::from_static(Self::BEGIN_WRITE) };
        // Besides constants there is an integer only.
        let begin = format!("{};\n{}", SHARE.replace("{share_s}", &share.as_secs().to_string()), Self::BEGIN_WRITE);
        sqlx::AssertSqlSafe(std::sync::Arc::<str>::from(begin)).into_sql_str()
    }

    /// The server counts whole seconds: up to one more than was asked for.
    fn on_connection(lock_wait: Duration, idle: Duration) -> Option<[SqlStr; 2]> {
        use sqlx::SqlSafeStr;

        const BOUND: &str = include_str!("../../sql/mysql/bound_connection.sql");
        const RELEASE: &str = include_str!("../../sql/mysql/release_connection.sql");
        let seconds = |limit: Duration| limit.as_millis().div_ceil(1_000).to_string();
        // Besides constants there are integers only.
        let bound = BOUND.replace("{lock_wait_s}", &seconds(lock_wait)).replace("{idle_s}", &seconds(idle));
        let bound = sqlx::AssertSqlSafe(std::sync::Arc::<str>::from(bound)).into_sql_str();
        Some([bound, SqlStr::from_static(RELEASE)])
    }
}
