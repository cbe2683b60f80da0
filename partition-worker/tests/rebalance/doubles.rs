//! Consumers that make the classic mistakes, in the same situations.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use leastlock_testkit::broker::Broker;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, ClientContext, Message};

use crate::group::{KEYS, Protocol};
use crate::moves::refuse_commits;
use crate::rig::{LIMIT, Rig};

fn consumer(rig: &Rig) -> BaseConsumer {
    config(rig).create().expect("a consumer")
}

fn config(rig: &Rig) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", rig.broker.bootstrap()).set("group.id", &rig.group);
    config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
    for (name, value) in &rig.settings {
        config.set(*name, value);
    }
    config
}

/// The offset of the next record that comes in time.
fn next(consumer: &BaseConsumer, within: Duration) -> KafkaResult<Option<i64>> {
    let deadline = Instant::now() + within;
    loop {
        match consumer.poll(Duration::from_millis(50)) {
            Some(Ok(message)) => return Ok(Some(message.offset())),
            Some(Err(error)) => return Err(error),
            None if Instant::now() >= deadline => return Ok(None),
            None => {}
        }
    }
}

pub(crate) async fn p8_double_a_consumer_that_does_not_resume_stays_paused(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, 1).await;
    rig.produce(&KEYS[..1], 1..=1).await;
    let (consumer, topic) = (consumer(&rig), rig.topic.clone());
    let judged = tokio::task::spawn_blocking(move || {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, 0, Offset::Offset(0)).expect("an offset");
        consumer.assign(&list).expect("an assignment");
        assert_eq!(next(&consumer, LIMIT).expect("no error"), Some(0));
        consumer.pause(&list).expect("a pause");
        consumer.unassign().expect("no assignment");
        consumer.assign(&list).expect("an assignment");
        let forgotten = next(&consumer, Duration::from_secs(1)).expect("no error");
        consumer.resume(&list).expect("no pause");
        (forgotten, next(&consumer, LIMIT).expect("no error"))
    });
    assert_eq!(judged.await.expect("no panic"), (None, Some(0)), "the pause outlives the assignment");
}

pub(crate) async fn p11_double_a_consumer_that_handles_where_it_polls_is_thrown_out(
    broker: Broker,
    protocol: Protocol,
) {
    let mut rig = protocol.rig(broker, 1).await;
    rig.settings.push(("max.poll.interval.ms", "3000".to_owned()));
    rig.produce(&KEYS[..1], 1..=1).await;
    let (consumer, topic) = (consumer(&rig), rig.topic.clone());
    let judged = tokio::task::spawn_blocking(move || {
        consumer.subscribe(&[&topic]).expect("a subscription");
        assert_eq!(next(&consumer, LIMIT).expect("no error"), Some(0));
        // The handler, in the polling thread.
        std::thread::sleep(Duration::from_millis(4_500));
        next(&consumer, LIMIT)
    });
    let error = judged.await.expect("no panic").expect_err("it has left the group");
    assert_eq!(error, KafkaError::MessageConsumption(RDKafkaErrorCode::PollExceeded));
}

pub(crate) async fn p14_double_a_consumer_that_ends_with_a_failed_commit_ends(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, 1).await;
    refuse_commits(&rig);
    rig.produce(&KEYS[..1], 1..=1).await;
    let (consumer, topic) = (consumer(&rig), rig.topic.clone());
    let judged = tokio::task::spawn_blocking(move || {
        consumer.subscribe(&[&topic]).expect("a subscription");
        next(&consumer, LIMIT)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&topic, 0, Offset::Offset(1))?;
        consumer.commit(&list, CommitMode::Sync)
    });
    let error = judged.await.expect("no panic").expect_err("the commit is refused");
    assert_eq!(error, KafkaError::ConsumerCommit(RDKafkaErrorCode::RebalanceInProgress));
}

/// Puts the answer to a revocation off until after the poll; while closing there is no after.
struct PutsOff {
    given: AtomicUsize,
}

impl ClientContext for PutsOff {}

impl ConsumerContext for PutsOff {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            consumer.assign(list).expect("an assignment");
            self.given.fetch_add(1, Ordering::SeqCst);
        }
    }
}

pub(crate) async fn p18_double_a_consumer_that_puts_its_answer_off_while_closing_hangs(
    broker: Broker,
    protocol: Protocol,
) {
    let rig = protocol.rig(broker, 1).await;
    let context = PutsOff { given: AtomicUsize::new(0) };
    let consumer = BaseConsumer::from_config_and_context(&config(&rig), context).expect("a consumer");
    consumer.subscribe(&[&rig.topic]).expect("a subscription");
    let deadline = Instant::now() + LIMIT;
    while consumer.context().given.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < deadline, "it is given no partition");
        let _ = consumer.poll(Duration::from_millis(20));
    }
    // Of a thread that is never joined the end of the process takes care.
    let closing = std::thread::spawn(move || drop(consumer));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!closing.is_finished(), "it waits for an answer that nobody gives");
}
