//! A record as it stands in the database.

use std::time::Duration;

use leastlock_core::{Row, Statement};

use crate::error::Error;
use crate::key::Key;
use crate::phased::log::Log;
use crate::phased::settings::Phased;
use crate::phased::sql::PhasedSql;
use crate::response::ResponseParts;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// An owner works on it, or did until its lease was over.
    Running,
    /// What became of it is unknown; an operator or a reconciler resolves it.
    Held,
    Completed,
    /// A claim of the transactional mode that was committed without an answer.
    Unanswered,
}

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) state: State,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) generation: i64,
    pub(crate) owner: Option<Vec<u8>>,
    /// How long the lease still stands, by the database's clock.
    pub(crate) lease_left: Option<Duration>,
    pub(crate) steps: Option<Vec<u8>>,
    pub(crate) response: ResponseParts,
    pub(crate) expired: bool,
    pub(crate) hold_reason: Option<String>,
    /// How long steps may still start, if the request expires.
    pub(crate) start_left: Option<Duration>,
    /// How long it has been held, or its lease over.
    pub(crate) unknown_for: Duration,
    /// How often its steps were written.
    pub(crate) step_seq: i64,
}

impl Record {
    pub(crate) async fn read<DB: PhasedSql>(
        connection: &mut DB::Connection,
        key: &Key,
    ) -> Result<Option<Self>, sqlx::Error> {
        let record = Statement::new(DB::RECORD).bind(key.scope().as_str()).bind(key.as_str());
        record.fetch_optional::<DB>(connection).await?.map(|row| Self::of(&row)).transpose()
    }

    pub(crate) fn of<DB: PhasedSql>(row: &Row<DB>) -> Result<Self, sqlx::Error> {
        let left = |index| row.optional_int(index).map(|left| left.map(duration));
        Ok(Self {
            state: match row.text(0)?.as_str() {
                "running" => State::Running,
                "held" => State::Held,
                "completed" => State::Completed,
                _ => State::Unanswered,
            },
            fingerprint: row.bytes(1)?,
            generation: row.int(2)?,
            owner: row.optional_bytes(3)?,
            lease_left: left(4)?,
            steps: row.optional_bytes(5)?,
            response: ResponseParts::read(row, 6)?,
            expired: row.int(9)? != 0,
            hold_reason: row.optional_text(10)?,
            start_left: left(11)?,
            unknown_for: left(12)?.unwrap_or_default(),
            step_seq: row.int(13)?,
        })
    }

    pub(crate) fn lease_is_over(&self) -> bool {
        self.lease_left.unwrap_or_default().is_zero()
    }
}

impl Phased {
    /// The steps as they are stored.
    pub(crate) fn encode_steps(&self, key: &Key, log: &Log) -> Result<Vec<u8>, Error> {
        let steps = log.encode(self.max_step_bytes).map_err(|source| Error::Step { source })?;
        self.sealing.seal_column(key, "step_data", steps)
    }

    /// The steps as they were before they were stored; none if the record has none.
    pub(crate) fn decode_steps(&self, key: &Key, stored: Option<&[u8]>) -> Result<Log, Error> {
        let steps = stored.map(|stored| self.sealing.open_column(key, "step_data", stored.to_vec())).transpose()?;
        Log::decode(steps.as_deref()).map_err(|source| Error::Step { source })
    }
}

/// From milliseconds; what is past is zero.
fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Whole milliseconds, as the statements take them.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
