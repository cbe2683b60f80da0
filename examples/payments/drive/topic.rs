//! Where a drive's events go: a file, or a topic that it makes for itself.

use std::path::Path;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;

use crate::books::Arrivals;
use crate::ended::Ended;

const REQUEST: Duration = Duration::from_secs(10);
const PARTITIONS: i32 = 3;

/// A file in `folder`, or, with brokers, a new topic.
pub(crate) async fn arrivals(brokers: Option<&str>, folder: &Path) -> Result<Arrivals, Ended> {
    let Some(brokers) = brokers else { return Ok(Arrivals::File(folder.join("events.jsonl"))) };
    let topic = format!("payments-{:016x}", fastrand::u64(..));
    let doing = format!("cannot make the topic {topic} at {brokers}");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("log_level", "0");
    let admin: AdminClient<DefaultClientContext> = config.create().map_err(|error| Ended::refused(&doing, &error))?;
    let new = NewTopic::new(&topic, PARTITIONS, TopicReplication::Fixed(1));
    let options = AdminOptions::new().operation_timeout(Some(REQUEST)).request_timeout(Some(REQUEST));
    let made = admin.create_topics([&new], &options).await.map_err(|error| Ended::refused(&doing, &error))?;
    match made.into_iter().next() {
        Some(Err((_, code))) => Err(Ended::refused(&doing, &code)),
        None | Some(Ok(_)) => Ok(Arrivals::Topic { brokers: brokers.to_owned(), topic }),
    }
}
