//! A worker of the library.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_partition_worker::{BatchFailure, BatchHandler, Effect, Failure, Handler, Record, Timeouts, Worker};
use leastlock_testkit::database::Postgres;
use rdkafka::ClientConfig;
use sqlx::Transaction;

use super::{BATCHES, IDLE, SESSION};
use crate::ground::Server;
use crate::part::Part;
use crate::pool::Pooled;

/// Where a worker may be killed or stopped: its effect is there, and not committed.
pub(super) const MOVED: &str = "moved";
/// What a worker notes when it has ended with an error; it begins again.
pub(super) const ENDED: &str = "worker ended";

const HANDLERS: usize = 6;
/// So few records of a batch that it takes several to catch up.
const MAX_BATCH: usize = 20;

/// What clients of Kafka have in common.
pub(super) fn kafka(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("reconnect.backoff.max.ms", "500").set("log_level", "2");
    config
}

pub(super) async fn play(part: Part) -> anyhow::Result<()> {
    let pool = Postgres::lazy(part.address(Server::Postgres)?, u32::try_from(HANDLERS)? + 4)?;
    while !part.shutdown.is_cancelled() {
        let mut config = kafka(part.address(Server::Kafka)?);
        config.set("group.id", &part.task.name).set("session.timeout.ms", SESSION.as_millis().to_string());
        config.set("heartbeat.interval.ms", "1000").set("auto.offset.reset", "earliest");
        let timeouts = Timeouts { idle: IDLE, seal: Duration::from_secs(1), ..Timeouts::default() };
        let worker = Worker::builder(config).topic(&part.task.name).concurrency(HANDLERS).rejoin_after(SESSION);
        let worker = worker.effect(Effect::in_database(&pool).timeouts(timeouts)).max_batch(MAX_BATCH).build()?;
        let (movement, shutdown) = (Movement { part: Arc::new(part.clone()) }, part.shutdown.clone());
        let ended = if part.task.workload == BATCHES {
            worker.run_batches(movement, shutdown).await
        } else {
            worker.run(movement, shutdown).await
        };
        match ended {
            Ok(_) => return Ok(()),
            Err(error) => part.recorder.note(ENDED, &error.to_string()),
        }
        part.pause(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// The handler. Nothing in it asks whether the record has taken effect before.
struct Movement {
    part: Arc<Part>,
}

impl Handler<Postgres> for Movement {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, Postgres>) -> Result<(), Failure> {
        self.apply(record, tx).await
    }
}

/// Many in one transaction.
impl BatchHandler<Postgres> for Movement {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, Postgres>) -> Result<(), BatchFailure> {
        for record in batch {
            self.apply(record, tx).await?;
        }
        Ok(())
    }
}

impl Movement {
    async fn apply(&self, record: &Record, tx: &mut Transaction<'_, Postgres>) -> Result<(), Failure> {
        let account = String::from_utf8_lossy(record.key().unwrap_or_default()).into_owned();
        let shift =
            Statement::new(include_str!("../../sql/ledger/move.sql")).bind(&*account).bind(record.json::<i64>()?);
        shift.execute::<Postgres>(tx).await?;
        let (writer, group) = (self.part.task.by(), &*self.part.task.name);
        let note = Statement::new(include_str!("../../sql/ledger/note.sql")).bind(i64::from(record.partition()));
        let note = note.bind(&*account).bind(record.offset()).bind(&*writer).bind(group);
        note.execute::<Postgres>(tx).await?;
        self.part.point(MOVED);
        Ok(())
    }
}
