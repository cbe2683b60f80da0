//! Topics are made, written and read whole, on the mock cluster and on the real broker.

#![cfg(feature = "kafka")]

use std::sync::Arc;
use std::time::Duration;

use leastlock_testkit::broker::Broker;

const LIMIT: Duration = Duration::from_mins(1);

async fn records_are_read_in_partition_order(broker: Broker) {
    let topic = broker.topic(3).await;
    assert!(broker.read_all(&topic, LIMIT).await.is_empty());
    let broker = Arc::new(broker);
    let writers: Vec<_> =
        (0..3).map(|writer| tokio::spawn(write(Arc::clone(&broker), topic.clone(), writer))).collect();
    let mut sent = Vec::new();
    for writer in writers {
        sent.extend(writer.await.expect("no panic"));
    }
    sent.sort();
    let read = broker.read_all(&topic, LIMIT).await;
    let read: Vec<_> =
        read.iter().map(|r| (r.partition, r.offset, r.key_text().into(), r.value_text().into())).collect();
    assert_eq!(read, sent);
    let partition_of =
        |key: &str| read.iter().filter(|(_, _, of, _)| of == key).map(|(partition, ..)| *partition).collect::<Vec<_>>();
    assert!(partition_of("key-1").windows(2).all(|pair| pair[0] == pair[1]), "a key stays in its partition");
}

async fn write(broker: Arc<Broker>, topic: String, writer: u32) -> Vec<(i32, i64, String, String)> {
    let mut sent = Vec::new();
    for number in 0..20 {
        let (key, value) = (format!("key-{}", number % 7), format!("{writer}-{number}"));
        let (partition, offset) = broker.produce(&topic, &key, &value).await;
        sent.push((partition, offset, key, value));
    }
    sent
}

async fn topics_are_apart_and_a_partition_can_be_chosen(broker: Broker) {
    let (one, other) = (broker.topic(4).await, broker.topic(1).await);
    assert_ne!(one, other);
    assert_eq!(broker.produce_to(&one, 3, "k", "a").await, 0);
    assert_eq!(broker.produce_to(&one, 3, "k", "b").await, 1);
    assert_eq!(broker.produce_to(&one, 0, "k", "c").await, 0);
    let values: Vec<_> =
        broker.read_all(&one, LIMIT).await.iter().map(|r| (r.partition, r.value_text().to_owned())).collect();
    assert_eq!(values, [(0, "c".into()), (3, "a".into()), (3, "b".into())]);
    assert!(broker.read_all(&other, LIMIT).await.is_empty());
}

mod mock {
    use super::Broker;

    #[tokio::test(flavor = "multi_thread")]
    async fn records_are_read_in_partition_order() {
        super::records_are_read_in_partition_order(Broker::mock()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn topics_are_apart_and_a_partition_can_be_chosen() {
        super::topics_are_apart_and_a_partition_can_be_chosen(Broker::mock()).await;
    }
}

mod kafka {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use leastlock_testkit::broker::KAFKA_BROKERS;
    use leastlock_testkit::process::Child;
    use rdkafka::ClientConfig;
    use rdkafka::consumer::{BaseConsumer, Consumer};

    use super::{Broker, LIMIT};

    #[tokio::test(flavor = "multi_thread")]
    async fn records_are_read_in_partition_order() {
        super::records_are_read_in_partition_order(Broker::real()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn topics_are_apart_and_a_partition_can_be_chosen() {
        super::topics_are_apart_and_a_partition_can_be_chosen(Broker::real()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn topics_go_with_the_broker() {
        let broker = Broker::real();
        let topic = broker.topic(1).await;
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", broker.bootstrap()).create().expect("a consumer");
        // All topics are asked for: asking for the one by its name could make it anew.
        let is_there = || {
            let metadata = consumer.fetch_metadata(None, LIMIT).expect("metadata");
            metadata.topics().iter().any(|found| found.name() == topic)
        };
        assert!(is_there());
        drop(broker);
        let deadline = Instant::now() + LIMIT;
        while is_there() {
            assert!(Instant::now() < deadline, "{topic} is still there");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    #[test]
    fn missing_broker_fails_the_test() {
        let mut command = Command::new(std::env::current_exe().expect("a test binary knows its path"));
        command.args(["kafka::topics_go_with_the_broker", "--exact"]).env_remove(KAFKA_BROKERS);
        let mut child = Child::spawn(command);
        child.line_containing("LEASTLOCK_KAFKA_BROKERS is not set", LIMIT);
        assert_eq!(child.wait(LIMIT).code(), Some(101));
    }
}
