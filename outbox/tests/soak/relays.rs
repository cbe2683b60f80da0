//! A reader in a process of its own: the product's relay, or a double.

use std::time::Duration;

use leastlock_outbox::{KafkaSink, Relay};
use leastlock_testkit::TestEngine;
use leastlock_testkit::broker::Broker;
use leastlock_testkit::database::Postgres;
use leastlock_testkit::process::{Child, child_role};
use rdkafka::ClientConfig;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::doubles;

const ROLE: &str = "relays::reader";

/// What a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// The product. Nothing notes more than `in_flight` events after they were published.
    Relay { lease: Duration, in_flight: u32, in_transactions: bool },
    /// Deletes a page, then publishes it.
    NotesFirst,
    /// Locks the next rows that nobody has locked, publishes them, deletes them.
    SkipsLocked,
    /// Publishes all there is and notes none of it.
    NeverNotes,
}

impl Reader {
    /// Starts it. It runs until it is killed.
    pub(crate) fn start(self, url: &str, broker: &Broker) -> Child {
        let (name, lease, in_flight) = match self {
            Self::Relay { lease, in_flight, in_transactions: false } => ("relay", lease.as_millis(), in_flight),
            Self::Relay { lease, in_flight, in_transactions: true } => {
                ("relay in transactions", lease.as_millis(), in_flight)
            }
            Self::NotesFirst => ("notes first", 0, 0),
            Self::SkipsLocked => ("skips locked", 0, 0),
            Self::NeverNotes => ("never notes", 0, 0),
        };
        let (lease, in_flight) = (lease.to_string(), in_flight.to_string());
        let envs = [
            ("READER", name),
            ("READER_URL", url),
            ("READER_BROKERS", broker.bootstrap()),
            ("READER_LEASE_MS", &lease),
            ("READER_IN_FLIGHT", &in_flight),
        ];
        Child::rerun(ROLE, &envs)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader() {
    if !child_role(ROLE) {
        return;
    }
    let told = |name: &str| std::env::var(name).expect("the parent says it");
    let pool = Postgres::connect(&told("READER_URL")).await;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", told("READER_BROKERS"));
    match told("READER").as_str() {
        name @ ("relay" | "relay in transactions") => {
            let sink = if name == "relay" {
                KafkaSink::new(config)
            } else {
                // One name for all relays of the database: a shard's next owner fences the last.
                KafkaSink::transactional(config, told("READER_URL").rsplit('/').next().expect("a database"))
            };
            let sink = sink.expect("valid settings");
            let lease = Duration::from_millis(told("READER_LEASE_MS").parse().expect("milliseconds"));
            relay(&pool, sink, lease, told("READER_IN_FLIGHT").parse().expect("a number")).await;
        }
        "notes first" => doubles::notes_first(&pool, &config).await,
        "skips locked" => doubles::skips_locked(&pool, &config).await,
        _ => doubles::never_notes(&pool, &config).await,
    }
}

async fn relay(pool: &PgPool, sink: KafkaSink, lease: Duration, in_flight: u32) {
    let relay = Relay::builder(pool, sink).lease(lease).in_flight(in_flight);
    relay.build().expect("valid settings").run(CancellationToken::new()).await.expect("the relay runs");
}
