//! What is looked over on SQLite.

use leastlock_core::Statement;
use sqlx::Sqlite;

use super::{DoctorSql, Finding, Severity};

const DOCTOR: &str = include_str!("../../sql/sqlite/doctor.sql");

/// `PRAGMA synchronous`: from here on a commit is on the disk when it answers, in every journal mode.
const FULL: i64 = 2;
/// `PRAGMA synchronous`: nothing is waited for.
const OFF: i64 = 0;
/// Milliseconds that a writer should wait for the write lock at least.
const PATIENT: i64 = 1_000;

impl DoctorSql for Sqlite {
    async fn examine(connection: &mut Self::Connection) -> Result<Vec<Finding>, sqlx::Error> {
        let row = Statement::new(DOCTOR).fetch_one::<Self>(connection).await?;
        let mut findings = Vec::new();
        let mut found =
            |severity, about, says: &str, advice| findings.push(Finding::new(severity, about, says, advice));
        if row.text(0)? != "wal" {
            let says = "it is not in WAL mode: a reader, such as a relay, blocks writers";
            found(Severity::Advice, "journal", says, "Set journal_mode to WAL.");
        }
        match row.int(1)? {
            OFF => found(
                Severity::Danger,
                "durability",
                "synchronous is OFF: a crash of the machine can destroy the file",
                "Set synchronous to FULL.",
            ),
            level if level < FULL => found(
                Severity::Warning,
                "durability",
                "synchronous is NORMAL: after a power failure an event may have been published whose transaction is gone",
                "Set synchronous to FULL where events are appended, or let consumers bear it.",
            ),
            _ => {}
        }
        if row.int(2)? < PATIENT {
            let says = "busy_timeout is below a second: writers fail where they could wait their turn";
            found(Severity::Advice, "connections", says, "Raise busy_timeout above the longest transaction.");
        }
        if row.int(3)? == 0 {
            found(Severity::Warning, "relays", "the shard is not held, so nothing is published", "Run a relay.");
        }
        Ok(findings)
    }
}
