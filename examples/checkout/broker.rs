//! Kafka: real brokers, or a mock cluster inside this process.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

use crate::ended::Ended;

/// How long a request to the brokers may take.
const REQUEST: Duration = Duration::from_secs(10);
const PARTITIONS: i32 = 3;

/// Where the events go.
pub(crate) enum Broker {
    Real { brokers: String },
    InProcess { cluster: MockCluster<'static, DefaultProducerContext> },
}

impl Broker {
    /// Reaches the brokers, or starts a cluster of one.
    pub(crate) fn open(brokers: Option<&str>) -> Result<Self, Ended> {
        match brokers {
            None => {
                let cluster = MockCluster::new(1).map_err(|error| Ended::refused("the in-process Kafka", &error))?;
                Ok(Self::InProcess { cluster })
            }
            Some(brokers) => {
                let broker = Self::Real { brokers: brokers.to_owned() };
                let admin = broker.admin()?;
                let metadata = admin.inner().fetch_metadata(None, REQUEST);
                metadata.map_err(|error| {
                    Ended::refused(&format!("cannot reach Kafka at {brokers}: no answer within {REQUEST:?}"), &error)
                })?;
                Ok(broker)
            }
        }
    }

    /// What `bootstrap.servers` must be.
    pub(crate) fn bootstrap(&self) -> String {
        match self {
            Self::Real { brokers } => brokers.clone(),
            Self::InProcess { cluster } => cluster.bootstrap_servers(),
        }
    }

    /// What a database remembers of it; an in-process cluster is gone with its process.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Real { brokers } => brokers,
            Self::InProcess { .. } => "in-process",
        }
    }

    /// Makes the topic, if it is not there yet.
    pub(crate) fn make_topic(&self, topic: &str, runtime: &tokio::runtime::Runtime) -> Result<(), Ended> {
        let doing = || format!("cannot make the topic {topic}");
        match self {
            Self::InProcess { cluster } => {
                cluster.create_topic(topic, PARTITIONS, 1).map_err(|error| Ended::refused(&doing(), &error))
            }
            Self::Real { .. } => {
                let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1));
                let options = AdminOptions::new().operation_timeout(Some(REQUEST)).request_timeout(Some(REQUEST));
                let admin = self.admin()?;
                let made = runtime.block_on(admin.create_topics([&new], &options));
                match made.map_err(|error| Ended::refused(&doing(), &error))?.into_iter().next() {
                    None | Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
                    Some(Err((_, code))) => Err(Ended::refused(&doing(), &code)),
                }
            }
        }
    }

    /// Deletes a topic that nothing will go on with. An in-process cluster goes with its process; a real one that does not do it
    /// keeps a topic that nobody reads.
    pub(crate) fn delete_topic(&self, topic: &str, runtime: &tokio::runtime::Runtime) {
        if let Self::Real { .. } = self
            && let Ok(admin) = self.admin()
        {
            let options = AdminOptions::new().operation_timeout(Some(REQUEST)).request_timeout(Some(REQUEST));
            let deleted = runtime.block_on(admin.delete_topics(&[topic], &options));
            tracing::debug!(?deleted, topic, "the plain form's topic");
        }
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>, Ended> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap()).set("log_level", "0");
        config.create().map_err(|error| Ended::refused("the Kafka client", &error))
    }
}
