//! A relay: what was committed goes to Kafka.

use std::time::Duration;

use leastlock_outbox::{KafkaSink, Relay};
use rdkafka::ClientConfig;

use super::shop::Engine;
use super::{LEASE, by_hand, mutant};
use crate::ground::Server;
use crate::part::Part;

const CONNECTIONS: u32 = 5;
/// What a relay notes when it has ended with an error; it begins again.
pub(super) const ENDED: &str = "relay ended";

pub(super) async fn play<DB: Engine>(part: Part) -> anyhow::Result<()> {
    if let Some(mistake) = mutant::RELAYS.iter().find(|mutant| part.is_mutant(mutant)) {
        return by_hand::play(&part, mistake).await;
    }
    let pool = DB::lazy(part.address(DB::SERVER)?, CONNECTIONS)?;
    while !part.shutdown.is_cancelled() {
        let sink = KafkaSink::new(producer(part.address(Server::Kafka)?))?;
        let relay = Relay::builder(&pool, sink).lease(LEASE).build()?;
        match relay.run(part.shutdown.clone()).await {
            Ok(_) => return Ok(()),
            Err(error) => part.recorder.note(ENDED, &error.to_string()),
        }
        part.pause(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// The settings of a producer that finds its broker again soon after it was away.
pub(super) fn producer(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("reconnect.backoff.max.ms", "500").set("log_level", "2");
    config
}
