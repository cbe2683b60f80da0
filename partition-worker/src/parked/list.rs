//! What is listed of parked keys, and of what operators did.

use std::time::Duration;

use leastlock_core::Row;

use super::parking::{Copied, copied};
use super::queue::Queue;
use super::sql::ParkedSql;
use crate::on_failure::Cause;
use crate::partition::TopicPartition;

/// Which queue of which partition: how a parked key is named to [`Parked`](super::Parked), and where a list goes on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The partition.
    pub partition: TopicPartition,
    /// The queue.
    pub queue: Queue,
}

/// A parked key, or a record that is parked alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedKey {
    /// Where it stands in the list, and how it is named.
    pub place: Place,
    /// The key; `None` is Kafka's null key.
    pub key: Option<Vec<u8>>,
    /// Whether later records of the key follow. Not so for a record that is parked alone.
    pub blocks: bool,
    /// The topic that the records stand in.
    pub parking_topic: String,
    /// Whether it has been released, and its records are being handled.
    pub under_way: bool,
    /// Why the first record was parked.
    pub cause: Cause,
    /// What the handler said last.
    pub reason: String,
    /// How long it has been parked, by the database's clock.
    pub parked_for: Duration,
    /// How many records stand in the queue: the one that failed, and those that followed.
    pub records: u64,
    /// The offset of the first of them, in the original partition.
    pub first_offset: Option<i64>,
}

impl ParkedKey {
    pub(super) fn from_row<DB: ParkedSql>(row: &Row<DB>) -> Result<Self, sqlx::Error> {
        let unknown = || sqlx::Error::Decode("an unknown cause of parked records".into());
        Ok(Self {
            place: Place {
                partition: TopicPartition::new(row.text(0)?, number(row.int(1)?)?),
                queue: Queue::read(&row.text(2)?)?,
            },
            key: row.optional_bytes(3)?,
            blocks: row.int(4)? != 0,
            parking_topic: row.text(5)?,
            under_way: row.int(6)? != 0,
            cause: Cause::parse(&row.text(7)?).ok_or_else(unknown)?,
            reason: row.text(8)?,
            parked_for: since(row.int(9)?),
            records: row.int(10)?.unsigned_abs(),
            first_offset: row.optional_int(11)?,
        })
    }
}

/// A parked record: where it came from, and where its copy stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedRecord {
    /// The places of the record and its copy.
    pub copy: Copied,
    /// How long it has been parked, by the database's clock.
    pub parked_for: Duration,
}

impl ParkedRecord {
    pub(super) fn from_row<DB: ParkedSql>(row: &Row<DB>) -> Result<Self, sqlx::Error> {
        Ok(Self { copy: copied(row)?, parked_for: since(row.int(4)?) })
    }
}

/// What an operator did: a row of the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Action {
    /// The row's number; later ones are higher.
    pub id: i64,
    /// How long ago, by the database's clock.
    pub ago: Duration,
    /// Who.
    pub actor: String,
    /// What: `release` or `discard`.
    pub action: String,
    /// Why.
    pub reason: String,
    /// The partition.
    pub partition: TopicPartition,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The offset of the record, if the request was for one.
    pub offset: Option<i64>,
    /// How many records were given up; for a release, 0.
    pub records: u64,
}

impl Action {
    pub(super) fn from_row<DB: ParkedSql>(row: &Row<DB>) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.int(0)?,
            ago: since(row.int(1)?),
            actor: row.text(2)?,
            action: row.text(3)?,
            reason: row.text(4)?,
            partition: TopicPartition::new(row.text(5)?, number(row.int(6)?)?),
            key: row.optional_bytes(7)?,
            offset: row.optional_int(8)?,
            records: row.int(9)?.unsigned_abs(),
        })
    }
}

fn number(partition: i64) -> Result<i32, sqlx::Error> {
    i32::try_from(partition).map_err(|error| sqlx::Error::Decode(error.into()))
}

/// A time below zero is a database clock that was stepped back.
fn since(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
