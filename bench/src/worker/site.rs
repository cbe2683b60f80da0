//! Broker and database of all turns.

use std::collections::HashMap;
use std::sync::OnceLock;

use anyhow::Context;
use leastlock_partition_worker::MIGRATIONS;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::broker::{Broker, KAFKA_BROKERS};
use sqlx::Postgres;
use tokio::sync::Mutex;

use super::topic::{Records, Topic};
use crate::options::WorkerOptions;

/// Where the turns take place.
pub(super) struct Site {
    pub(super) database: TestDatabase<Postgres>,
    /// Inside this process, and not inside a contender's.
    mock: Broker,
    brokers: Option<String>,
    /// The real one, once it is asked for. Its topics go with it.
    real: OnceLock<Broker>,
    everywhere: bool,
    bytes: usize,
    seed: u64,
    /// Read by each contender anew.
    topics: Mutex<HashMap<(bool, u64, u64, i32), Topic>>,
}

impl Site {
    pub(super) async fn create(options: &WorkerOptions) -> anyhow::Result<Self> {
        let database = TestDatabase::<Postgres>::create().await.with(&MIGRATIONS).await;
        for table in include_str!("../../sql/postgres/worker/tables.sql").split_inclusive(';') {
            database.execute(table).await;
        }
        let brokers = options.brokers.clone().or_else(|| std::env::var(KAFKA_BROKERS).ok());
        Ok(Self {
            database,
            mock: Broker::mock(),
            brokers,
            real: OnceLock::new(),
            everywhere: options.real,
            bytes: options.bytes,
            seed: options.common.seed,
            topics: Mutex::default(),
        })
    }

    /// A topic with such records, on the mock cluster unless the real broker was asked for.
    pub(super) async fn topic(&self, count: u64, keys: u64, partitions: i32) -> anyhow::Result<Topic> {
        self.topic_on(self.everywhere, count, keys, partitions).await
    }

    /// A topic with such records on the real broker.
    pub(super) async fn real_topic(&self, count: u64, keys: u64, partitions: i32) -> anyhow::Result<Topic> {
        self.topic_on(true, count, keys, partitions).await
    }

    /// The real broker.
    pub(super) fn real(&self) -> anyhow::Result<&Broker> {
        let brokers = self.brokers.as_ref().with_context(|| {
            format!("no broker: give --brokers, or set {KAFKA_BROKERS} (eval \"$(scripts/services env)\")")
        })?;
        Ok(self.real.get_or_init(|| Broker::at(brokers)))
    }

    async fn topic_on(&self, real: bool, count: u64, keys: u64, partitions: i32) -> anyhow::Result<Topic> {
        let mut topics = self.topics.lock().await;
        if let Some(topic) = topics.get(&(real, count, keys, partitions)) {
            return Ok(topic.clone());
        }
        let records = Records { count, keys, partitions, bytes: self.bytes, seed: self.seed };
        let topic =
            if real { Topic::fill(self.real()?, records).await? } else { Topic::fill(&self.mock, records).await? };
        topics.insert((real, count, keys, partitions), topic.clone());
        Ok(topic)
    }
}
