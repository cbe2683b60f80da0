//! Handlers that update a row of their key in PostgreSQL.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use leastlock_partition_worker::{BatchFailure, BatchHandler, Effect, Failure, Handler, Process, Record, Worker};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection, PgPool, Postgres, Transaction};

use super::by_hand::{self, Dealt, Hand};
use super::site::Site;
use super::sleep::{CPU, PEAK, SPEED};
use super::tally::Tally;
use super::task::{Measured, Task, Work};
use super::topic::key_name;
use super::{Way, child};
use crate::options::WorkerOptions;
use crate::progress::Progress;
use crate::sheet::Sheet;

pub(super) const PART: &str = "row";
const FIGURES: [&str; 5] = [SPEED, "p50 ms", "p99 ms", CPU, PEAK];
const WAYS: [Way; 5] = [Way::Loop, Way::Worker, Way::LoopTransaction, Way::Record, Way::Batch];
const KEYS: u64 = 1000;
/// Handlers, and connections for them.
const AT_ONCE: u16 = 16;
/// For seals and folds.
const BESIDE: u32 = 4;
const AROUND: Duration = Duration::from_secs(2);

const UPDATE_MANY: &str = include_str!("../../sql/postgres/worker/update_rows.sql");
const UPDATE: &str = include_str!("../../sql/postgres/worker/update_row.sql");

/// How many turns, and how long about.
pub(super) fn turns(options: &WorkerOptions) -> (u64, Duration) {
    let turns = u64::from(options.common.rounds) * options.running(&WAYS).len() as u64;
    (turns, (options.common.seconds + AROUND).saturating_mul(u32::try_from(turns).unwrap_or(u32::MAX)))
}

/// Measures the part, on the real broker.
pub(super) async fn measure(site: &Site, options: &WorkerOptions, progress: &Progress) -> anyhow::Result<Sheet> {
    let mut sheet = Sheet::new(PART, Some(Way::Loop.name()), &FIGURES);
    let topic = site.real_topic(options.records, KEYS, 1).await?;
    let setting = format!("a row of {KEYS}, 1 partition, {AT_ONCE} connections");
    for _ in 0..options.common.rounds {
        for way in options.running(&WAYS) {
            fill(&site.database.pool).await?;
            let (records, time, url) = (options.records, options.common.seconds, site.database.url.clone());
            let task = Task::new(way, &topic, usize::from(AT_ONCE), Work::Row { records, time, url });
            let place = || format!("{PART}, {}", way.name());
            let measured = child::measure(&task).with_context(place)?;
            let applied = site.database.int("SELECT sum(moves)::bigint FROM bench_row").await;
            // A handler may be at work when the time is over.
            anyhow::ensure!(
                applied.cast_unsigned() >= measured.records,
                "{}: {} records were done, and {applied} were applied",
                place(),
                measured.records
            );
            progress.turn_ended(&format!("{}: {:.0} records/s", place(), measured.per_second()));
            let ms = |us: Option<f64>| us.map_or(f64::NAN, |us| us / 1e3);
            let figures = vec![
                measured.per_second(),
                ms(measured.p50_us),
                ms(measured.p99_us),
                measured.cpu_us(),
                measured.peak_mib,
            ];
            sheet.note(&setting, way.name(), figures);
        }
    }
    Ok(sheet)
}

/// A row for each key, none moved; nothing is left over for autovacuum to do meanwhile.
async fn fill(pool: &PgPool) -> sqlx::Result<()> {
    let keys: Vec<String> = (0..KEYS).map(key_name).collect();
    sqlx::query("TRUNCATE bench_row").execute(pool).await?;
    sqlx::query("INSERT INTO bench_row SELECT unnest($1::text[]), 0").bind(keys).execute(pool).await?;
    sqlx::query("VACUUM ANALYZE bench_row").execute(pool).await?;
    sqlx::query("CHECKPOINT").execute(pool).await.map(drop)
}

/// The child's part.
pub(super) async fn in_child(task: &Task) -> anyhow::Result<Measured> {
    let Work::Row { records, time, url } = &task.work else { anyhow::bail!("another task") };
    let tally = Arc::new(Tally::of(*records));
    let beside = if matches!(task.way, Way::Record | Way::Batch) { BESIDE } else { 0 };
    let pool = PgPoolOptions::new().max_connections(u32::from(AT_ONCE) + beside).test_before_acquire(false);
    let pool = pool.connect(url).await?;
    match task.way {
        Way::Loop | Way::LoopTransaction => {
            let mut hands = Vec::new();
            for _ in 0..AT_ONCE {
                hands.push(Mover { connection: pool.acquire().await?, transaction: task.way == Way::LoopTransaction });
            }
            by_hand::deal(task, hands, tally, *time).await
        }
        Way::Record => {
            let worker = Worker::builder(child::kafka(task)).topic(&task.topic).effect(Effect::in_database(&pool));
            let worker = worker.concurrency(usize::from(AT_ONCE)).build()?;
            child::until_measured(&tally, *time, |shutdown| worker.run(InTransaction(Arc::clone(&tally)), shutdown))
                .await
        }
        Way::Worker => {
            let worker = Worker::builder(child::kafka(task)).topic(&task.topic).effect(Effect::at_least_once());
            let worker = worker.concurrency(usize::from(AT_ONCE)).build()?;
            let rows = Rows { tally: Arc::clone(&tally), connections: Mutex::default() };
            for _ in 0..AT_ONCE {
                rows.give_back(pool.acquire().await?);
            }
            child::until_measured(&tally, *time, |shutdown| worker.run(rows, shutdown)).await
        }
        Way::Batch => {
            let worker = Worker::builder(child::kafka(task)).topic(&task.topic).effect(Effect::in_database(&pool));
            let worker = worker.build()?;
            let rows = InTransaction(Arc::clone(&tally));
            child::until_measured(&tally, *time, |shutdown| worker.run_batches(rows, shutdown)).await
        }
        Way::Poll => anyhow::bail!("{} updates no row", task.way.name()),
    }
}

/// A task of the loop, with its connection.
struct Mover {
    connection: PoolConnection<Postgres>,
    transaction: bool,
}

impl Hand for Mover {
    async fn take(&mut self, record: &Dealt) -> anyhow::Result<()> {
        if !self.transaction {
            return Ok(update(&mut self.connection, &record.key).await?);
        }
        let mut tx = self.connection.begin().await?;
        update(&mut tx, &record.key).await?;
        Ok(tx.commit().await?)
    }
}

/// The worker's handler where the mark of being finished is not in the database. It has its connections for itself, as the tasks of the
/// loop have theirs: sqlx asks each one for an answer that goes back to its pool, which is a round trip beside the one of the
/// statement.
struct Rows {
    tally: Arc<Tally>,
    /// Those that no record has.
    connections: Mutex<Vec<PoolConnection<Postgres>>>,
}

impl Rows {
    fn take(&self) -> Option<PoolConnection<Postgres>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, connection: PoolConnection<Postgres>) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

impl Process for Rows {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        self.tally.came();
        let mut connection = self.take().ok_or_else(|| Failure::retry("there are more records than connections"))?;
        update(&mut connection, record.key().unwrap_or_default()).await?;
        self.give_back(connection);
        self.tally.done(record.polled_at());
        Ok(())
    }
}

/// The worker's handler where it is.
struct InTransaction(Arc<Tally>);

impl Handler<Postgres> for InTransaction {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, Postgres>) -> Result<(), Failure> {
        self.0.came();
        update(tx, record.key().unwrap_or_default()).await?;
        self.0.done(record.polled_at());
        Ok(())
    }
}

impl BatchHandler<Postgres> for InTransaction {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, Postgres>) -> Result<(), BatchFailure> {
        self.0.came();
        let mut moves = BTreeMap::<_, i64>::new();
        for record in batch {
            *moves.entry(String::from_utf8_lossy(record.key().unwrap_or_default())).or_default() += 1;
        }
        let (keys, moves): (Vec<_>, Vec<_>) = moves.into_iter().map(|(key, moves)| (key.into_owned(), moves)).unzip();
        sqlx::query(UPDATE_MANY).bind(keys).bind(moves).execute(&mut **tx).await?;
        for record in batch {
            self.0.done(record.polled_at());
        }
        Ok(())
    }
}

async fn update(connection: &mut PgConnection, key: &[u8]) -> sqlx::Result<()> {
    let key = String::from_utf8_lossy(key);
    sqlx::query(UPDATE).bind(&*key).execute(connection).await.map(drop)
}
