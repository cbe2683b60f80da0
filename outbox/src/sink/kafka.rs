//! Events published to Kafka by an idempotent producer.

use rdkafka::ClientConfig;

use super::{Batch, LoggedEvent, Refusal, Sink};

mod errors;
mod idempotent;
mod record;
mod topics;
mod transactional;

pub use errors::KafkaSinkError;
use idempotent::Idempotent;
use topics::Topics;
use transactional::Transactional;

/// What order and durability of events rest on; the caller's configuration may not say otherwise, by whatever name.
const REQUIRED: [Required; 6] = [
    Required {
        name: "enable.idempotence",
        aliases: &[],
        value: "true",
        why: "a retry inside the producer must neither double nor overtake",
    },
    Required {
        name: "acks",
        aliases: &["request.required.acks"],
        value: "all",
        why: "an acknowledged event must survive the loss of its leader",
    },
    Required {
        name: "message.timeout.ms",
        aliases: &["delivery.timeout.ms"],
        value: "0",
        why: "an outage must end by the relay's lease, never by dropping a message",
    },
    Required {
        name: "message.send.max.retries",
        aliases: &["retries"],
        value: "2147483647",
        why: "an outage must end by the relay's lease, never by dropping a message",
    },
    Required {
        name: "partitioner",
        aliases: &[],
        value: "murmur2_random",
        why: "keys must land where Java producers put them",
    },
    Required {
        name: "delivery.report.only.error",
        aliases: &[],
        value: "false",
        why: "an event counts as published by its report",
    },
];

/// A setting that must be as it is.
struct Required {
    name: &'static str,
    aliases: &'static [&'static str],
    value: &'static str,
    why: &'static str,
}

/// Publishes to Kafka: pipelined, idempotent, `acks=all`; keys land where Java producers put them.
///
/// The event id goes out as the header `leastlock_event_id`, that of a [`CloudEvent`](crate::CloudEvent) as `ce_id`, before the
/// event's own headers.
///
/// # What is found before anything is sent
/// That there is no such topic, or no such partition in it; that the event is larger than the topic takes (its
/// `max.message.bytes`, and librdkafka's `message.max.bytes`; not where the producer compresses); that it has no key and the topic
/// is compacted. What is known of a topic is asked for when its first event comes, and again every 30 s in the background; before an
/// event is refused it is asked for once more if it is older than 5 s. While the cluster does not answer nothing is refused. Where
/// brokers make topics themselves, a topic gets 2 s to appear.
///
/// # Outages
/// Messages never expire: while a broker is away they wait in the producer, and the relay's own lease is what ends
/// the wait.
///
/// # Transactions
/// [`transactional`](Self::transactional) publishes each batch in a transaction, under an id of its shard's own: a relay that lost a
/// shard and does not know it yet is refused by the broker once the new owner has begun. (Not if it is stopped before it begins itself:
/// it then fences the new owner, which begins again, so events may be repeated, and none is lost.) Consumers have to read with
/// `isolation.level=read_committed`, and events are delayed by a commit a batch.
pub struct KafkaSink {
    producers: Producers,
    topics: Topics,
    limits: Sizes,
}

/// Where batches go.
enum Producers {
    Idempotent(Idempotent),
    Transactional(Transactional),
}

/// What librdkafka itself bounds.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    /// Of one message, headers included.
    message: usize,
    /// Of a batch of one partition.
    batch: usize,
    compressed: bool,
}

impl Sizes {
    fn of(config: &ClientConfig) -> Self {
        let size = |name, default| config.get(name).and_then(|set| set.parse().ok()).unwrap_or(default);
        let compression = ["compression.type", "compression.codec"].into_iter().find_map(|name| config.get(name));
        Self {
            message: size("message.max.bytes", 1_000_000),
            batch: size("batch.size", 1_000_000),
            compressed: compression.is_some_and(|codec| codec != "none"),
        }
    }
}

impl KafkaSink {
    /// A sink with librdkafka's settings, `bootstrap.servers` at least. What order and durability rest on is set here;
    /// unless they are set, `linger.ms` is 1 and `message.max.bytes` the brokers' default, 1,048,588.
    ///
    /// # Errors
    /// [`KafkaSinkError::Setting`] when `config` contradicts that, names no broker or has a `transactional.id`, [`KafkaSinkError::Client`] when librdkafka refuses it.
    /// The broker is not contacted.
    pub fn new(config: ClientConfig) -> Result<Self, KafkaSinkError> {
        let config = checked(config)?;
        let (topics, limits) = (Topics::new(&config), Sizes::of(&config));
        let producers = Producers::Idempotent(Idempotent::new(config, limits.batch)?);
        Ok(Self { producers, topics, limits })
    }

    /// A sink that publishes each batch in a transaction: `id_prefix`, a `-` and the shard's number are its `transactional.id`. The
    /// prefix must be the same for all relays of an outbox, and no other outbox's.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn transactional(config: ClientConfig, id_prefix: impl Into<String>) -> Result<Self, KafkaSinkError> {
        let config = checked(config)?;
        let (topics, limits) = (Topics::new(&config), Sizes::of(&config));
        let producers = Producers::Transactional(Transactional::new(config, id_prefix.into())?);
        Ok(Self { producers, topics, limits })
    }
}

/// The configuration with what is required set.
fn checked(mut config: ClientConfig) -> Result<ClientConfig, KafkaSinkError> {
    for Required { name, aliases, value, why } in REQUIRED {
        for alias in [name].iter().chain(aliases) {
            // librdkafka takes a topic's setting with this prefix as well.
            for alias in [(*alias).to_owned(), format!("topic.{alias}")] {
                if config.get(&alias).is_some_and(|set| set != value) {
                    return Err(KafkaSinkError::Setting { name, value, why });
                }
                config.remove(&alias);
            }
        }
        config.set(name, value);
    }
    let brokers = ["bootstrap.servers", "metadata.broker.list"].into_iter().filter_map(|name| config.get(name));
    if brokers.map(str::trim).all(str::is_empty) {
        let why = "without a broker events wait for ever";
        return Err(KafkaSinkError::Setting { name: "bootstrap.servers", value: "set", why });
    }
    let why = "each shard has one of its own, which `KafkaSink::transactional` sets";
    if config.get("transactional.id").is_some() {
        return Err(KafkaSinkError::Setting { name: "transactional.id", value: "left out", why });
    }
    // As much as brokers take by default, where librdkafka stops a little before.
    if config.get("message.max.bytes").is_none() {
        config.set("message.max.bytes", "1048588");
    }
    if config.get("linger.ms").or(config.get("queue.buffering.max.ms")).is_none() {
        config.set("linger.ms", "1");
    }
    Ok(config)
}

impl Sink for KafkaSink {
    async fn check(&self, events: &[LoggedEvent]) -> Vec<Refusal> {
        let mut refusals = self.topics.check(events, self.limits.compressed).await;
        let limit = self.limits.message;
        for (index, event) in events.iter().enumerate() {
            let bytes = record::message_bytes(event);
            if bytes > limit && refusals.iter().all(|refusal| refusal.index != index) {
                let reason = format!("the event takes {bytes} bytes, the producer takes {limit} (message.max.bytes)");
                refusals.push(Refusal { index, reason });
            }
        }
        refusals
    }

    async fn send(&self, batch: Batch) {
        match &self.producers {
            Producers::Idempotent(producers) => producers.send(batch, &self.topics).await,
            Producers::Transactional(producers) => producers.send(batch),
        }
    }

    /// Purges the producer; the next batch gets a new one: an idempotent producer whose messages were purged has a gap in its
    /// sequence and is of no further use.
    fn abandon(&self) {
        match &self.producers {
            Producers::Idempotent(producers) => producers.abandon(),
            Producers::Transactional(producers) => producers.abandon(),
        }
    }
}

impl std::fmt::Debug for KafkaSink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KafkaSink").finish_non_exhaustive()
    }
}
