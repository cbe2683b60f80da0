//! Whether what the database knows of a partition is about the topic that is there.

use super::database::Database;
use crate::error::Error;
use crate::partition::{Epoch, TopicId, TopicPartition};
use crate::progress::Identity;
use crate::sql::WorkerSql;

impl<DB: WorkerSql> Database<DB> {
    /// Compares the topic with the one that the group has worked on; the first is kept. `false`: another owner was faster.
    pub(super) async fn recognises(
        &self,
        partition: &TopicPartition,
        epoch: Epoch,
        known: Option<TopicId>,
    ) -> Result<bool, Error> {
        let topic = partition.topic();
        let Some(found) = self.origin.topic_id(topic, known).await else { return Ok(true) };
        if known != Some(found) {
            let failed = |source| Error::Database {
                operation: "comparing the topic's id",
                partition: partition.clone(),
                source,
            };
            match self.progress.identify(partition, epoch, found).await.map_err(failed)? {
                Identity::Same => {}
                Identity::Fenced => return Ok(false),
                Identity::Another { known } => {
                    return Err(Error::TopicMadeAnew { topic: topic.to_owned(), known, found });
                }
            }
        }
        self.origin.work_on(topic, found);
        Ok(true)
    }
}
