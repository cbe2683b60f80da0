//! Events that are still in the log, published once more.

use std::time::{SystemTime, UNIX_EPOCH};

use leastlock_core::{Statement, begin, commit};
use sqlx::Pool;

use crate::error::Error;
use crate::event::{Event, EventId};
use crate::outbox::Outbox;
use crate::sink::LoggedEvent;
use crate::sql::OutboxSql;

/// Events that are read and appended in one transaction. Twice as many are in memory at a time: 100 MB of the largest that the default
/// limit takes.
const BATCH: i64 = 50;

/// An engine whose log keeps what was published, so that it can be published again. MySQL's and MariaDB's does not.
pub trait ReplaySql: OutboxSql {
    /// The shards, each with its highest id.
    const REPLAY_SHARDS: &'static str;
    /// The next published events of a shard: shard, after which id, up to which id, since when (ms), topic, event id, limit.
    const REPLAY: &'static str;
}

#[cfg(feature = "postgres")]
impl ReplaySql for sqlx::Postgres {
    const REPLAY_SHARDS: &'static str = include_str!("../sql/postgres/replay_shards.sql");
    const REPLAY: &'static str = include_str!("../sql/postgres/replay.sql");
}

#[cfg(feature = "sqlite")]
impl ReplaySql for sqlx::Sqlite {
    const REPLAY_SHARDS: &'static str = include_str!("../sql/sqlite/replay_shards.sql");
    const REPLAY: &'static str = include_str!("../sql/sqlite/replay.sql");
}

/// Which events [`Outbox::replay`] publishes again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "give it to `Outbox::replay`"]
pub struct Replay {
    since_ms: i64,
    topic: String,
    event: String,
}

impl Replay {
    /// All that were appended at `time` or later, by the database's clock.
    pub fn since(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { since_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX), ..Self::default() }
    }

    /// One event.
    pub fn event(id: EventId) -> Self {
        Self { event: id.to_string(), ..Self::default() }
    }

    /// Of these, only those of a topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = topic.into();
        self
    }
}

impl Outbox {
    /// Publishes events again that were published and are still in the log ([`retention`](crate::RelayBuilder::retention)): appends a
    /// copy of each, with the same event id, which the relays publish like any other event. Answers how many.
    ///
    /// The copies of a key keep their order among each other, and follow what was appended before this call; between them stands
    /// what is appended meanwhile. So a consumer sees old events after newer ones of the same key: one that absorbs repeats by their
    /// ids does nothing with them, and one that is to build its state anew must begin from nothing. What was parked, or skipped by an
    /// operator, counts as published. A row from before the tables refused what no relay can send is left out, with a warning.
    ///
    /// It looks through all that is kept from `since` on, once; an event's id is looked for in all that is kept.
    ///
    /// # Errors
    /// [`Error::Database`] as any statement, [`Error::Malformed`] for a row that cannot be read.
    ///
    /// # Cancel safety
    /// Copies are appended in transactions of at most 50. Dropped or failed half-way, some are and the rest is not; called
    /// again, it copies all of them again, and the copies as well.
    pub async fn replay<DB: ReplaySql>(&self, pool: &Pool<DB>, replay: &Replay) -> Result<u64, Error> {
        let mut replayed = 0;
        for (shard, highest) in shards(pool).await? {
            let mut after = 0;
            while let Some((last, copied)) = self.replay_batch(pool, replay, shard, after, highest).await? {
                replayed += copied;
                after = last;
            }
        }
        Ok(replayed)
    }

    /// The last id of the batch, and how many events it had; `None` when there were no more.
    async fn replay_batch<DB: ReplaySql>(
        &self,
        pool: &Pool<DB>,
        replay: &Replay,
        shard: i64,
        after: i64,
        highest: i64,
    ) -> Result<Option<(i64, u64)>, Error> {
        let database = Error::database::<DB>;
        let mut tx = begin(pool).await.map_err(database)?;
        let read = Statement::new(DB::REPLAY)
            .bind(shard)
            .bind(after)
            .bind(highest)
            .bind(replay.since_ms)
            .bind(&replay.topic)
            .bind(&replay.event)
            .bind(BATCH);
        let rows = read.fetch_all::<DB>(&mut tx).await.map_err(database)?;
        let logged = rows.iter().map(|row| LoggedEvent::found_in(row, shard, 0)).collect::<Result<Vec<_>, _>>()?;
        let Some(last) = logged.last().map(|event| event.id) else { return Ok(None) };
        let events: Vec<Event> = logged.into_iter().filter_map(again).collect();
        self.append_unchecked(&mut tx, &events).await?;
        commit(tx).await.map_err(database)?;
        Ok(Some((last, events.len() as u64)))
    }
}

async fn shards<DB: ReplaySql>(pool: &Pool<DB>) -> Result<Vec<(i64, i64)>, Error> {
    let database = Error::database::<DB>;
    let mut connection = pool.acquire().await.map_err(database)?;
    let rows = Statement::new(DB::REPLAY_SHARDS).fetch_all::<DB>(&mut connection).await.map_err(database)?;
    rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect::<Result<_, _>>().map_err(database)
}

/// The same event, id included; none, if the tables would refuse it and no relay could send it: it is from before they did.
fn again(logged: LoggedEvent) -> Option<Event> {
    let LoggedEvent { shard, id, event_id, topic, key, value, headers, partition, unreadable, .. } = logged;
    let mut event = Event::without_key(topic);
    event.id = event_id;
    (event.key, event.value, event.headers, event.partition) = (key, value, headers, partition);
    let named = event.headers.iter().all(|(name, _)| !name.contains('\0'));
    let sendable = !matches!(event.check(), Err(Error::Topic { .. } | Error::Partition { .. }));
    if unreadable.is_some() || !named || !sendable {
        tracing::warn!(shard, id, "an event of the log that no relay can send is not published again");
        return None;
    }
    Some(event)
}
