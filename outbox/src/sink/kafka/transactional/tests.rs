//! What the broker itself refuses: on the real one, since the mock cluster's transactions are hollow.

use futures_util::FutureExt as _;
use leastlock_testkit::broker::Broker;

use super::*;
use crate::event::EventId;
use crate::headers::Headers;
use crate::relay::cursor::{Cursor, Page, Position};
use crate::sink::kafka::KafkaSink;
use crate::sink::{LoggedEvent, Report, Reports, Sink};

const PATIENCE: Duration = Duration::from_mins(1);

fn event(topic: &str, id: i64, value: &[u8]) -> LoggedEvent {
    LoggedEvent {
        shard: 3,
        id,
        event_id: EventId::new(),
        topic: topic.to_owned(),
        key: Some(b"k".to_vec()),
        value: Some(value.to_vec()),
        headers: Headers::default(),
        partition: None,
        age_ms: 0,
        unreadable: None,
    }
}

/// Sends events as the owner of an epoch; answers what the sink says of each run of them.
async fn send(sink: &impl Sink, epoch: i64, events: Vec<LoggedEvent>) -> Vec<Report> {
    let count = events.len();
    let reports = Arc::new(Reports::default());
    sink.send(batch(epoch, events, &reports)).await;
    answers(&reports, count).await
}

fn batch(epoch: i64, events: Vec<LoggedEvent>, reports: &Arc<Reports>) -> Batch {
    let position = Position { done: String::new(), target: None, last_id: 0 };
    let count = events.len();
    let page = Arc::new(Page::of_cursor(&Cursor { shard: 3, epoch, position }, events));
    Batch::new(page, 0..count, 1, 0, reports)
}

async fn answers(reports: &Reports, count: usize) -> Vec<Report> {
    let mut answers = Vec::new();
    let answered = async {
        while answers.iter().map(|report: &Report| report.count).sum::<u64>() < count as u64 {
            reports.some().await;
            answers.extend(reports.take(Vec::new()));
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("an answer for each event");
    answers
}

fn config(broker: &Broker) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap());
    config
}

async fn landed(broker: &Broker, topic: &str) -> Vec<String> {
    broker.read_all(topic, PATIENCE).await.iter().map(|record| record.value_text().to_owned()).collect()
}

/// An owner publishes; its successor does; the first, which does not know, publishes again. Answers what stands in the topic.
async fn zombie(broker: &Broker, sink: impl Fn() -> KafkaSink) -> (Vec<String>, Vec<Report>) {
    let topic = broker.topic(1).await;
    let (first, second) = (sink(), sink());
    let published = |reports: &[Report]| reports.iter().all(|report| report.outcome.is_ok());
    assert!(published(&send(&first, 1, vec![event(&topic, 1, b"1")]).await));
    assert!(published(&send(&second, 2, vec![event(&topic, 1, b"1"), event(&topic, 2, b"2")]).await));
    let late = send(&first, 1, vec![event(&topic, 2, b"late")]).await;
    assert!(published(&send(&second, 2, vec![event(&topic, 3, b"3")]).await), "the successor goes on");
    (landed(broker, &topic).await, late)
}

#[tokio::test]
async fn b4_zombie_is_refused_by_the_broker_in_the_transactional_mode_only() {
    let broker = Broker::real();
    let prefix = format!("leastlock-test-{}", uuid::Uuid::new_v4().simple());
    let transactional = || KafkaSink::transactional(config(&broker), &prefix).expect("valid settings");
    let (landed, late) = zombie(&broker, transactional).await;
    assert_eq!(landed, ["1", "1", "2", "3"]);
    assert!(late.iter().all(|report| matches!(report.outcome, Err(SendError::Unknown { .. }))), "{late:?}");

    // Without transactions it lands: the test would see it.
    let (landed, _) = zombie(&broker, || KafkaSink::new(config(&broker)).expect("valid settings")).await;
    assert_eq!(landed, ["1", "1", "2", "late", "3"]);
}

#[tokio::test]
async fn b8_shard_that_waits_for_its_broker_keeps_no_other_waiting() {
    let mut config = ClientConfig::new();
    // Nobody is there.
    config.set("bootstrap.servers", "127.0.0.1:1");
    let sink = KafkaSink::transactional(config, "leastlock-test").expect("valid settings");
    let reports = Arc::new(Reports::default());
    for id in 1..=10 {
        let handed_over = sink.send(batch(1, vec![event("t", id, b"1")], &reports)).now_or_never();
        assert!(handed_over.is_some(), "batch {id} waits, and with it those of all shards");
    }
    sink.abandon();
}

#[tokio::test]
async fn b7_what_waits_behind_a_refused_batch_is_not_refused() {
    let broker = Broker::real();
    let topic = broker.topic(1).await;
    let mut config = config(&broker);
    config.set("message.max.bytes", "4000000");
    let prefix = format!("leastlock-test-{}", uuid::Uuid::new_v4().simple());
    let sink = KafkaSink::transactional(config, prefix).expect("valid settings");
    let (refused, behind) = (Arc::new(Reports::default()), Arc::new(Reports::default()));
    // The producer has yet to begin, so the second waits.
    sink.send(batch(1, vec![event(&topic, 1, &vec![b'x'; 2_000_000])], &refused)).await;
    sink.send(batch(1, vec![event(&topic, 2, b"2")], &behind)).await;
    let refused = answers(&refused, 1).await;
    assert!(matches!(refused[0].outcome, Err(SendError::Permanent { .. })), "{refused:?}");
    let behind = answers(&behind, 1).await;
    assert!(matches!(behind[0].outcome, Err(SendError::NotSent { .. })), "{behind:?}");
}

#[tokio::test]
async fn b7_refused_event_aborts_its_transaction_and_nothing_of_it_is_seen() {
    let broker = Broker::real();
    let topic = broker.topic(1).await;
    let prefix = format!("leastlock-test-{}", uuid::Uuid::new_v4().simple());
    // More than the topic takes; librdkafka lets it through.
    let mut config = config(&broker);
    config.set("message.max.bytes", "4000000");
    let sink = KafkaSink::transactional(config, prefix).expect("valid settings");
    let large = vec![b'x'; 2_000_000];
    let events = || vec![event(&topic, 1, b"1"), event(&topic, 2, &large), event(&topic, 3, b"3")];
    let refused = send(&sink, 1, events()).await;
    let permanent = |report: &Report| matches!(report.outcome, Err(SendError::Permanent { .. }));
    let not_sent = |report: &Report| matches!(report.outcome, Err(SendError::NotSent { .. }));
    assert!(refused.iter().any(permanent), "{refused:?}");
    assert!(refused.iter().all(|report| permanent(report) || not_sent(report)), "{refused:?}");
    assert_eq!(landed(&broker, &topic).await, Vec::<String>::new());
    // As the relay does: each again, alone.
    for (event, passes) in events().into_iter().zip([true, false, true]) {
        let alone = send(&sink, 1, vec![event]).await;
        assert_eq!(alone.iter().all(|report| report.outcome.is_ok()), passes, "{alone:?}");
    }
    assert_eq!(landed(&broker, &topic).await, ["1", "3"]);
}
