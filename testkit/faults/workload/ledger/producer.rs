//! Whoever moves money: a record for each movement. What is in the topic is what has to take effect, whether the producer knows or not.

use std::time::Duration;

use rdkafka::producer::{FutureProducer, FutureRecord};

use super::ACCOUNTS;
use super::worker::kafka;
use crate::ground::Server;
use crate::part::Part;

/// What a producer calls.
const PRODUCE: &str = "produce";
const BEAT: Duration = Duration::from_millis(25);

pub(super) async fn play(part: Part) -> anyhow::Result<()> {
    let mut config = kafka(part.address(Server::Kafka)?);
    config.set("linger.ms", "1").set("message.timeout.ms", "20000");
    let producer: FutureProducer = config.set("enable.idempotence", "true").create()?;
    let mut rng = part.rng();
    while !part.draining.is_cancelled() {
        let (account, cents) = (format!("account-{}", rng.i64(0..ACCOUNTS)), rng.i64(-500..500).to_string());
        let pending = part.recorder.call(PRODUCE, &(&account, &cents));
        let record = FutureRecord::to(&part.task.name).key(&account).payload(&cents);
        match producer.send(record, Duration::ZERO).await {
            Ok(delivery) => pending.done(&(delivery.partition, delivery.offset)),
            Err(_) => drop(pending),
        }
        part.pause(BEAT).await;
    }
    part.shutdown.cancelled().await;
    Ok(())
}
