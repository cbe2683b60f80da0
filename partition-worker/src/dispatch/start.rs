//! Where a group starts in a partition, and which topic it is, as far as Kafka knows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaResult;

use crate::error::Error;
use crate::inquiry::Inquiry;
use crate::partition::{TopicId, TopicPartition};
use crate::runs::Commit;
use crate::settings::Reset;

const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How long it is waited for a leader that says how far its log reaches. Without an answer the fetch finds it out.
const RANGE_TIMEOUT: Duration = Duration::from_secs(3);
/// A broker that has not heard yet of a new topic or a new leader may answer what was; so bad news is asked for again.
const TIMES: usize = 3;

/// Knows where a group starts that has no progress elsewhere, and which topics it works on.
pub(crate) struct GroupStart {
    inquiry: Arc<Inquiry>,
    reset: Reset,
    /// The topics that this worker works on, as it found them.
    topics: Mutex<HashMap<String, TopicId>>,
}

impl GroupStart {
    pub(crate) fn new(kafka: ClientConfig, reset: Reset) -> Self {
        Self { inquiry: Inquiry::new(kafka), reset, topics: Mutex::default() }
    }

    /// The same, asking a scripted broker.
    #[cfg(feature = "testing")]
    pub(crate) fn scripted(kafka: ClientConfig, reset: Reset, member: Arc<crate::testing::Member>) -> Self {
        Self { inquiry: Inquiry::scripted(kafka, member), reset, topics: Mutex::default() }
    }

    /// Where the group starts: at what it has committed to Kafka, else as `auto.offset.reset` says. It is asked for until
    /// there is an answer.
    pub(super) async fn find(&self, partition: &TopicPartition) -> Commit {
        loop {
            match self.try_find(partition).await {
                Ok(committed) => return committed,
                Err(error) => tracing::warn!(%partition, %error, "Kafka does not say where the group starts"),
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn try_find(&self, partition: &TopicPartition) -> KafkaResult<Commit> {
        if let Some((offset, metadata)) = self.inquiry.committed(partition).await? {
            return Ok(Commit::read(offset, &metadata));
        }
        let (low, high) = self.inquiry.log_range(partition, Duration::MAX).await?;
        let start = match self.reset {
            Reset::Earliest => low,
            Reset::Latest => high,
        };
        Ok(Commit::read(start, ""))
    }

    /// Which topic of that name there is; `None`: the cluster does not say. It is asked for until there is an answer, and
    /// again where it is not the one that is expected.
    pub(super) async fn topic_id(&self, topic: &str, expected: Option<TopicId>) -> Option<TopicId> {
        let mut others = 0;
        loop {
            match self.inquiry.topic_id(topic).await {
                Ok(found) if expected.is_none() || found == expected || found.is_none() => return found,
                Ok(found) => {
                    others += 1;
                    if others == TIMES {
                        return found;
                    }
                }
                Err(error) => tracing::warn!(topic, %error, "Kafka does not say which topic it is"),
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    /// Fails if the log of a partition does not have the offset that is next.
    pub(super) async fn reaches(&self, partition: &TopicPartition, next_offset: i64) -> Result<(), Error> {
        let mut range = (0, next_offset);
        for _ in 0..TIMES {
            match self.inquiry.log_range(partition, RANGE_TIMEOUT).await {
                Ok((start, end)) if (start..=end).contains(&next_offset) => return Ok(()),
                Ok(found) => range = found,
                Err(error) => {
                    tracing::debug!(%partition, %error, "it is not known how far the log reaches");
                    return Ok(());
                }
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
        let (log_start, log_end) = range;
        Err(Error::OutsideOfLog { partition: partition.clone(), next_offset, log_start, log_end })
    }

    /// Notes which topic is worked on.
    pub(super) fn work_on(&self, topic: &str, id: TopicId) {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner).insert(topic.to_owned(), id);
    }

    /// Fails if one of the topics that are worked on was made anew meanwhile. One that is gone may come back.
    pub(super) async fn look(&self) -> Result<(), Error> {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (topic, known) in topics {
            let mut others = 0;
            while let Ok(Some(found)) = self.inquiry.topic_id(&topic).await
                && found != known
            {
                others += 1;
                if others == TIMES {
                    return Err(Error::TopicMadeAnew { topic, known, found });
                }
                tokio::time::sleep(ASK_AGAIN).await;
            }
        }
        Ok(())
    }
}
