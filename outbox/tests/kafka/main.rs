//! The relay to Kafka: librdkafka's mock cluster with SQLite, the real broker with PostgreSQL.
#![cfg(feature = "kafka")]

#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod suite;

#[cfg(feature = "sqlite")]
mod sqlite_mock {
    use leastlock_testkit::broker::Broker;
    use leastlock_testkit::{TestDatabase, database::Sqlite};

    use crate::suite;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn events_reach_their_topic_in_order_per_key() {
        suite::events_reach_their_topic_in_order_per_key(TestDatabase::<Sqlite>::create().await, Broker::mock()).await;
    }
}

#[cfg(feature = "postgres")]
mod postgres_kafka {
    use leastlock_testkit::broker::Broker;
    use leastlock_testkit::{TestDatabase, database::Postgres};

    use crate::suite;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn events_reach_their_topic_in_order_per_key() {
        suite::events_reach_their_topic_in_order_per_key(TestDatabase::<Postgres>::create().await, Broker::real())
            .await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn event_that_the_topic_cannot_take_stops_the_relay_before_it() {
        suite::event_that_the_topic_cannot_take_stops_the_relay_before_it(
            TestDatabase::<Postgres>::create().await,
            Broker::real(),
        )
        .await;
    }
}

#[test]
fn settings_that_order_rests_on_cannot_be_turned_off() {
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", "127.0.0.1:1").set("acks", "1");
    let refused = leastlock_outbox::KafkaSink::new(config);
    assert!(refused.unwrap_err().to_string().starts_with("acks must be all"));
}
