//! Parked records, as the owner of their partition sees them.

use std::fmt;
use std::sync::Arc;

use leastlock_core::{Row, Statement};
use sqlx::{Pool, Transaction};

use super::queue::Queue;
use super::sql::ParkedSql;
use super::state::State;
use crate::on_failure::{Cause, bounded};
use crate::partition::TopicPartition;

/// The parked records of a consumer group, as the owner of a partition sees them.
///
/// The worker uses this by itself. It stands here for consumers of another kind, and because what it promises can be tested without
/// Kafka.
///
/// # Contract
/// - Only the owner of a partition calls the functions that take a transaction, and only in one that holds the partition's guard row: one
///   that [`Progress`](crate::Progress) has let in or that [holds](crate::Progress::hold) it. So what [`queues`](Self::queues) answered
///   stays true until the owner changes it, but for queues that an operator has emptied; [`follow`](Self::follow) finds those out.
/// - A record is noted only once the broker has acknowledged its copy.
///
/// # Cancel safety
/// What takes a transaction decides nothing before that ends; the rest only reads.
#[derive(Debug)]
pub struct Parking<DB: ParkedSql> {
    pool: Pool<DB>,
    group: Arc<str>,
}

/// A queue that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub queue: Queue,
    /// Whether later records of its key follow. Not so for a record that is parked alone.
    pub blocks: bool,
    /// Where the copies stand.
    pub parking_topic: String,
}

/// A queue whose records are to be handled.
#[derive(Clone, PartialEq, Eq)]
pub struct Released {
    /// Its name.
    pub queue: Queue,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// Where the copies stand.
    pub parking_topic: String,
}

/// Without the key, which does not belong in a log.
impl fmt::Debug for Released {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Released").field("parking_topic", &self.parking_topic).finish_non_exhaustive()
    }
}

/// What is parked, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Park<'a> {
    /// The queue to make.
    pub queue: Queue,
    /// The record's key.
    pub key: Option<&'a [u8]>,
    /// Whether later records of the key follow.
    pub blocks: bool,
    /// Where the copies stand.
    pub parking_topic: &'a str,
    /// Why it is parked.
    pub cause: Cause,
    /// What the handler said; cut at 1,000 characters.
    pub reason: &'a str,
}

/// Where the copy of a record stands in the parking topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The record's own offset.
    pub offset: i64,
    /// The partition of the parking topic.
    pub parking_partition: i32,
    /// The copy's offset there.
    pub parking_offset: i64,
    /// How often the handler failed.
    pub attempts: u32,
}

/// Whether a released record may be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "only a record that is due may be handled"]
pub enum Due {
    /// It may, in this transaction; it leaves the queue with it.
    Now,
    /// It has left the queue: it was handled, or given up.
    Gone,
    /// The queue is not released.
    NotReleased,
}

impl<DB: ParkedSql> Parking<DB> {
    /// The parked records of `group`.
    #[must_use]
    pub fn new(pool: Pool<DB>, group: impl Into<Arc<str>>) -> Self {
        Self { pool, group: group.into() }
    }

    /// What of a partition is parked, at most `limit` queues.
    ///
    /// # Errors
    /// What the database said. Nothing bounds how long it may take to answer.
    pub async fn queues(&self, partition: &TopicPartition, limit: u32) -> Result<Vec<Standing>, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let queues = self.about(DB::PARK_QUEUES, partition).bind(i64::from(limit));
        let rows = queues.fetch_all::<DB>(&mut connection).await?;
        let standing = |row: &Row<DB>| {
            let queue = Queue::read(&row.text(0)?)?;
            Ok(Standing { queue, blocks: row.int(1)? != 0, parking_topic: row.text(2)? })
        };
        rows.iter().map(standing).collect()
    }

    /// The queues of a partition that operators have released.
    ///
    /// # Errors
    /// What the database said. Nothing bounds how long it may take to answer.
    pub async fn released(&self, partition: &TopicPartition) -> Result<Vec<Released>, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let rows = self.about(DB::PARK_ASKED, partition).fetch_all::<DB>(&mut connection).await?;
        let released = |row: &Row<DB>| {
            let queue = Queue::read(&row.text(0)?)?;
            Ok(Released { queue, key: row.optional_bytes(1)?, parking_topic: row.text(2)? })
        };
        rows.iter().map(released).collect()
    }

    /// The records of a queue behind offset `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// What the database said. Nothing bounds how long it may take to answer.
    pub async fn next(
        &self,
        partition: &TopicPartition,
        queue: Queue,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Copied>, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let name = queue.to_string();
        let next = self.about(DB::PARK_NEXT, partition).bind(&name).bind(after).bind(i64::from(limit));
        let rows = next.fetch_all::<DB>(&mut connection).await?;
        rows.iter().map(copied).collect()
    }

    /// Parks a record, and its key if that is to be: in the transaction that marks the record as finished.
    ///
    /// # Errors
    /// What the database said, a `UniqueViolation` where the queue or the record is there already. The transaction is of no use then.
    pub async fn park(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        park: &Park<'_>,
        copy: &Copied,
    ) -> Result<(), sqlx::Error> {
        let (name, reason) = (park.queue.to_string(), bounded(park.reason));
        let insert = self.about(DB::PARK_QUEUE, partition).bind(&name).bind(park.key).bind(i64::from(park.blocks));
        let insert = insert.bind(park.parking_topic).bind(park.cause.as_str()).bind(&reason);
        insert.execute::<DB>(tx).await?;
        self.note(tx, partition, &name, copy).await
    }

    /// Parks a record behind an earlier one of its key: in the transaction that marks the record as finished. `false`: the key is not
    /// parked any more. Roll back, and handle the record.
    ///
    /// # Errors
    /// What the database said. The transaction is of no use then.
    pub async fn follow(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        queue: Queue,
        copy: &Copied,
    ) -> Result<bool, sqlx::Error> {
        let name = queue.to_string();
        if self.lock(tx, partition, &name).await?.is_none() {
            return Ok(false);
        }
        self.note(tx, partition, &name, copy).await?;
        Ok(true)
    }

    /// Takes a record out of a released queue, in the transaction of its effect. Records of a queue are to be taken in order.
    ///
    /// # Errors
    /// What the database said. The transaction is of no use then.
    pub async fn take(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        queue: Queue,
        offset: i64,
    ) -> Result<Due, sqlx::Error> {
        let name = queue.to_string();
        match self.lock(tx, partition, &name).await? {
            None => return Ok(Due::Gone),
            Some(State::Parked) => return Ok(Due::NotReleased),
            Some(State::Releasing) => {}
        }
        let done = self.about(DB::PARK_DONE, partition).bind(&name).bind(offset);
        Ok(if done.execute::<DB>(tx).await? == 1 { Due::Now } else { Due::Gone })
    }

    /// Frees the key of a released queue, if all its records have left it; answers whether it is free.
    ///
    /// # Errors
    /// What the database said. The transaction is of no use then.
    pub async fn open(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        queue: Queue,
    ) -> Result<bool, sqlx::Error> {
        let name = queue.to_string();
        match self.lock(tx, partition, &name).await? {
            None => Ok(true),
            Some(State::Parked) => Ok(false),
            Some(State::Releasing) => {
                Ok(self.about(DB::PARK_OPEN, partition).bind(&name).execute::<DB>(tx).await? == 1)
            }
        }
    }

    /// Parks a released queue again, since its first record has failed for good once more, after so many attempts.
    ///
    /// # Errors
    /// What the database said. The transaction is of no use then.
    pub async fn park_again(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        queue: Queue,
        (offset, attempts): (i64, u32),
        (cause, reason): (Cause, &str),
    ) -> Result<(), sqlx::Error> {
        let (name, reason) = (queue.to_string(), bounded(reason));
        if self.lock(tx, partition, &name).await?.is_none() {
            return Ok(());
        }
        let (topic, number) = (partition.topic(), i64::from(partition.partition()));
        let again = Statement::new(DB::PARK_AGAIN).bind(i64::from(attempts));
        let again = again.bind(&*self.group).bind(topic).bind(number).bind(&name).bind(offset);
        again.execute::<DB>(tx).await?;
        let block = Statement::new(DB::PARK_BLOCK).bind(cause.as_str()).bind(&reason);
        block.bind(&*self.group).bind(topic).bind(number).bind(&name).execute::<DB>(tx).await.map(drop)
    }

    async fn note(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        name: &str,
        copy: &Copied,
    ) -> Result<(), sqlx::Error> {
        let note = self.about(DB::PARK_RECORD, partition).bind(name).bind(copy.offset);
        let note = note.bind(i64::from(copy.parking_partition)).bind(copy.parking_offset);
        note.bind(i64::from(copy.attempts)).execute::<DB>(tx).await.map(drop)
    }

    async fn lock(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        name: &str,
    ) -> Result<Option<State>, sqlx::Error> {
        let row = self.about(DB::PARK_LOCK, partition).bind(name).fetch_optional::<DB>(tx).await?;
        row.map(|row| State::read(&row.text(0)?)).transpose()
    }

    fn about<'a>(&'a self, sql: &'static str, partition: &'a TopicPartition) -> Statement<'a> {
        Statement::new(sql).bind(&*self.group).bind(partition.topic()).bind(i64::from(partition.partition()))
    }
}

pub(super) fn copied<DB: ParkedSql>(row: &Row<DB>) -> Result<Copied, sqlx::Error> {
    Ok(Copied {
        offset: row.int(0)?,
        parking_partition: i32::try_from(row.int(1)?).map_err(|error| sqlx::Error::Decode(error.into()))?,
        parking_offset: row.int(2)?,
        attempts: u32::try_from(row.int(3)?).unwrap_or(u32::MAX),
    })
}
