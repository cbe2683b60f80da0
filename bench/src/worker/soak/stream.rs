//! The records of a soak: moves of accounts, those of each numbered from 1.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use fastrand::Rng;
use rdkafka::ClientConfig;
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::super::topic::{Topic, key_name};
use super::ACCOUNTS;

const TICK: Duration = Duration::from_millis(10);

/// What a record says.
pub(super) fn value(sequence: u64) -> String {
    sequence.to_string()
}

/// A row for each account, and nothing else.
pub(super) async fn prepare(pool: &PgPool, accounts: u64) -> anyhow::Result<()> {
    let names: Vec<String> = (0..accounts).map(key_name).collect();
    sqlx::query("TRUNCATE soak_account, soak_effect").execute(pool).await?;
    sqlx::query("INSERT INTO soak_account SELECT unnest($1::text[]), 0").bind(names).execute(pool).await?;
    Ok(())
}

pub(super) struct Stream {
    producer: FutureProducer,
    topic: String,
    rate: u32,
    rng: Rng,
    /// Of each account.
    sequences: Vec<u64>,
}

impl Stream {
    pub(super) fn to(topic: &Topic, rate: u32, seed: u64) -> anyhow::Result<Self> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &topic.brokers).set("enable.idempotence", "true").set("log_level", "3");
        let producer = config.create()?;
        let sequences = vec![0; usize::try_from(ACCOUNTS)?];
        Ok(Self { producer, topic: topic.name.clone(), rate, rng: Rng::with_seed(seed), sequences })
    }

    /// Produces at the rate until it is told to stop; answers how many records of each account are in the log.
    pub(super) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<Vec<u64>> {
        let (began, mut produced, mut reports) = (Instant::now(), 0_u64, Vec::new());
        let mut ticks = tokio::time::interval(TICK);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let due = u64::try_from(began.elapsed().as_millis())? * u64::from(self.rate) / 1000;
            while produced < due {
                reports.push(self.produce()?);
                produced += 1;
            }
        }
        for report in reports {
            report.await?.map_err(|(error, _)| error)?;
        }
        Ok(self.sequences)
    }

    fn produce(&mut self) -> anyhow::Result<DeliveryFuture> {
        let account = self.rng.usize(..self.sequences.len());
        self.sequences[account] += 1;
        let (key, value) = (key_name(account as u64), value(self.sequences[account]));
        let record = FutureRecord::to(&self.topic).key(&key).payload(&value);
        self.producer.send_result(record).map_err(|(error, _)| anyhow!(error))
    }
}
