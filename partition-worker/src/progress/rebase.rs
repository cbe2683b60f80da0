//! Where a group goes on, set by an operator.

use super::fold::PIECE;
use super::{Progress, Seal};
use crate::error::Error;
use crate::partition::{Epoch, TopicId, TopicPartition};
use crate::sql::WorkerSql;

const MAX_ACTOR_BYTES: usize = 255;
const MAX_REASON_BYTES: usize = 4_000;

/// What a [rebase](Progress::rebase) found and did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rebased {
    /// The epoch that it took, so that no handler was open.
    pub epoch: Epoch,
    /// Where the group would have gone on.
    pub from: Option<i64>,
    /// The topic that it would have gone on with.
    pub topic_id: Option<TopicId>,
    /// Finished offsets that were forgotten.
    pub forgotten: u64,
    /// Parked records from `to` on, which are parked no more.
    pub parked: u64,
}

impl<DB: WorkerSql> Progress<DB> {
    /// Sets anew where the group goes on in this partition, after a worker has stopped because the topic was deleted and made
    /// anew, or because the log does not have the offset that is next. Call it for each partition, then start the workers again.
    ///
    /// What is known of the partition is forgotten: records from `to` on are handled, whether or not the group has handled or
    /// [parked](crate::parked) them before, and whatever died of them; those below are not. What is parked below `to` stays parked, and with
    /// it its key; it is [released or discarded](crate::Parked) as ever. Copies in the parking topic are not touched. `actor` (1 to 255
    /// bytes) and `reason` (1 to 4,000) go into `leastlock_partition_audit`, in the same transaction.
    ///
    /// It [seals](Self::seal) the partition, so it waits for handlers that are open, and a worker that runs is fenced and joins its
    /// group anew.
    ///
    /// # Errors
    /// [`Error::Setting`] if `to` is negative, or `actor` or `reason` is empty or too long; [`Error::Database`] with what the
    /// database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request). Doing it again is safe as long
    /// as no worker has started.
    ///
    /// # Cancel safety
    /// It happens as a whole or not at all, but for the epoch, which may have been taken.
    pub async fn rebase(
        &self,
        partition: &TopicPartition,
        to: i64,
        actor: &str,
        reason: &str,
    ) -> Result<Rebased, Error> {
        check(to >= 0, "to", "must not be negative")?;
        check((1..=MAX_ACTOR_BYTES).contains(&actor.len()), "actor", "must have 1 to 255 bytes")?;
        check((1..=MAX_REASON_BYTES).contains(&reason.len()), "reason", "must have 1 to 4,000 bytes")?;
        let rebased = self.sealed_and_set(partition, to, actor, reason).await;
        rebased.map_err(|source| Error::Database { operation: "a rebase", partition: partition.clone(), source })
    }

    async fn sealed_and_set(
        &self,
        partition: &TopicPartition,
        to: i64,
        actor: &str,
        reason: &str,
    ) -> Result<Rebased, sqlx::Error> {
        loop {
            // Fenced: somebody has sealed meanwhile, who is fenced by the next seal.
            let Seal::Sealed(sealed) = self.seal(partition).await? else { continue };
            let rebased = Rebased {
                epoch: sealed.epoch,
                from: sealed.next_offset,
                topic_id: sealed.topic_id,
                forgotten: 0,
                parked: 0,
            };
            if let Some(rebased) = self.answered(self.set(partition, rebased, to, actor, reason)).await? {
                tracing::info!(%partition, to, from = rebased.from, "where a group goes on was set anew");
                return Ok(rebased);
            }
        }
    }

    /// `None`: another owner has sealed since.
    async fn set(
        &self,
        partition: &TopicPartition,
        rebased: Rebased,
        to: i64,
        actor: &str,
        reason: &str,
    ) -> Result<Option<Rebased>, sqlx::Error> {
        let mut tx = DB::begin_step(&self.pool).await?;
        let set = self.about(DB::REBASE, partition).bind(rebased.epoch.get()).bind(to);
        if set.execute::<DB>(&mut tx).await? == 0 {
            tx.roll_back().await?;
            return Ok(None);
        }
        let parked = self.forget_failed(&mut tx, partition, to).await?;
        let mut forgotten = 0;
        loop {
            let piece = self.forget_below(&mut tx, partition, i64::MAX).await?;
            forgotten += piece;
            if piece < PIECE {
                break;
            }
        }
        let topic_id = rebased.topic_id.map(|topic_id| topic_id.to_string());
        let audit = self.about(DB::AUDIT, partition).bind("rebase").bind(actor).bind(reason);
        audit.bind(rebased.from).bind(to).bind(topic_id.as_deref()).execute::<DB>(&mut tx).await?;
        tx.commit().await?;
        Ok(Some(Rebased { forgotten, parked, ..rebased }))
    }

    /// Forgets what is known of failed records, behind the guard row: a record that will be handled is not parked, and no death is held
    /// against it. Answers how many were parked.
    async fn forget_failed(
        &self,
        connection: &mut DB::Connection,
        partition: &TopicPartition,
        to: i64,
    ) -> Result<u64, sqlx::Error> {
        self.about(DB::PARKED_HOLD, partition).fetch_all::<DB>(&mut *connection).await?;
        let parked = self.about(DB::PARKED_FORGET, partition).bind(to).execute::<DB>(&mut *connection).await?;
        self.about(DB::PARKED_OPEN, partition).execute::<DB>(&mut *connection).await?;
        self.about(DB::TENURE_FORGET, partition).execute::<DB>(&mut *connection).await?;
        self.about(DB::SUSPECT_FORGET_ALL, partition).execute::<DB>(connection).await?;
        Ok(parked)
    }
}

fn check(right: bool, setting: &'static str, problem: &'static str) -> Result<(), Error> {
    if right { Ok(()) } else { Err(Error::Setting { setting, problem }) }
}
