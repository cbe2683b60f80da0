//! Writers that commit at moments which are fixed before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use leastlock_core::Statement;
use leastlock_outbox::{Event, Outbox};
use leastlock_testkit::TestDatabase;
use sqlx::{Pool, Transaction};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::super::events::{key_name, value};
use super::super::site::Site;
use super::super::{OutboxEngine, Way};
use crate::engine::open_pool;

/// How many commit at once at most; each has a key of its own, so that its events have an order.
const WRITERS: u32 = 24;
/// The writers are in time if they end so long after the last moment.
const LATE: Duration = Duration::from_millis(100);

/// How fast, and how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Transactions a second.
    pub(super) rate: f64,
    /// Before anything counts.
    pub(super) warm: Duration,
    /// What counts.
    pub(super) counted: Duration,
}

impl Pace {
    pub(super) fn events(self) -> u64 {
        self.first_counted() + self.events_in(self.counted)
    }

    /// The number of the first event that counts.
    pub(super) fn first_counted(self) -> u64 {
        self.events_in(self.warm)
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates and times are bounded and positive"
    )]
    fn events_in(self, time: Duration) -> u64 {
        (self.rate * time.as_secs_f64()).round() as u64
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of events are far below 2^53")]
    fn moment(self, number: u64) -> Duration {
        Duration::from_secs_f64(number as f64 / self.rate)
    }
}

/// Who writes what.
pub(super) struct Writers {
    pub(super) way: Way,
    pub(super) pace: Pace,
    pub(super) topic: String,
    pub(super) bytes: usize,
}

/// What was written.
pub(super) struct Written {
    /// When the last commit was answered.
    pub(super) ended: Instant,
    /// Whether the moments were kept.
    pub(super) in_time: bool,
    started: Instant,
    /// When each COMMIT was sent, in nanoseconds since the start.
    sent_ns: Vec<AtomicU64>,
}

impl Written {
    /// From COMMIT to arrival, of the events from `first` on; of a repeat, the first arrival.
    pub(super) fn latencies_ns(&self, received: &[(u64, Instant)], first: u64) -> Vec<u64> {
        let mut came: Vec<_> = received.iter().filter(|(number, _)| *number >= first).collect();
        came.sort_unstable();
        came.dedup_by_key(|(number, _)| *number);
        let latency = |(number, at): &&(u64, Instant)| {
            let sent = self.sent_ns.get(usize::try_from(*number).ok()?)?.load(Relaxed);
            u64::try_from(at.duration_since(self.started).as_nanos()).ok()?.checked_sub(sent)
        };
        came.iter().filter_map(latency).collect()
    }
}

/// What all writers share.
struct Desk<DB: OutboxEngine> {
    writers: Writers,
    pool: Pool<DB>,
    outbox: Outbox,
    next: AtomicU64,
    started: Instant,
    sent_ns: Vec<AtomicU64>,
}

impl Writers {
    /// Commits every event at its moment.
    pub(super) async fn write<DB: OutboxEngine>(self, site: &Site<DB>) -> anyhow::Result<Written> {
        let limit = DB::limit(&site.database).await?;
        let pool = open_pool::<DB>(&site.database.url, WRITERS, limit).await?;
        let events = self.pace.events();
        let sent_ns = (0..events).map(|_| AtomicU64::new(u64::MAX)).collect();
        let (outbox, next, started) = (site.outbox.clone(), AtomicU64::new(0), Instant::now());
        let desk = Arc::new(Desk { writers: self, pool, outbox, next, started, sent_ns });
        let mut writing = JoinSet::new();
        for writer in 0..WRITERS {
            writing.spawn(write(Arc::clone(&desk), writer, events));
        }
        while let Some(writer) = writing.join_next().await {
            writer.context("a writer panicked")??;
        }
        desk.pool.close().await;
        let desk = Arc::into_inner(desk).context("a writer is left")?;
        let ended = Instant::now();
        let in_time = ended - started <= desk.writers.pace.moment(events) + LATE;
        Ok(Written { ended, in_time, started, sent_ns: desk.sent_ns })
    }
}

async fn write<DB: OutboxEngine>(desk: Arc<Desk<DB>>, writer: u32, events: u64) -> anyhow::Result<()> {
    let key = key_name(u64::from(writer));
    loop {
        let number = desk.next.fetch_add(1, Relaxed);
        if number >= events {
            return Ok(());
        }
        tokio::time::sleep_until((desk.started + desk.writers.pace.moment(number)).into()).await;
        let mut tx = desk.pool.begin_with(DB::BEGIN_WRITE).await?;
        let value = value(number, desk.writers.bytes);
        if desk.writers.way == Way::Loop {
            DB::append(&mut tx, (Uuid::now_v7(), &desk.writers.topic, key.as_bytes(), &value)).await?;
        } else {
            desk.outbox.append(&mut tx, Event::new(&desk.writers.topic, key.as_str()).bytes(value)).await?;
        }
        let sent = u64::try_from(desk.started.elapsed().as_nanos())?;
        desk.sent_ns[usize::try_from(number)?].store(sent, Relaxed);
        tx.commit().await?;
        if desk.writers.way == Way::RelayWoken {
            desk.outbox.wake().notify();
        }
    }
}

/// A transaction that has written something that concerns nobody.
pub(super) async fn open_transaction<DB: OutboxEngine>(
    database: &TestDatabase<DB>,
) -> anyhow::Result<Transaction<'static, DB>> {
    database.execute("CREATE TABLE IF NOT EXISTS stranger (id integer)").await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await?;
    Statement::new("INSERT INTO stranger VALUES (1)").execute::<DB>(&mut tx).await?;
    Ok(tx)
}
