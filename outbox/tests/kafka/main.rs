//! The relay to Kafka: librdkafka's mock cluster with SQLite, the real broker with PostgreSQL and MariaDB.
#![cfg(feature = "kafka")]

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod engines;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod outages;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod parking;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod placement;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod refusals;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod round_trip;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod suite;

leastlock_testkit::mount!(
    round_trip: consumer_finds_what_was_appended,
    consumer_finds_a_cloud_event_in_binary_mode
);

#[tokio::test]
async fn doctor_finds_a_topic_without_replicas_and_one_that_is_not_there() {
    let broker = leastlock_testkit::broker::Broker::real();
    let topic = broker.topic(2).await;
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", broker.bootstrap()).set("allow.auto.create.topics", "false");
    let findings = leastlock_outbox::doctor_kafka(&config, &[&topic, "not-there"]).await.expect("the broker answers");
    let about: Vec<_> = findings.iter().map(|finding| (finding.about, finding.says.contains(&topic))).collect();
    assert_eq!(about, [("replica", true), ("topic", false)], "{findings:?}");
}

#[test]
fn settings_that_order_rests_on_cannot_be_turned_off() {
    let refused = |name: &str, value: &str| {
        let mut config = rdkafka::ClientConfig::new();
        config.set("bootstrap.servers", "127.0.0.1:1").set(name, value);
        let transactional =
            leastlock_outbox::KafkaSink::transactional(config.clone(), "prefix").err().map(|error| error.to_string());
        let plain = leastlock_outbox::KafkaSink::new(config).err().map(|error| error.to_string());
        assert_eq!(plain, transactional, "{name}");
        plain.unwrap_or_else(|| panic!("{name} may be {value}"))
    };
    for (name, value, must) in [
        ("acks", "1", "acks must be all"),
        ("request.required.acks", "1", "acks must be all"),
        ("topic.acks", "1", "acks must be all"),
        ("topic.request.required.acks", "0", "acks must be all"),
        ("enable.idempotence", "false", "enable.idempotence must be true"),
        ("message.timeout.ms", "1000", "message.timeout.ms must be 0"),
        ("delivery.timeout.ms", "1000", "message.timeout.ms must be 0"),
        ("topic.delivery.timeout.ms", "1000", "message.timeout.ms must be 0"),
        ("retries", "3", "message.send.max.retries must be 2147483647"),
        ("message.send.max.retries", "3", "message.send.max.retries must be 2147483647"),
        ("partitioner", "random", "partitioner must be murmur2_random"),
        ("topic.partitioner", "random", "partitioner must be murmur2_random"),
        ("delivery.report.only.error", "true", "delivery.report.only.error must be false"),
        ("transactional.id", "mine", "transactional.id must be left out"),
        ("bootstrap.servers", "", "bootstrap.servers must be set"),
    ] {
        let says = refused(name, value);
        assert!(says.starts_with(must), "{name}: {says}");
    }
    // Said again as they must be, and the brokers by their other name.
    let mut config = rdkafka::ClientConfig::new();
    config
        .set("metadata.broker.list", "127.0.0.1:1")
        .set("delivery.timeout.ms", "0")
        .set("request.required.acks", "all");
    assert!(leastlock_outbox::KafkaSink::new(config).is_ok());
    let nothing = leastlock_outbox::KafkaSink::new(rdkafka::ClientConfig::new());
    assert!(nothing.unwrap_err().to_string().starts_with("bootstrap.servers must be set"));
}
