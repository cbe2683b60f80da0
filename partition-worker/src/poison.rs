//! Records that kill the process which handles them.
//!
//! A handler that panics or fails is tried again, and counted, in its process. One that brings the process down (an abort, a stack that
//! overflows, memory that runs out) leaves no count: the next owner would begin with the same record and die of it, for ever. So what it may
//! have died of is written down, in the database of the effect.
//!
//! # How it works
//! 1. Ordinary work costs nothing. An owner notes that it begins, and, when it gives a partition up, that it ends.
//! 2. An owner that finds an earlier one without an end takes the unfinished records that it is given first for *suspects*, as many as
//!    the dead one can have held. Before the handler of a suspect starts, this is committed; when it has ended, whatever the outcome, that
//!    is noted too, and the transaction of its effect removes the note.
//! 3. If the process dies again, the next owner counts one death against each record that was running. A record with a death against
//!    it runs *alone* in its process from then on, so that no further death is counted against an innocent one. Other handlers wait
//!    meanwhile; there are no more such records than ran at a time when the process died.
//! 4. A record with enough deaths is not handled any more: it goes where [`OnFailure`](crate::OnFailure) says.
//!
//! The first death is seen without its culprit, and the second one is shared by all suspects that ran then; from the third on
//! the count is exact. So `poison_after(n)` needs an `n` of at least 3, and the handler of a record is let loose on `n` processes.
//!
//! # What it does not promise
//! - It cannot tell why a process died: `kill -9`, a machine that fails, or an owner that only lost its session in the middle of
//!   a suspect count as well. That is what `n` is for.
//! - Nothing is counted without a database: an owner would have to write to Kafka and wait before each suspect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leastlock_core::Statement;
use sqlx::{Pool, Transaction};

use crate::partition::{Epoch, TopicPartition};
use crate::sql::WorkerSql;

mod sql;

pub use self::sql::PoisonSql;

/// How long an owner that does not end is given to do so, after another has taken its partition over.
const GRACE: Duration = Duration::from_millis(200);

/// The records of a consumer group at which a process may have died, as the owner of a partition sees them.
///
/// The worker uses this by itself. It stands here for consumers of another kind, and because what it promises can be tested without
/// Kafka.
#[derive(Debug)]
pub struct Suspects<DB: WorkerSql> {
    pool: Pool<DB>,
    group: Arc<str>,
}

/// How an owner finds a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// So many of the unfinished records that come first are suspects.
    pub suspects: u64,
    /// The records that deaths are held against: offset and number.
    pub deaths: BTreeMap<i64, u32>,
}

impl<DB: WorkerSql> Suspects<DB> {
    /// Those of `group`.
    #[must_use]
    pub fn new(pool: Pool<DB>, group: impl Into<Arc<str>>) -> Self {
        Self { pool, group: group.into() }
    }

    /// An owner begins: to be called once the partition is [sealed](crate::Progress::seal) for `epoch`. If the owner before has died,
    /// one death is counted against each record that it was handling as a suspect, and the first `held` records are suspects: as many
    /// as it can have been handling.
    ///
    /// An owner that has not ended gets a moment to note its end, since it may just have given the partition up.
    ///
    /// # Errors
    /// What the database said. Beginning again with the same epoch counts nothing twice.
    ///
    /// # Cancel safety
    /// As for an error.
    pub async fn begin(&self, partition: &TopicPartition, epoch: Epoch, held: u64) -> Result<Found, sqlx::Error> {
        if let Some(found) = self.try_begin(partition, epoch, held, false).await? {
            return Ok(found);
        }
        tokio::time::sleep(GRACE).await;
        Ok(self.try_begin(partition, epoch, held, true).await?.unwrap_or_default())
    }

    /// `None`: the owner before has not ended, and is not to be taken for dead yet.
    async fn try_begin(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        held: u64,
        insist: bool,
    ) -> Result<Option<Found>, sqlx::Error> {
        let mut tx = DB::begin_step(&self.pool).await?;
        let tenure = self.about(DB::TENURE_LOCK, partition).fetch_optional::<DB>(&mut tx).await?;
        let Some(tenure) = tenure else {
            self.about(DB::TENURE_FIRST, partition).bind(epoch.get()).execute::<DB>(&mut tx).await?;
            tx.commit().await?;
            return Ok(Some(Found::default()));
        };
        let (before, ended, left) = (tenure.int(0)?, tenure.int(1)? != 0, tenure.int(2)?);
        let mut suspects = u64::try_from(left).unwrap_or(0);
        // Otherwise it is this owner that has begun, and the reply was lost.
        if before < epoch.get() {
            if !ended {
                if !insist {
                    tx.roll_back().await?;
                    return Ok(None);
                }
                suspects = suspects.max(held);
            }
            let what_ran = if ended { DB::SUSPECT_LIVED } else { DB::SUSPECT_DIED };
            self.about(what_ran, partition).execute::<DB>(&mut tx).await?;
            self.about(DB::SUSPECT_FORGET, partition).execute::<DB>(&mut tx).await?;
            let begin = Statement::new(DB::TENURE_BEGIN).bind(epoch.get()).bind(count(suspects));
            self.and_about(begin, partition).execute::<DB>(&mut tx).await?;
        }
        let rows = self.about(DB::SUSPECT_LIST, partition).fetch_all::<DB>(&mut tx).await?;
        let deaths = rows.iter().map(|row| Ok((row.int(0)?, u32::try_from(row.int(1)?).unwrap_or(u32::MAX))));
        let deaths = deaths.collect::<Result<_, sqlx::Error>>()?;
        tx.commit().await?;
        Ok(Some(Found { suspects, deaths }))
    }

    /// The handler of a suspect is about to start; committed when this answers. `false`: another owner has begun. Do not start it.
    ///
    /// # Errors
    /// What the database said. Do not start it; trying again is always safe.
    ///
    /// # Cancel safety
    /// As for an error.
    pub async fn start(&self, partition: &TopicPartition, epoch: Epoch, offset: i64) -> Result<bool, sqlx::Error> {
        let mut tx = DB::begin_step(&self.pool).await?;
        let tenure = self.about(DB::TENURE_LOCK, partition).fetch_optional::<DB>(&mut tx).await?;
        if tenure.is_none_or(|tenure| tenure.int(0).ok() != Some(epoch.get())) {
            return Ok(false);
        }
        let start = self.and_about(Statement::new(DB::SUSPECT_START).bind(epoch.get()), partition).bind(offset);
        if start.execute::<DB>(&mut tx).await? == 0 {
            self.about(DB::SUSPECT_NEW, partition).bind(offset).bind(epoch.get()).execute::<DB>(&mut tx).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// The handler of a suspect has ended, and the record is not finished: it is tried again, or left to another owner.
    ///
    /// # Errors
    /// What the database said. If the process dies before another call gets through, a death too many is counted.
    ///
    /// # Cancel safety
    /// As for an error.
    pub async fn alive(&self, partition: &TopicPartition, epoch: Epoch, offset: i64) -> Result<(), sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let alive = self.about(DB::SUSPECT_ALIVE, partition).bind(offset).bind(epoch.get());
        alive.execute::<DB>(&mut connection).await.map(drop)
    }

    /// A suspect is finished, with this transaction.
    ///
    /// # Errors
    /// What the database said.
    ///
    /// # Cancel safety
    /// Nothing is decided before the transaction ends.
    pub async fn cleared(
        &self,
        tx: &mut Transaction<'_, DB>,
        partition: &TopicPartition,
        offset: i64,
    ) -> Result<(), sqlx::Error> {
        self.about(DB::SUSPECT_CLEARED, partition).bind(offset).execute::<DB>(tx).await.map(drop)
    }

    /// An owner gives a partition up, and lives; `left` of the suspects that it was told of have not been handled.
    ///
    /// # Errors
    /// What the database said. The next owner then takes this one for dead, which costs it some time.
    ///
    /// # Cancel safety
    /// As for an error.
    pub async fn end(&self, partition: &TopicPartition, epoch: Epoch, left: u64) -> Result<(), sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let end = self.and_about(Statement::new(DB::TENURE_END).bind(count(left)), partition);
        end.bind(epoch.get()).execute::<DB>(&mut connection).await.map(drop)
    }

    fn about<'a>(&'a self, sql: &'static str, partition: &'a TopicPartition) -> Statement<'a> {
        self.and_about(Statement::new(sql), partition)
    }

    fn and_about<'a>(&'a self, statement: Statement<'a>, partition: &'a TopicPartition) -> Statement<'a> {
        statement.bind(&*self.group).bind(partition.topic()).bind(i64::from(partition.partition()))
    }
}

/// Not derived, since that would ask the engine for it.
impl<DB: WorkerSql> Clone for Suspects<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), group: Arc::clone(&self.group) }
    }
}

fn count(suspects: u64) -> i64 {
    i64::try_from(suspects).unwrap_or(i64::MAX)
}
