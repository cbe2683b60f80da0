//! Reads what became visible, publishes it, notes how far.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::outbox::Wake;
use crate::relay::blocking::Policies;
use crate::relay::ownership::Ownership;
use crate::relay::pipeline::Limits;
use crate::relay::retention::Sweeper;
use crate::relay::run::Run;
use crate::sink::Sink;
use crate::sql::OutboxSql;

pub(crate) mod balance;
mod blocking;
pub(crate) mod connection;
pub(crate) mod cursor;
pub(crate) mod log;
mod ownership;
pub(crate) mod pipeline;
mod resume;
mod retention;
mod run;
mod slot;
mod stats;
#[cfg(feature = "metrics")]
mod watch;

pub use self::blocking::OnRefusal;
pub use self::log::{Log, SqlLog};
pub use self::stats::Stats;

/// How often it is noted how far was published, unless much is.
const NOTE_EVERY: Duration = Duration::from_millis(100);
/// How often the sink's answers are looked at. They come by themselves, and each look wakes a thread.
const REPORTS_EVERY: Duration = Duration::from_millis(1);

/// How long events may be kept.
const RETENTION: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24 * 365 * 10);

/// Publishes the events of an outbox.
///
/// Several relays may run: each shard is read by one of them at a time, under a lease on the database's clock. A relay
/// that dies is followed by another once its lease is over. No transaction or lock is held while the sink is waited for.
///
/// On PostgreSQL, MariaDB and MySQL the relay keeps one connection of the pool, and its heartbeat takes another for a moment, so the pool
/// must have two. They must be sessions of its own: behind a pooler that lends a session for a transaction, settings and locks that it
/// makes for its session come to others, or are lost. A database that does not answer is not waited for without end, and its connection is closed:
/// connecting, a read, the note of what was published and each step of a retry get the lease, a claim and giving the shards
/// back a third of it, a renewal a sixth (three fit into a lease). A read or a claim that was cut off gets twice as long the
/// next time.
///
/// Woken ([`woken_by`](RelayBuilder::woken_by)) it reads at once. Else it looks again after a quarter of the time since something came
/// last, between 0.5 and 250 ms: some 30 reads in the first second in which nothing comes, then 4 a second.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `lease` | 10 s | after a crash, shards are taken over when it is over; so long at most is an answer waited for before a shard is handed over, or an event sent alone |
/// | `page` | 200 | events of a shard that one read takes |
/// | `ahead` | 1,000 | events of a shard that are read ahead of what is published without a gap |
/// | `in_flight` | 8,000 | events handed over and not noted, over all shards: published twice after a crash |
/// | `in_flight_bytes` | 32 MiB | bytes read and not published, over all shards; and as many of parked events that are retried |
/// | `drain` | 5 s | at shutdown, how long the sink may take for what is under way |
/// | `on_refusal` | block the key | what to do with an event that can never be sent; by topic: `on_refusal_in` |
/// | `keys_in_memory` | 10,000 | [blocked keys](crate::parked) of a shard, 16 bytes each; where there are more, every event is looked up |
/// | `retention` | 24 h | how long an event stays in the log after it was published, for a [`Replay`](crate::Replay) |
#[derive(Debug)]
#[must_use = "a relay does nothing until it runs"]
pub struct Relay<L: Log, S: Sink> {
    log: Arc<L>,
    sink: S,
    settings: Settings,
    wake: Wake,
    stats: Stats,
    policies: Policies,
    /// A sink is given one batch at a time.
    turn: Mutex<()>,
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    lease: Duration,
    page: u32,
    ahead: u32,
    in_flight: u32,
    in_flight_bytes: usize,
    drain: Duration,
    keys_in_memory: u32,
    retention: Option<Duration>,
}

impl Settings {
    fn limits(&self) -> Limits {
        let (ahead, in_flight) = (u64::from(self.ahead), u64::from(self.in_flight));
        Limits { ahead, in_flight, bytes: self.in_flight_bytes }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            page: 200,
            ahead: 1_000,
            in_flight: 8_000,
            in_flight_bytes: 32 << 20,
            drain: Duration::from_secs(5),
            keys_in_memory: 10_000,
            retention: Some(Duration::from_hours(24)),
        }
    }
}

/// What a relay did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Events acknowledged by the sink and noted as published.
    pub published: u64,
}

impl<DB: OutboxSql, S: Sink> Relay<SqlLog<DB>, S> {
    /// A relay from the outbox of `pool` to `sink`.
    pub fn builder(pool: &Pool<DB>, sink: S) -> RelayBuilder<SqlLog<DB>, S> {
        let spare = pool.options().get_max_connections() >= DB::RELAY_CONNECTIONS;
        RelayBuilder::over(SqlLog::of(pool), sink, spare)
    }
}

impl<L: Log, S: Sink> Relay<L, S> {
    /// Live figures, for a progress bar or a probe. Take them before [`run`](Self::run), which takes the relay.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats.clone()
    }

    /// Publishes until `shutdown`, then lets the sink finish what is under way, notes it, and gives the shards back.
    ///
    /// A database that is away, or that only reads for now, is waited for, with growing pauses; a sink that is away is waited for as long as the lease
    /// is renewed. Neither uses up anything. After `shutdown` it returns within `drain` and four thirds of the lease, and
    /// only a database that does not answer takes it beyond `drain`.
    ///
    /// Spawned, keep the handle and look at it: what ends the relay comes out of it, and nothing is published after that.
    ///
    /// # Errors
    /// [`Error::Refused`] (with [`OnRefusal::Halt`]), [`Error::Malformed`], [`Error::CursorAhead`], [`Error::Moved`] and
    /// [`Error::EventsAhead`] need somebody to act; a database error ends the
    /// relay only if a retry cannot help.
    ///
    /// # Cancel safety
    /// Dropped, it stops at once: what was published and not yet noted is published again by the next relay, once the
    /// lease is over.
    pub async fn run(self, shutdown: CancellationToken) -> Result<Summary, Error> {
        let ownership = Ownership::new(self.settings.lease);
        let heartbeat = CancellationToken::new();
        // Dropping this future drops the guard, which ends the heartbeat with it.
        let ends_heartbeat = heartbeat.clone().drop_guard();
        let keeper = tokio::spawn(ownership.clone().keep(self.log.clone(), heartbeat.clone()));
        if let Some(retention) = self.settings.retention {
            let sweeper = Sweeper::new(self.log.clone(), ownership.clone(), self.settings.lease, retention);
            tokio::spawn(sweeper.sweep_until(heartbeat.clone(), self.stats.clone()));
        }
        #[cfg(feature = "metrics")]
        tokio::spawn(watch::until(heartbeat, self.log.clone()));
        let mut run = Run::new(&self, &ownership);
        let mut outcome = run.publish(&shutdown).await;
        let drained = run.drain().await;
        outcome = outcome.and_then(|()| run.refusal());
        if let Err(error) = drained {
            tracing::warn!(%error, "what was published last is not noted; it is published again");
        }
        drop(ends_heartbeat);
        if let Err(error) = keeper.await {
            tracing::error!(%error, "the heartbeat of the outbox relay panicked");
        }
        if let Err(error) = run.release().await {
            tracing::warn!(%error, "the shards were not given back; they are free when the lease is over");
        }
        outcome.map(|()| Summary { published: self.stats.published() })
    }
}

/// Builds a [`Relay`]; [`build`](Self::build) checks the limits.
#[derive(Debug)]
#[must_use = "call `build`"]
pub struct RelayBuilder<L: Log, S: Sink> {
    relay: Relay<L, S>,
    /// Whether the log has the connections that a relay needs.
    enough_connections: bool,
}

impl<L: Log, S: Sink> RelayBuilder<L, S> {
    pub(crate) fn over(log: L, sink: S, enough_connections: bool) -> Self {
        let settings = Settings::default();
        let (log, wake, stats) = (Arc::new(log), Wake::default(), Stats::default());
        let (policies, turn) = (Policies::default(), Mutex::default());
        Self { relay: Relay { log, sink, settings, wake, stats, policies, turn }, enough_connections }
    }

    /// How long shards stay this relay's without a renewal (default: 10 s; 500 ms to 1 h).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.relay.settings.lease = lease;
        self
    }

    /// Events of a shard that one read takes (default: 200; 1 to 10,000).
    pub fn page(mut self, page: u32) -> Self {
        self.relay.settings.page = page;
        self
    }

    /// Events of a shard that are read ahead of what is published without a gap (default: 1,000; 1 to 1,000,000). What goes on
    /// behind an event that gets no answer, on a partition without a leader say, goes on as far as this.
    pub fn ahead(mut self, ahead: u32) -> Self {
        self.relay.settings.ahead = ahead;
        self
    }

    /// Events, over all shards, that were handed to the sink and are not noted as published (default: 8,000; 1 to 1,000,000):
    /// after a crash so many are published twice at most, and besides those that were acknowledged behind one that was not.
    pub fn in_flight(mut self, in_flight: u32) -> Self {
        self.relay.settings.in_flight = in_flight;
        self
    }

    /// Bytes of key, value and headers, over all shards, that are read and not published (default: 32 MiB; 1 to 4 GiB). A read
    /// may go beyond it by one event.
    pub fn in_flight_bytes(mut self, in_flight_bytes: usize) -> Self {
        self.relay.settings.in_flight_bytes = in_flight_bytes;
        self
    }

    /// What to do with an event that the sink refuses for good (default: [`OnRefusal::BlockKey`]).
    pub fn on_refusal(mut self, policy: OnRefusal) -> Self {
        self.relay.policies.default = policy;
        self
    }

    /// The same for the events of one topic.
    pub fn on_refusal_in(mut self, topic: impl Into<String>, policy: OnRefusal) -> Self {
        self.relay.policies.topics.insert(topic.into(), policy);
        self
    }

    /// How many of a shard's blocked keys are kept in memory (default: 10,000; 1 to 1,000,000). Where there are more, the keys of
    /// every page are looked up in the tables; and at twice as many the relay claims its shards anew.
    pub fn keys_in_memory(mut self, keys: u32) -> Self {
        self.relay.settings.keys_in_memory = keys;
        self
    }

    /// How long the sink may take at shutdown for what is under way (default: 5 s; at most 1 h).
    pub fn drain(mut self, drain: Duration) -> Self {
        self.relay.settings.drain = drain;
        self
    }

    /// How long an event stays in the log after it was published (default: 24 h; 1 s to 10 years), and at most a twentieth longer,
    /// while a relay runs. Counted from its publication: what could not be published for a week is still kept as long after that. It
    /// is deleted in batches of at most 1,000, by the relay that holds its shard, which pauses three times as long as a batch
    /// takes. On MySQL and MariaDB an event is deleted when it was published, whatever this says.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.relay.settings.retention = Some(retention);
        self
    }

    /// Deletes nothing: the log grows until somebody else deletes what was published.
    pub fn keep_everything(mut self) -> Self {
        self.relay.settings.retention = None;
        self
    }

    /// The signal of an [`Outbox`](crate::Outbox) in the same process.
    pub fn woken_by(mut self, wake: Wake) -> Self {
        self.relay.wake = wake;
        self
    }

    /// The relay, if every limit makes sense and the pool has the connections that it needs.
    ///
    /// # Errors
    /// [`SettingError`] names the setting that is out of bounds.
    pub fn build(self) -> Result<Relay<L, S>, SettingError> {
        let Settings { lease, page, ahead, in_flight, in_flight_bytes, retention, .. } = self.relay.settings;
        if !(Duration::from_millis(500)..=Duration::from_hours(1)).contains(&lease) {
            return Err(SettingError { setting: "lease", bounds: "500 ms to 1 h" });
        }
        if !(1..=10_000).contains(&page) {
            return Err(SettingError { setting: "page", bounds: "1 to 10,000 events" });
        }
        for (setting, events) in [("ahead", ahead), ("in_flight", in_flight)] {
            if !(1..=1_000_000).contains(&events) {
                return Err(SettingError { setting, bounds: "1 to 1,000,000 events" });
            }
        }
        if !(1..=4 << 30).contains(&in_flight_bytes) {
            return Err(SettingError { setting: "in_flight_bytes", bounds: "1 byte to 4 GiB" });
        }
        if !(1..=1_000_000).contains(&self.relay.settings.keys_in_memory) {
            return Err(SettingError { setting: "keys_in_memory", bounds: "1 to 1,000,000 keys" });
        }
        if self.relay.settings.drain > Duration::from_hours(1) {
            return Err(SettingError { setting: "drain", bounds: "at most 1 h" });
        }
        if retention.is_some_and(|retention| !RETENTION.contains(&retention)) {
            return Err(SettingError { setting: "retention", bounds: "1 s to 10 years" });
        }
        if !self.enough_connections {
            let bounds = "at least 2: the relay keeps one, and its heartbeat takes another";
            return Err(SettingError { setting: "max_connections of the relay's pool", bounds });
        }
        Ok(self.relay)
    }
}

/// A setting that is out of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{setting} must be {bounds}")]
pub struct SettingError {
    /// Which one.
    pub setting: &'static str,
    /// What it may be.
    pub bounds: &'static str,
}

#[cfg(all(test, feature = "sqlite"))]
mod tests {
    use sqlx::SqlitePool;

    use super::*;
    use crate::sink::memory::MemorySink;

    #[tokio::test]
    async fn time_to_drain_that_no_clock_can_hold_is_refused() {
        let pool = SqlitePool::connect_lazy("sqlite::memory:").unwrap();
        let build = |drain| Relay::builder(&pool, MemorySink::default()).drain(drain).build();
        assert_eq!(build(Duration::MAX).unwrap_err().setting, "drain");
        assert!(build(Duration::ZERO).is_ok());
        assert!(build(Duration::from_hours(1)).is_ok());
    }
}
