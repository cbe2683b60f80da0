//! The events as they arrived: what a consumer that drops repeats would have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leastlock::outbox::sink::EVENT_ID_HEADER;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::BoxError;
use crate::service::Line;
use crate::service::shop::Notice;

/// How long the brokers may take to answer.
const REQUEST: Duration = Duration::from_secs(10);

/// Where the service publishes to.
#[derive(Debug, Clone)]
pub(crate) enum Arrivals {
    File(PathBuf),
    Topic { brokers: String, topic: String },
}

/// Event ids, each once, and what they say.
pub(crate) type Published = BTreeMap<String, Notice>;

impl Arrivals {
    /// What has arrived by now.
    pub(crate) async fn read(&self) -> Result<Published, BoxError> {
        let this = self.clone();
        let read = move || match &this {
            Self::File(file) => from_file(file),
            Self::Topic { brokers, topic } => from_topic(brokers, topic),
        };
        tokio::task::spawn_blocking(read).await?
    }
}

/// A line that a kill has cut off is none: its event was published again.
fn from_file(file: &Path) -> Result<Published, BoxError> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let mut published = Published::new();
    for line in text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        arrive(&mut published, line.event_id, line.notice)?;
    }
    Ok(published)
}

/// The topic from its beginning to what is its end now.
fn from_topic(brokers: &str, topic: &str) -> Result<Published, BoxError> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", topic).set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create()?;
    let metadata = consumer.fetch_metadata(Some(topic), REQUEST)?;
    let partitions = metadata.topics().first().map_or(&[][..], |topic| topic.partitions());
    let (mut assigned, mut ends) = (TopicPartitionList::new(), BTreeMap::new());
    let deadline = Instant::now() + REQUEST;
    for partition in partitions.iter().map(rdkafka::metadata::MetadataPartition::id) {
        assigned.add_partition_offset(topic, partition, Offset::Beginning)?;
        // Of a topic that is quite new, a broker may not know the leader yet.
        let (_, end) = loop {
            match consumer.fetch_watermarks(topic, partition, REQUEST) {
                Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
                found => break found?,
            }
        };
        if end > 0 {
            ends.insert(partition, end);
        }
    }
    consumer.assign(&assigned)?;
    let (mut published, deadline) = (Published::new(), Instant::now() + REQUEST);
    while !ends.is_empty() {
        if Instant::now() > deadline {
            return Err(format!("the topic {topic} cannot be read to its end within {REQUEST:?}").into());
        }
        let Some(record) = consumer.poll(Duration::from_millis(100)) else { continue };
        // A broker that does not answer is asked again by the client itself.
        let Ok(record) = record else { continue };
        let headers = record.headers().into_iter().flat_map(Headers::iter);
        let id = headers.into_iter().find(|header| header.key == EVENT_ID_HEADER).and_then(|header| header.value);
        let id = str::from_utf8(id.ok_or("an event without an id")?)?;
        arrive(&mut published, id.to_owned(), serde_json::from_slice(record.payload().unwrap_or_default())?)?;
        ends.retain(|&partition, &mut end| partition != record.partition() || record.offset() + 1 < end);
    }
    Ok(published)
}

fn arrive(published: &mut Published, id: String, notice: Notice) -> Result<(), BoxError> {
    match published.get(&id) {
        Some(earlier) if *earlier != notice => Err(format!("the event {id} was published with two texts").into()),
        Some(_) => Ok(()),
        None => {
            published.insert(id, notice);
            Ok(())
        }
    }
}
