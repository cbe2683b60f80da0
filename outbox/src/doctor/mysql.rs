//! What is looked over on MariaDB and MySQL.

use std::time::Duration;

use leastlock_core::{Row, Statement};
use sqlx::MySql;

use super::{DoctorSql, Finding, Severity};

const DOCTOR: &str = include_str!("../../sql/mysql/doctor.sql");
const CONNECTIONS: &str = include_str!("../../sql/mysql/doctor_connections.sql");
const TRANSACTIONS: &str = include_str!("../../sql/mysql/doctor_transactions.sql");

/// A transaction that is older keeps deleted rows from being purged for long enough to be felt by each poll.
const LONG: Duration = Duration::from_mins(5);
/// An event of the largest size that is taken by default, with its statement around it.
const PACKET: i64 = 2 << 20;

impl DoctorSql for MySql {
    async fn examine(connection: &mut Self::Connection) -> Result<Vec<Finding>, sqlx::Error> {
        let row = Statement::new(DOCTOR).fetch_one::<Self>(&mut *connection).await?;
        let mut findings = Vec::new();
        durability(&row, &mut findings)?;
        if row.int(5)? != 1 {
            let says = "auto_increment_increment is not 1, as where several servers are written to: ids of one do not follow \
                        the locks of another, and the events of a key may be turned round";
            let advice = "Write to one server, or see to it that each key is written to on one.";
            findings.push(Finding::new(Severity::Danger, "writing servers", says, advice));
        }
        if row.int(7)? < PACKET {
            let says = format!("max_allowed_packet is {}: larger events fail", row.int(7)?);
            findings.push(Finding::new(
                Severity::Advice,
                "packet",
                says,
                "Raise max_allowed_packet, or lower max_event_bytes.",
            ));
        }
        if row.int(8)? == 0 {
            let says = "no shard is held, so nothing is published";
            findings.push(Finding::new(Severity::Warning, "relays", says, "Run a relay."));
        }
        let used = Statement::new(CONNECTIONS).fetch_optional::<Self>(&mut *connection).await?;
        let used = used.and_then(|row| row.text(1).ok()?.parse::<i64>().ok()).unwrap_or_default();
        let room = row.int(6)?;
        if used * 10 > room * 9 {
            let says = format!("{used} of the server's {room} are used");
            findings.push(Finding::new(
                Severity::Warning,
                "connections",
                says,
                "Use smaller pools, or a proxy for all but the relays: their sessions must be their own.",
            ));
        }
        findings.extend(long_transaction(connection).await);
        Ok(findings)
    }
}

fn durability(row: &Row<MySql>, findings: &mut Vec<Finding>) -> Result<(), sqlx::Error> {
    let mut danger = |about, says: &str, advice| findings.push(Finding::new(Severity::Danger, about, says, advice));
    if row.int(0)? != 1 {
        danger(
            "durability",
            "innodb_flush_log_at_trx_commit is not 1: an event can be published whose transaction is gone after a crash",
            "Set it to 1.",
        );
    }
    if matches!(row.text(1)?.as_str(), "0" | "OFF" | "DETECT_ONLY") {
        danger("durability", "innodb_doublewrite is off: a crash can tear pages", "Turn innodb_doublewrite on.");
    }
    if row.int(4)? != 0 {
        danger("replica", "the server is read-only: nothing can be appended or noted there", "Connect to the primary.");
    }
    if row.int(2)? != 0 && row.int(3)? != 1 {
        let says = "sync_binlog is not 1: after a crash a replica may lack, or have more than, what was published";
        findings.push(Finding::new(Severity::Warning, "replica", says, "Set sync_binlog to 1."));
    }
    Ok(())
}

/// Nothing where it is not shown.
async fn long_transaction(connection: &mut sqlx::MySqlConnection) -> Option<Finding> {
    let row = Statement::new(TRANSACTIONS).fetch_optional::<MySql>(connection).await.ok()??;
    let age = row.optional_int(0).ok()??;
    let age = Duration::from_millis(u64::try_from(age).unwrap_or_default());
    let says = format!("one is open for {} s", age.as_secs());
    let advice = "End it: until then nothing that was deleted since is purged, and each poll has to pass over it.";
    (age > LONG).then(|| Finding::new(Severity::Warning, "long transaction", says, advice))
}
