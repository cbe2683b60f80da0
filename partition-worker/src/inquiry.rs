//! Questions to Kafka, asked through a client that is no member of the group, so that the polling thread is not held up.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::partition::{TopicId, TopicPartition};
use crate::topic_id;

/// One question.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a member of a group sets, and a bystander must not. Of the times one must not be larger than another, whose default it
/// gets back with the protocol.
const OF_MEMBERS: [&str; 7] = [
    "group.protocol",
    "group.instance.id",
    "group.remote.assignor",
    "max.poll.interval.ms",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "statistics.interval.ms",
];

/// Asks Kafka. The client is made with the first question and kept.
pub(crate) struct Inquiry {
    config: ClientConfig,
    client: Mutex<Option<Arc<BaseConsumer>>>,
    #[cfg(feature = "testing")]
    scripted: Option<Arc<crate::testing::Member>>,
}

impl Inquiry {
    pub(crate) fn new(mut config: ClientConfig) -> Arc<Self> {
        for setting in OF_MEMBERS {
            config.remove(setting);
        }
        Arc::new(Self {
            config,
            client: Mutex::default(),
            #[cfg(feature = "testing")]
            scripted: None,
        })
    }

    /// Asks a scripted broker instead.
    #[cfg(feature = "testing")]
    pub(crate) fn scripted(config: ClientConfig, member: Arc<crate::testing::Member>) -> Arc<Self> {
        Arc::new(Self { config, client: Mutex::default(), scripted: Some(member) })
    }

    /// What the group has committed: the offset and its metadata.
    pub(crate) async fn committed(self: &Arc<Self>, partition: &TopicPartition) -> KafkaResult<Option<(i64, String)>> {
        #[cfg(feature = "testing")]
        if let Some(member) = &self.scripted {
            return Ok(member.broker().committed(partition));
        }
        let asked = partition.clone();
        self.ask(move |client| {
            let mut list = TopicPartitionList::new();
            list.add_partition(asked.topic(), asked.partition());
            let committed = client.committed_offsets(list, TIMEOUT)?;
            for element in committed.elements() {
                element.error()?;
                if let Offset::Offset(offset) = element.offset() {
                    return Ok(Some((offset, element.metadata().to_owned())));
                }
            }
            Ok(None)
        })
        .await
    }

    /// The first offset of the log, and the one past its last.
    pub(crate) async fn log_range(
        self: &Arc<Self>,
        partition: &TopicPartition,
        within: Duration,
    ) -> KafkaResult<(i64, i64)> {
        #[cfg(feature = "testing")]
        if let Some(member) = &self.scripted {
            return Ok(member.broker().range(partition));
        }
        let asked = partition.clone();
        self.ask(move |client| client.fetch_watermarks(asked.topic(), asked.partition(), within.min(TIMEOUT))).await
    }

    /// Which topic of that name there is; `None`: the cluster does not say.
    pub(crate) async fn topic_id(self: &Arc<Self>, topic: &str) -> KafkaResult<Option<TopicId>> {
        #[cfg(feature = "testing")]
        if self.scripted.is_some() {
            return Ok(None);
        }
        let asked = topic.to_owned();
        let answer = self.ask(move |client| topic_id::of_topic(client.client(), &asked, TIMEOUT)).await;
        match answer {
            Err(KafkaError::AdminOp(RDKafkaErrorCode::UnsupportedFeature | RDKafkaErrorCode::UnsupportedVersion)) => {
                Ok(None)
            }
            answer => answer,
        }
    }

    async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&BaseConsumer) -> KafkaResult<T> + Send + 'static,
    ) -> KafkaResult<T> {
        let this = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || {
            let client = this.client()?;
            // Nobody else takes what it has to tell, such as that a broker cannot be reached.
            while client.poll(Duration::ZERO).is_some() {}
            question(&client)
        });
        // The runtime is ending, or the question has panicked, which none of them does.
        asked.await.unwrap_or_else(|_| Err(KafkaError::Canceled))
    }

    fn client(&self) -> KafkaResult<Arc<BaseConsumer>> {
        let mut slot = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*slot {
            return Ok(Arc::clone(client));
        }
        let client: Arc<BaseConsumer> = Arc::new(self.config.create()?);
        *slot = Some(Arc::clone(&client));
        Ok(client)
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        if let Some(client) = self.client.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // Its end waits for its threads, and this may run where nothing must block.
            let _ = std::thread::Builder::new().name("leastlock-ask-end".into()).spawn(move || drop(client));
        }
    }
}

impl fmt::Debug for Inquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inquiry").finish_non_exhaustive()
    }
}
