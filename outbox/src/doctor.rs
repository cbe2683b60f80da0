//! Settings and states around an outbox that lose events, delay them, or will.

use std::fmt;
use std::future::Future;

use sqlx::Pool;

use crate::error::Error;
use crate::sql::OutboxSql;

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "kafka")]
pub use self::kafka::doctor_kafka;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works, and something will be slow or hard to see.
    Advice,
    /// Something is wrong now, or will be: events are late, or the log grows.
    Warning,
    /// An event can be lost, or be published though its transaction is gone.
    Danger,
}

/// Something that the doctor has found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: a fixed word, for alerts and tests.
    pub about: &'static str,
    /// What was found.
    pub says: String,
    /// What to do about it.
    pub advice: &'static str,
}

impl Finding {
    pub(crate) fn new(severity: Severity, about: &'static str, says: impl Into<String>, advice: &'static str) -> Self {
        Self { severity, about, says: says.into(), advice }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}, {}: {}. {}", self.severity, self.about, self.says, self.advice)
    }
}

/// An engine that can be looked over.
pub trait DoctorSql: OutboxSql {
    /// What is found on a connection of the pool.
    fn examine(connection: &mut Self::Connection) -> impl Future<Output = Result<Vec<Finding>, sqlx::Error>> + Send;
}

/// Looks over the database of an outbox, with the settings that the connections of `pool` have; the worst comes first. An empty answer
/// says that nothing of this was found:
///
/// | about | `PostgreSQL` | `SQLite` | MariaDB, `MySQL` |
/// |---|---|---|---|
/// | `durability` | `fsync`, `full_page_writes` or `synchronous_commit` off | `synchronous` below `FULL` | `innodb_flush_log_at_trx_commit` other than 1, `innodb_doublewrite` off |
/// | `replica` | the server is a replica; its standbys follow asynchronously | | the server only reads; `sync_binlog` other than 1 |
/// | `writing servers` | | | `auto_increment_increment` other than 1: several servers are written to |
/// | `long transaction` | one of more than five minutes, or one that is prepared: rows cannot be vacuumed, and their events wait if it appended | | one of more than five minutes: rows cannot be purged |
/// | `autovacuum` | off, or far behind on the log | | |
/// | `connections` | the pool has fewer than a relay needs; nearly all of the server's are used | the pool's `busy_timeout` is short | as `PostgreSQL` |
/// | `packet` | | | `max_allowed_packet` below 2 MiB |
/// | `journal` | | not in WAL mode | |
/// | `relays` | no shard is held: no relay runs; an unfinished raise | no relay runs | no relay runs |
///
/// Run it with the role of the application: other roles' sessions are seen by members of `pg_read_all_stats` only. For Kafka see
/// `doctor_kafka`.
///
/// # Errors
/// [`Error::Database`] as any statement.
///
/// # Cancel safety
/// It only reads.
pub async fn doctor<DB: DoctorSql>(pool: &Pool<DB>) -> Result<Vec<Finding>, Error> {
    let database = Error::database::<DB>;
    let mut connection = pool.acquire().await.map_err(database)?;
    let mut findings = DB::examine(&mut connection).await.map_err(database)?;
    let connections = pool.options().get_max_connections();
    if connections < DB::RELAY_CONNECTIONS {
        let says = format!("the pool can open {connections}, and a relay needs {}", DB::RELAY_CONNECTIONS);
        findings.push(Finding::new(Severity::Warning, "connections", says, "Raise max_connections of the pool."));
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}
