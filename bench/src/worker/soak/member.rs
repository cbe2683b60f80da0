//! One of the workers, in a process of its own.

use std::sync::Arc;
use std::time::Duration;

use leastlock_partition_worker::effect::InDatabase;
use leastlock_partition_worker::{
    BatchFailure, BatchHandler, Effect, Failure, Handler, Process, Record, Timeouts, Worker,
};
use leastlock_testkit::process::{hear, speak};
use rdkafka::ClientConfig;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool, Postgres, Transaction};
use tokio_util::sync::CancellationToken;

use super::super::task::{Protocol, Task, Work};
use super::super::{Way, child};

/// What a member says once it is about to join.
pub(super) const READY: &str = "joining";
/// For seals and folds.
const BESIDE: usize = 4;
/// How long a stopped member may hold up the next owner.
const IDLE: Duration = Duration::from_secs(3);
/// So few records of a batch that it takes several to catch up.
const MAX_BATCH: usize = 20;

/// Consumes until the parent hangs up.
pub(in super::super) async fn run(task: &Task) -> anyhow::Result<()> {
    let Work::Soak { url, process, session, protocol } = &task.work else { anyhow::bail!("another task") };
    let shutdown = CancellationToken::new();
    let ended = shutdown.clone();
    std::thread::spawn(move || {
        while hear().is_some() {}
        ended.cancel();
    });
    let connections = u32::try_from(task.concurrency + BESIDE)?;
    let pool = PgPoolOptions::new().max_connections(connections).test_before_acquire(false).connect(url).await?;
    let about = Arc::new(About { process: *process, group: task.group.clone() });
    speak(READY);
    match task.way {
        Way::Record => fenced(task, &pool)?.run(Fenced(about), shutdown).await.map(drop)?,
        Way::Batch => fenced(task, &pool)?.run_batches(Fenced(about), shutdown).await.map(drop)?,
        Way::Worker => {
            let worker = Worker::builder(kafka(task, *session, *protocol)).topic(&task.topic);
            let worker = worker.effect(Effect::at_least_once()).concurrency(task.concurrency).build()?;
            worker.run(Unfenced { about, pool }, shutdown).await?;
        }
        way => anyhow::bail!("{} takes no part in the soak", way.name()),
    }
    Ok(())
}

fn fenced(task: &Task, pool: &PgPool) -> anyhow::Result<Worker<InDatabase<Postgres>>> {
    let Work::Soak { session, protocol, .. } = &task.work else { anyhow::bail!("another task") };
    let timeouts = Timeouts { idle: IDLE, seal: Duration::from_secs(1), ..Timeouts::default() };
    let worker = Worker::builder(kafka(task, *session, *protocol)).topic(&task.topic);
    let worker = worker.effect(Effect::in_database(pool).timeouts(timeouts)).concurrency(task.concurrency);
    Ok(worker.max_batch(MAX_BATCH).rejoin_after(*session).build()?)
}

fn kafka(task: &Task, session: Duration, protocol: Protocol) -> ClientConfig {
    let mut config = child::kafka(task);
    config.set("log_level", "3");
    match protocol {
        Protocol::Consumer => drop(config.set("group.protocol", "consumer")),
        Protocol::Eager | Protocol::Cooperative => {
            let strategy = if protocol == Protocol::Eager { "range" } else { "cooperative-sticky" };
            config.set("session.timeout.ms", session.as_millis().to_string()).set("heartbeat.interval.ms", "1000");
            config.set("partition.assignment.strategy", strategy);
        }
    }
    config
}

/// What an effect says of who did it.
struct About {
    process: i64,
    group: String,
}

impl About {
    /// A row that says whose the partition is. Without the fence there is nobody's, so it is made up.
    async fn own(&self, record: &Record, connection: &mut PgConnection) -> Result<(), Failure> {
        const OWN: &str = include_str!("../../../sql/postgres/worker/soak_own.sql");
        let own = sqlx::query(OWN).bind(&self.group).bind(record.topic()).bind(i64::from(record.partition()));
        own.bind(self.process.to_string()).execute(connection).await?;
        Ok(())
    }

    async fn apply(&self, record: &Record, connection: &mut PgConnection) -> Result<(), Failure> {
        const MOVE: &str = include_str!("../../../sql/postgres/worker/soak_move.sql");
        let account = String::from_utf8_lossy(record.key().unwrap_or_default());
        let moved = sqlx::query(MOVE).bind(&*account).bind(record.json::<i64>()?).bind(self.process);
        let moved = moved.bind(i64::from(record.partition())).bind(record.offset());
        let moved = moved.bind(&self.group).bind(record.topic()).execute(connection).await?;
        match moved.rows_affected() {
            1 => Ok(()),
            rows => Err(Failure::permanent(format!("an effect has {rows} rows"))),
        }
    }
}

/// Its effect is exactly once.
struct Fenced(Arc<About>);

impl Handler<Postgres> for Fenced {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, Postgres>) -> Result<(), Failure> {
        self.0.apply(record, tx).await
    }
}

/// Many in one transaction.
impl BatchHandler<Postgres> for Fenced {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, Postgres>) -> Result<(), BatchFailure> {
        for record in batch {
            self.0.apply(record, tx).await?;
        }
        Ok(())
    }
}

/// The double: the same in a transaction of its own, at least once.
struct Unfenced {
    about: Arc<About>,
    pool: PgPool,
}

impl Process for Unfenced {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        let mut tx = self.pool.begin().await?;
        self.about.own(record, &mut tx).await?;
        self.about.apply(record, &mut tx).await?;
        Ok(tx.commit().await?)
    }
}
