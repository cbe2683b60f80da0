//! The replication slot: making and dropping it, and how it is.

use std::time::Duration;

use leastlock_core::{Row, Statement};
use sqlx::{AssertSqlSafe, PgConnection, Postgres};

use crate::error::Error;
use crate::wal::error::WalError;
use crate::wal::lsn::Lsn;
use crate::wal::name::SlotName;

const STATE: &str = include_str!("../../sql/postgres/wal/state.sql");
/// The checks are those of the tables' function, and may be there already.
const FUNCTIONS: [&str; 2] =
    [include_str!("../../migrations/postgres/0008_check.sql"), include_str!("../../sql/postgres/wal/functions.sql")];
const CREATE_SLOT: &str = include_str!("../../sql/postgres/wal/create_slot.sql");
const DROP_SLOT: &str = include_str!("../../sql/postgres/wal/drop_slot.sql");

/// Whether the server still has the log that a slot needs (`pg_replication_slots.wal_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalStatus {
    /// The log that it needs is within `max_wal_size`.
    Reserved,
    /// The log is longer than that, and kept for the slot.
    Extended,
    /// The log is longer than `max_slot_wal_keep_size`. The next checkpoint removes what the slot needs, unless the
    /// relay catches up before.
    Unreserved,
    /// Log that it needs has been removed: unpublished events are lost.
    Lost,
}

/// How a slot is, and how far it is behind.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalLag {
    /// Whether the server still has the log that the slot needs.
    pub status: WalStatus,
    /// Bytes of log behind the last position that a relay noted. It holds the writes of every database of the cluster,
    /// so it is no number of events; it grows while no relay runs.
    pub unpublished_bytes: u64,
    /// Bytes of log that the server keeps for the slot. More than the above while a transaction is open that began
    /// before: the slot needs the log from the oldest open transaction's beginning on, and each read decodes it from
    /// there.
    pub retained_bytes: u64,
    /// Bytes of log that may still be written before the slot can be lost; `None` if there is no limit, and disk space
    /// is the limit.
    pub safe_bytes: Option<u64>,
    /// The limit `max_slot_wal_keep_size`, in bytes, if there is one.
    pub keep_limit_bytes: Option<u64>,
    /// The limit `idle_replication_slot_timeout` (PostgreSQL 18), if there is one.
    pub idle_limit: Option<Duration>,
    /// Whether a relay has the slot.
    pub has_relay: bool,
    /// The age of the oldest open transaction of the cluster that has written.
    pub oldest_writer: Option<Duration>,
}

/// How a slot can do harm, or come to harm.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Danger {
    /// There is no `max_slot_wal_keep_size`: while no relay runs the log grows until the disk is full, and then the
    /// whole server stops.
    DiskMayFill,
    /// There is one: if no relay catches up before so many bytes are written, events are lost.
    EventsMayBeLost {
        /// Bytes of log that may still be written.
        after_bytes: u64,
    },
    /// The slot is lost at the next checkpoint, unless the relay catches up before.
    AboutToBeLost,
    /// It is lost, and with it every event that was not published.
    Lost,
    /// If no relay runs for so long, events are lost (`idle_replication_slot_timeout`).
    LostWhenIdle {
        /// The setting.
        after: Duration,
    },
    /// A transaction has been open for so long; the log from its beginning on is kept and read again at each read.
    OldTransaction {
        /// Its age.
        age: Duration,
    },
}

/// A transaction that is open for longer makes each read noticeably dearer.
const OLD_TRANSACTION: Duration = Duration::from_mins(10);

impl WalLag {
    /// What to look after: either the disk can fill or events can be lost, whatever the settings. Watch
    /// `unpublished_bytes`.
    #[must_use]
    pub fn dangers(&self) -> Vec<Danger> {
        let limit = match (self.status, self.safe_bytes) {
            (WalStatus::Lost, _) => Danger::Lost,
            (WalStatus::Unreserved, _) => Danger::AboutToBeLost,
            (_, Some(after_bytes)) => Danger::EventsMayBeLost { after_bytes },
            (_, None) => Danger::DiskMayFill,
        };
        let idle = self.idle_limit.map(|after| Danger::LostWhenIdle { after });
        let old = self.oldest_writer.filter(|&age| age > OLD_TRANSACTION).map(|age| Danger::OldTransaction { age });
        [Some(limit), idle, old].into_iter().flatten().collect()
    }
}

/// What the server says of a slot.
#[derive(Debug)]
pub(super) struct State {
    wal_level: String,
    plugin: Option<String>,
    exists: bool,
    ours: bool,
    status: Option<String>,
    pub(super) confirmed: Option<Lsn>,
    has_publication: bool,
    taken: i64,
    limit: i64,
    lag: WalLag,
}

impl State {
    pub(super) async fn read(connection: &mut PgConnection, name: &SlotName) -> Result<Self, Error> {
        let row = Statement::new(STATE).bind(name.as_str()).fetch_one::<Postgres>(connection).await;
        row.and_then(|row| Self::of(&row)).map_err(Error::database::<Postgres>)
    }

    fn of(row: &Row<Postgres>) -> Result<Self, sqlx::Error> {
        let bytes = |index| row.optional_int(index).map(|bytes| bytes.and_then(|bytes| u64::try_from(bytes).ok()));
        let status = row.optional_text(4)?;
        let oldest: Option<f64> = row.value(13)?;
        let lag = WalLag {
            status: match status.as_deref() {
                Some("reserved") => WalStatus::Reserved,
                Some("extended") => WalStatus::Extended,
                Some("unreserved") => WalStatus::Unreserved,
                _ => WalStatus::Lost,
            },
            unpublished_bytes: bytes(6)?.unwrap_or(0),
            retained_bytes: bytes(7)?.unwrap_or(0),
            // Below zero once the limit is passed.
            safe_bytes: row.optional_int(8)?.map(|bytes| u64::try_from(bytes).unwrap_or(0)),
            keep_limit_bytes: bytes(9)?,
            idle_limit: bytes(10)?.filter(|&seconds| seconds > 0).map(Duration::from_secs),
            has_relay: row.value(12)?,
            oldest_writer: oldest.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        };
        Ok(Self {
            wal_level: row.text(0)?,
            exists: row.value(1)?,
            plugin: row.optional_text(2)?,
            ours: row.value::<Option<bool>>(3)?.unwrap_or(false),
            status,
            confirmed: row.optional_text(5)?.as_deref().and_then(Lsn::parse),
            has_publication: row.value(11)?,
            taken: row.int(14)?,
            limit: row.int(15)?,
            lag,
        })
    }

    /// The slot's position, if it can be read.
    pub(super) fn check(&self, name: &SlotName) -> Result<Lsn, WalError> {
        let slot = name.as_str().to_owned();
        if !self.exists {
            return Err(WalError::Missing { slot });
        }
        if !self.ours {
            return Err(WalError::Foreign { slot, plugin: self.plugin.clone().unwrap_or_default() });
        }
        if !self.has_publication {
            return Err(WalError::Publication { publication: slot });
        }
        match (self.lag.status, self.confirmed) {
            (WalStatus::Lost, _) | (_, None) => {
                Err(WalError::Lost { slot, reason: self.status.clone().unwrap_or_else(|| "no status".to_owned()) })
            }
            (_, Some(confirmed)) => Ok(confirmed),
        }
    }

    pub(super) fn lag(self, name: &SlotName) -> Result<WalLag, WalError> {
        match self.check(name) {
            Ok(_) | Err(WalError::Lost { .. }) => Ok(self.lag),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_about_to_be_lost(&self) -> bool {
        self.lag.status == WalStatus::Unreserved
    }
}

/// Makes the functions, the publication and the slot, as far as they are not there.
pub(super) async fn setup(connection: &mut PgConnection, name: &SlotName) -> Result<(), Error> {
    let database = Error::database::<Postgres>;
    let state = State::read(connection, name).await?;
    if state.wal_level != "logical" {
        return Err(WalError::WalLevel { found: state.wal_level }.into());
    }
    // Concurrent replacements of a function fail, and there is nothing to be gained from them.
    for functions in FUNCTIONS {
        sqlx::raw_sql(functions).execute(&mut *connection).await.map_err(database)?;
    }
    if !state.exists {
        if state.taken >= state.limit {
            return Err(WalError::NoSlotLeft { limit: state.limit }.into());
        }
        // First the publication: the slot sees the catalogue as it was at each change.
        if !state.has_publication {
            let create = AssertSqlSafe(name.create_publication());
            sqlx::raw_sql(create).execute(&mut *connection).await.map_err(database)?;
        }
        let create = Statement::new(CREATE_SLOT).bind(name.as_str());
        create.fetch_one::<Postgres>(&mut *connection).await.map_err(database)?;
    }
    State::read(connection, name).await?.check(name)?;
    Ok(())
}

/// Drops the slot and the publication.
pub(super) async fn teardown(connection: &mut PgConnection, name: &SlotName) -> Result<(), Error> {
    let drop = Statement::new(DROP_SLOT).bind(name.as_str());
    drop.fetch_optional::<Postgres>(connection).await.map_err(|error| refused(error, name))?;
    let drop = AssertSqlSafe(name.drop_publication());
    sqlx::raw_sql(drop).execute(&mut *connection).await.map_err(Error::database::<Postgres>)?;
    Ok(())
}

/// What an error of a function that needs the slot means.
pub(super) fn refused(error: sqlx::Error, name: &SlotName) -> Error {
    /// `object_in_use` (PostgreSQL's manual, Appendix A).
    const IN_USE: &str = "55006";
    match &error {
        sqlx::Error::Database(inner) if inner.code().as_deref() == Some(IN_USE) => {
            WalError::Busy { slot: name.as_str().to_owned() }.into()
        }
        _ => Error::database::<Postgres>(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lag(status: WalStatus, safe_bytes: Option<u64>) -> WalLag {
        WalLag {
            status,
            unpublished_bytes: 0,
            retained_bytes: 0,
            safe_bytes,
            keep_limit_bytes: None,
            idle_limit: None,
            has_relay: false,
            oldest_writer: None,
        }
    }

    #[test]
    fn every_setting_has_its_danger() {
        assert_eq!(lag(WalStatus::Reserved, None).dangers(), [Danger::DiskMayFill]);
        assert_eq!(lag(WalStatus::Extended, Some(7)).dangers(), [Danger::EventsMayBeLost { after_bytes: 7 }]);
        assert_eq!(lag(WalStatus::Unreserved, Some(0)).dangers(), [Danger::AboutToBeLost]);
        assert_eq!(lag(WalStatus::Lost, None).dangers(), [Danger::Lost]);
        let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
        let more = WalLag { idle_limit: Some(day), oldest_writer: Some(hour), ..lag(WalStatus::Reserved, None) };
        let idle = Danger::LostWhenIdle { after: day };
        assert_eq!(more.dangers(), [Danger::DiskMayFill, idle, Danger::OldTransaction { age: hour }]);
    }

    fn state(exists: bool, ours: bool, status: Option<&str>, confirmed: Option<Lsn>) -> State {
        let lost = matches!(status, None | Some("lost"));
        State {
            wal_level: "logical".into(),
            plugin: Some("pgoutput".into()),
            exists,
            ours,
            status: status.map(str::to_owned),
            confirmed,
            has_publication: true,
            taken: 1,
            limit: 10,
            lag: lag(if lost { WalStatus::Lost } else { WalStatus::Reserved }, None),
        }
    }

    #[test]
    fn a_slot_that_cannot_be_read_is_told_apart_and_no_retry_helps() {
        let name = SlotName::new("shop").unwrap();
        let slot = || "shop".to_owned();
        let checked = |state: State| state.check(&name);
        assert_eq!(checked(state(true, true, Some("reserved"), Some(Lsn(7)))), Ok(Lsn(7)));
        assert_eq!(checked(state(false, false, None, None)), Err(WalError::Missing { slot: slot() }));
        let foreign = WalError::Foreign { slot: slot(), plugin: "pgoutput".into() };
        assert_eq!(checked(state(true, false, Some("reserved"), Some(Lsn(7)))), Err(foreign));
        let lost = WalError::Lost { slot: slot(), reason: "lost".into() };
        assert_eq!(checked(state(true, true, Some("lost"), Some(Lsn(7)))), Err(lost.clone()));
        assert!(!lost.is_retryable());
        let no_publication = State { has_publication: false, ..state(true, true, Some("reserved"), Some(Lsn(7))) };
        assert_eq!(checked(no_publication), Err(WalError::Publication { publication: slot() }));
    }
}
