//! What is known of topics before anything is sent to them: kept, and asked for again now and then.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;

use super::record::batch_bytes;
use crate::sink::{LoggedEvent, Refusal};

/// What is older is asked for again, in the background.
const REFRESH: Duration = Duration::from_secs(30);
/// What an event is refused for is not older: the operator may have mended it.
const REFUSAL_AGE: Duration = Duration::from_secs(5);
/// How long a topic that is not there may take to appear: where brokers make topics themselves, being asked for is the cause.
const GRACE: Duration = Duration::from_secs(2);
const GRACE_PAUSE: Duration = Duration::from_millis(100);
/// How long one request may take. Without an answer nothing is refused.
const REQUEST_LIMIT: Duration = Duration::from_secs(2);

/// So many topics are remembered.
const MOST: usize = 10_000;

/// The topics that events went to.
pub(super) struct Topics {
    config: ClientConfig,
    known: Arc<Mutex<HashMap<String, Known>>>,
    client: Mutex<Option<Arc<AdminClient<DefaultClientContext>>>>,
}

/// What is known of a topic.
#[derive(Debug, Clone, Copy)]
struct Known {
    facts: Facts,
    asked_at: Instant,
    refreshing: bool,
    /// It was asked for in the background, and is said to be gone. A broker that has just started may say so: the next event that needs it
    /// asks again, and gives it time.
    is_doubtful: bool,
}

impl Known {
    /// After an answer to a question that nobody waited for.
    fn refreshed(self, asked: Option<Facts>) -> Self {
        let asked = asked.unwrap_or_default();
        let is_doubtful = asked.partitions == Some(0) && self.facts.partitions != Some(0);
        let facts = if is_doubtful { self.facts } else { asked.or(self.facts) };
        Self { facts, asked_at: Instant::now(), refreshing: false, is_doubtful }
    }
}

/// What decides whether an event can be taken; `None` where it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Zero: there is no such topic.
    pub(super) partitions: Option<i32>,
    /// The most bytes of a batch.
    pub(super) max_bytes: Option<usize>,
    /// Whether values of a key replace each other, so that each needs one.
    pub(super) compacted: Option<bool>,
}

impl Facts {
    /// These, and what was known before where they say nothing. Of a topic that is gone nothing is.
    fn or(self, before: Self) -> Self {
        if self.partitions == Some(0) {
            return self;
        }
        Self {
            partitions: self.partitions.or(before.partitions),
            max_bytes: self.max_bytes.or(before.max_bytes),
            compacted: self.compacted.or(before.compacted),
        }
    }

    /// Why the topic cannot take the event, if it cannot.
    fn refusal(&self, event: &LoggedEvent, compressed: bool) -> Option<String> {
        let topic = &event.topic;
        match (self.partitions, event.partition) {
            (Some(0), _) => return Some(format!("there is no topic {topic}")),
            (Some(partitions), Some(partition)) if partition >= partitions => {
                return Some(format!(
                    "topic {topic} has {partitions} partitions, the event names partition {partition}"
                ));
            }
            _ => {}
        }
        if self.compacted == Some(true) && event.key.is_none() {
            return Some(format!("topic {topic} is compacted, so events without a key are refused"));
        }
        // What a compressed batch takes is known only to who compresses it.
        let limit = self.max_bytes.filter(|_| !compressed)?;
        let bytes = batch_bytes(event);
        (bytes > limit)
            .then(|| format!("the event takes {bytes} bytes, topic {topic} takes {limit} (max.message.bytes)"))
    }
}

impl Topics {
    pub(super) fn new(config: &ClientConfig) -> Self {
        // Another client, which must not be taken for one of the producers.
        let mut config = config.clone();
        for name in ["transactional.id", "transaction.timeout.ms", "enable.idempotence", "statistics.interval.ms"] {
            config.remove(name);
        }
        Self { config, known: Arc::default(), client: Mutex::default() }
    }

    /// Those of the events that their topics cannot take. What has to be asked for is asked for together.
    pub(super) async fn check(&self, events: &[LoggedEvent], compressed: bool) -> Vec<Refusal> {
        let mut facts = self.all_facts(events.iter(), REFRESH).await;
        let refused = |event: &&LoggedEvent| facts[event.topic.as_str()].refusal(event, compressed).is_some();
        let refused: Vec<&LoggedEvent> = events.iter().filter(refused).collect();
        if refused.is_empty() {
            return Vec::new();
        }
        facts.extend(self.all_facts(refused.into_iter(), REFUSAL_AGE).await);
        let refusal = |(index, event): (usize, &LoggedEvent)| {
            let reason = facts[event.topic.as_str()].refusal(event, compressed)?;
            Some(Refusal { index, reason })
        };
        events.iter().enumerate().filter_map(refusal).collect()
    }

    /// What is known of the topics of these events.
    async fn all_facts<'a>(
        &self,
        events: impl Iterator<Item = &'a LoggedEvent>,
        age: Duration,
    ) -> HashMap<&'a str, Facts> {
        let mut topics = HashSet::new();
        let mut last = None;
        for event in events {
            // Runs of one topic are usual.
            if last != Some(&event.topic) {
                topics.insert(event.topic.as_str());
                last = Some(&event.topic);
            }
        }
        let until = Instant::now() + GRACE;
        let facts = topics.into_iter().map(|topic| async move { (topic, self.facts(topic, age, until).await) });
        join_all(facts).await.into_iter().collect()
    }

    /// The most bytes of a batch of this topic, if it was asked for and is known.
    pub(super) fn max_bytes(&self, topic: &str) -> Option<usize> {
        self.known().get(topic)?.facts.max_bytes
    }

    /// What is known of a topic. What is older than `age` is asked for first, unless `age` is that of the background's. One that is
    /// not there may appear `until` then.
    async fn facts(&self, topic: &str, age: Duration, until: Instant) -> Facts {
        let known = self.known().get(topic).copied();
        match known {
            Some(known) if !known.is_doubtful && known.asked_at.elapsed() < age => known.facts,
            Some(known) if !known.is_doubtful && age == REFRESH => {
                if !known.refreshing {
                    self.refresh(topic, known);
                }
                known.facts
            }
            known => self.ask_for(topic, known.map(|known| known.facts), until).await,
        }
    }

    /// Asks in the background.
    fn refresh(&self, topic: &str, known: Known) {
        self.known().insert(topic.to_owned(), Known { refreshing: true, ..known });
        let (all, client, topic) = (self.known.clone(), self.client(), topic.to_owned());
        tokio::spawn(async move {
            let asked = ask(client, topic.clone()).await;
            remember(&all, topic, known.refreshed(asked));
        });
    }

    async fn ask_for(&self, topic: &str, before: Option<Facts>, until: Instant) -> Facts {
        let was_missing = before.is_some_and(|before| before.partitions == Some(0));
        loop {
            let asked = ask(self.client(), topic.to_owned()).await;
            let missing = asked.is_some_and(|asked| asked.partitions == Some(0));
            if missing && !was_missing && Instant::now() < until {
                tokio::time::sleep(GRACE_PAUSE).await;
                continue;
            }
            let facts = asked.unwrap_or_default().or(before.unwrap_or_default());
            keep(&self.known, topic.to_owned(), facts);
            return facts;
        }
    }

    fn client(&self) -> Option<Arc<AdminClient<DefaultClientContext>>> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if client.is_none() {
            match self.config.create() {
                Ok(made) => *client = Some(Arc::new(made)),
                Err(error) => {
                    tracing::warn!(%error, "topics cannot be asked for, so nothing is checked before it is sent");
                }
            }
        }
        client.clone()
    }

    #[cfg(test)]
    pub(super) fn set(&self, topic: &str, facts: Facts) {
        keep(&self.known, topic.to_owned(), facts);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(all: &Mutex<HashMap<String, Known>>, topic: String, facts: Facts) {
    remember(all, topic, Known { facts, asked_at: Instant::now(), refreshing: false, is_doubtful: false });
}

fn remember(all: &Mutex<HashMap<String, Known>>, topic: String, known: Known) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= MOST && !all.contains_key(&topic) {
        // What events still go to was asked for again not long ago.
        let oldest = all.iter().min_by_key(|(_, known)| known.asked_at).map(|(topic, _)| topic.clone());
        oldest.and_then(|oldest| all.remove(&oldest));
    }
    all.insert(topic, known);
}

/// Asks the cluster; `None` where it gives no answer.
async fn ask(client: Option<Arc<AdminClient<DefaultClientContext>>>, topic: String) -> Option<Facts> {
    let client = client?;
    let partitions = {
        let (client, topic) = (client.clone(), topic.clone());
        // The call blocks its thread.
        tokio::task::spawn_blocking(move || partitions(&client, &topic)).await.ok()??
    };
    if partitions == 0 {
        return Some(Facts { partitions: Some(0), ..Facts::default() });
    }
    let options = AdminOptions::new().request_timeout(Some(REQUEST_LIMIT));
    let described = client.describe_configs(&[ResourceSpecifier::Topic(&topic)], &options).await;
    let topic_config = described.ok().and_then(|described| described.into_iter().next()?.ok());
    let value = |topic: &ConfigResource, name: &str| topic.get(name).and_then(|entry| entry.value.clone());
    let max_bytes = topic_config.as_ref().and_then(|topic| value(topic, "max.message.bytes")?.parse().ok());
    let policy = topic_config.as_ref().and_then(|topic| value(topic, "cleanup.policy"));
    let compacted = policy.map(|policy| policy.split(',').any(|part| part.trim() == "compact"));
    Some(Facts { partitions: Some(partitions), max_bytes, compacted })
}

/// How many partitions a topic has; zero if there is no such topic, `None` if that is not known.
fn partitions(client: &AdminClient<DefaultClientContext>, topic: &str) -> Option<i32> {
    use RDKafkaErrorCode as Code;

    let metadata = client.inner().fetch_metadata(Some(topic), REQUEST_LIMIT).ok()?;
    let found = metadata.topics().iter().find(|found| found.name() == topic)?;
    match found.error().map(RDKafkaErrorCode::from) {
        None => i32::try_from(found.partitions().len()).ok().filter(|partitions| *partitions > 0),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::InvalidTopic) => Some(0),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use leastlock_testkit::broker::Broker;

    use super::*;
    use crate::event::EventId;
    use crate::headers::Headers;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn event(topic: &str) -> LoggedEvent {
        LoggedEvent {
            shard: 0,
            id: 1,
            event_id: EventId::new(),
            topic: topic.to_owned(),
            key: None,
            value: None,
            headers: Headers::default(),
            partition: None,
            age_ms: 0,
            unreadable: None,
        }
    }

    #[tokio::test]
    async fn b7_topics_of_a_page_have_one_time_to_appear_together() {
        let broker = Broker::real();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", broker.bootstrap());
        let topics = Topics::new(&config);
        // None of these can ever be: in turn, that takes twice as long.
        let events: Vec<LoggedEvent> = (0..20).map(|number| event(&format!("no topic {number}"))).collect();
        let checked = tokio::time::timeout(PATIENCE, topics.check(&events, false)).await;
        assert_eq!(checked.expect("not one time after the other").len(), events.len());
    }

    #[tokio::test]
    async fn b19_topic_that_the_background_finds_gone_is_asked_for_again_before_anything_is_refused() {
        let broker = Broker::real();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", broker.bootstrap());
        let topics = Topics::new(&config);
        let (gone, known) = ("no such topic", Facts { partitions: Some(3), ..Facts::default() });
        topics.set(gone, known);
        let before = topics.known()[gone];
        topics.refresh(gone, before);
        leastlock_testkit::until("the background has asked", PATIENCE, async || !topics.known()[gone].refreshing).await;
        // The double believes it: events are parked by one answer.
        assert_eq!(topics.known()[gone].facts, known);
        assert!(topics.known()[gone].is_doubtful);
        let events = [event(gone)];
        let refused = tokio::time::timeout(PATIENCE, topics.check(&events, false)).await.expect("in time");
        assert_eq!(refused.len(), 1, "it was asked for, and had its time");
        assert!(!topics.known()[gone].is_doubtful);
    }

    #[test]
    fn b7_only_so_many_topics_are_remembered() {
        let topics = Topics::new(&ClientConfig::new());
        (0..MOST + 5).for_each(|number| topics.set(&number.to_string(), Facts::default()));
        assert_eq!(topics.known().len(), MOST);
        assert!(topics.known().contains_key(&(MOST + 4).to_string()) && !topics.known().contains_key("0"));
    }

    #[test]
    fn b19_what_the_cluster_does_not_say_stays_as_it_was() {
        let before = Facts { partitions: Some(3), max_bytes: Some(500), compacted: Some(true) };
        assert_eq!(Facts::default().or(before), before);
        // Its metadata came, its configuration did not.
        let asked = Facts { partitions: Some(4), ..Facts::default() };
        assert_eq!(asked.or(before), Facts { partitions: Some(4), ..before });
        let gone = Facts { partitions: Some(0), ..Facts::default() };
        assert_eq!(gone.or(before), gone);
    }
}
