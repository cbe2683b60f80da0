//! What is looked over on PostgreSQL.

use std::time::Duration;

use leastlock_core::{Row, Statement};
use sqlx::Postgres;

use super::{DoctorSql, Finding, Severity};

const DOCTOR: &str = include_str!("../../sql/postgres/doctor.sql");

/// A transaction that is older keeps dead rows from being vacuumed for long enough to be felt.
const LONG: Duration = Duration::from_mins(5);
/// Dead rows that are no trouble, however few live ones there are.
const FEW_DEAD: i64 = 100_000;

impl DoctorSql for Postgres {
    async fn examine(connection: &mut Self::Connection) -> Result<Vec<Finding>, sqlx::Error> {
        let row = Statement::new(DOCTOR).fetch_one::<Self>(connection).await?;
        let mut findings = Vec::new();
        durability(&row, &mut findings)?;
        vacuum(&row, &mut findings)?;
        let (room, used) = (row.int(12)?, row.int(13)?);
        if used * 10 > room * 9 {
            let says = format!("{used} of the server's {room} are used");
            findings.push(Finding::new(
                Severity::Warning,
                "connections",
                says,
                "Use smaller pools, or a pooler for all but the relays: their sessions must be their own.",
            ));
        }
        if row.int(14)? == 0 {
            let says = "no shard is held, so nothing is published";
            findings.push(Finding::new(Severity::Warning, "relays", says, "Run a relay."));
        }
        if row.int(15)? > 0 {
            let says = "shards wait until the ones that they replace are published";
            findings.push(Finding::new(Severity::Advice, "relays", says, "Let relays run, and see to what is parked."));
        }
        Ok(findings)
    }
}

fn durability(row: &Row<Postgres>, findings: &mut Vec<Finding>) -> Result<(), sqlx::Error> {
    let mut danger = |says: &str, advice| findings.push(Finding::new(Severity::Danger, "durability", says, advice));
    if row.text(0)? == "off" {
        danger("fsync is off: a crash of the machine can destroy the database", "Turn fsync on.");
    }
    if row.text(1)? == "off" {
        danger("full_page_writes is off: a crash can tear pages", "Turn full_page_writes on.");
    }
    let (commit, standbys) = (row.text(2)?, row.text(3)?);
    if commit == "off" {
        danger(
            "synchronous_commit is off: an event can be published whose transaction is gone after a crash",
            "Set it to on where events are appended.",
        );
    }
    if row.int(4)? == 1 {
        let says = "the server is a replica: nothing can be appended or noted there";
        findings.push(Finding::new(Severity::Danger, "replica", says, "Connect to the primary."));
    } else if row.int(5)? > 0 && (standbys.is_empty() || commit == "local") {
        let says = "commits do not wait for a standby: after a failover an event may have been published whose transaction is gone";
        let advice = "Name standbys in synchronous_standby_names, or let consumers bear it.";
        findings.push(Finding::new(Severity::Warning, "replica", says, advice));
    }
    Ok(())
}

fn vacuum(row: &Row<Postgres>, findings: &mut Vec<Finding>) -> Result<(), sqlx::Error> {
    let mut warn = |about, says: String, advice| findings.push(Finding::new(Severity::Warning, about, says, advice));
    if row.text(6)? == "off" || row.text(7)?.contains("autovacuum_enabled=false") {
        warn("autovacuum", "it is off for the log, whose deleted rows stay".into(), "Turn autovacuum on.");
    }
    for (column, kind) in [(8, "open"), (9, "prepared")] {
        let age = row.optional_int(column)?.and_then(|age| u64::try_from(age).ok()).map(Duration::from_millis);
        if let Some(age) = age.filter(|age| *age > LONG) {
            let says = format!("one is {kind} for {} s", age.as_secs());
            let advice =
                "End it: until then nothing that was deleted since is vacuumed, and if it appended, its events wait.";
            warn("long transaction", says, advice);
        }
    }
    let (live, dead) = (row.int(10)?, row.int(11)?);
    if dead > FEW_DEAD.max(live) {
        let says = format!("the log has {dead} dead rows beside {live} live ones");
        let advice = "Let autovacuum work more on leastlock_outbox (autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_limit).";
        warn("autovacuum", says, advice);
    }
    Ok(())
}
