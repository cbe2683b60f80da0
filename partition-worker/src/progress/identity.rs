//! Which topic of a name it is.

use super::Progress;
use crate::partition::{Epoch, TopicId, TopicPartition};
use crate::sql::WorkerSql;

/// Whether a topic is the one that the group has worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the records of another topic are not those that were finished"]
pub enum Identity {
    /// It is, or the group has not worked on any yet and takes it for its own from now on.
    Same,
    /// It is another one of the same name: the group's was deleted.
    Another {
        /// The one that the group has worked on.
        known: TopicId,
    },
    /// Another owner has come later.
    Fenced,
}

impl<DB: WorkerSql> Progress<DB> {
    /// Compares a topic's id with the one that is known of it, after a seal and before any record is handled. A finished offset
    /// means a record of *that* topic: where it was deleted and made anew, the new records are not finished.
    ///
    /// The first id is kept, until the next [`rebase`](Self::rebase).
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request). Asking again is
    /// always safe.
    ///
    /// # Cancel safety
    /// The id is kept or it is not; ask again.
    pub async fn identify(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        topic_id: TopicId,
    ) -> Result<Identity, sqlx::Error> {
        self.answered(self.compare(partition, epoch, topic_id)).await
    }

    async fn compare(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        topic_id: TopicId,
    ) -> Result<Identity, sqlx::Error> {
        let text = topic_id.to_string();
        let mut tx = DB::begin_step(&self.pool).await?;
        let name = self.about(DB::TOPIC_NAME, partition).bind(epoch.get()).bind(&text);
        if name.execute::<DB>(&mut tx).await? == 1 {
            tx.commit().await?;
            return Ok(Identity::Same);
        }
        let known = self.about(DB::TOPIC_KNOWN, partition).bind(epoch.get());
        let known = known.fetch_optional::<DB>(&mut tx).await?;
        tx.roll_back().await?;
        Ok(match known.map(|row| row.text(0)).transpose()? {
            None => Identity::Fenced,
            Some(known) if known == text => Identity::Same,
            Some(known) => Identity::Another { known: TopicId::stored(&known)? },
        })
    }
}
