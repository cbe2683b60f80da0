//! What a relay has to do with parked events, besides noting them.

use std::future::Future;

use leastlock_core::{Row, Statement};

use crate::error::Error;
use crate::event::EventId;
use crate::parked::park::bounded;
use crate::parked::queue::Queue;
use crate::parked::request::{Locked, State};
use crate::sink::LoggedEvent;
use crate::sql::OutboxSql;
use crate::sql::found::ReadLimit;

/// Parked events, as a relay sees them.
///
/// # Contract
/// - Only the relay that holds a shard adds queues to it, by its note, so what [`blocked`](Self::blocked)
///   answered stays true until that relay changes it, but for queues that are gone: those are harmless, since the next event of
///   such a key is parked, found to stand behind nothing, and sent at once.
/// - [`settle`](Self::settle) changes nothing if the shard's epoch is another one by then.
///
/// # Cancel safety
/// Each future may be dropped at any time; whether its transaction took effect is then unknown, and the next round finds out.
pub trait ParkedLog: Send + Sync + 'static {
    /// The queues of a shard's blocked keys, at most `limit`.
    fn blocked(&self, shard: i64, limit: i64) -> impl Future<Output = Result<Vec<Queue>, Error>> + Send;

    /// Which of these queues are blocked keys.
    fn blocked_among(&self, queues: &[Queue]) -> impl Future<Output = Result<Vec<Queue>, Error>> + Send;

    /// The queues of these shards that operators have asked for, in the order of their names from behind `after` on, at most
    /// `limit`: each with its shard.
    fn asked(
        &self,
        shards: &[i64],
        after: Option<Queue>,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<(i64, Queue)>, Error>> + Send;

    /// The first events of a queue, in order, within the limit. One comes whatever it takes.
    fn head(
        &self,
        shard: i64,
        queue: Queue,
        limit: ReadLimit,
    ) -> impl Future<Output = Result<Vec<LoggedEvent>, Error>> + Send;

    /// Writes what became of queues in one transaction; answers the queues that are empty and gone, or `None` if the shard is
    /// another relay's now.
    fn settle(
        &self,
        shard: i64,
        epoch: i64,
        tried: &[Tried],
    ) -> impl Future<Output = Result<Option<Vec<Queue>>, Error>> + Send;
}

/// What became of a queue's first events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The queue.
    pub queue: Queue,
    /// The ids of the events that are durable at the other side.
    pub sent: Vec<i64>,
    /// The event behind these, if it was refused again: number, id and reason.
    pub refused: Option<(i64, EventId, String)>,
}

pub(crate) async fn blocked<DB: OutboxSql>(
    connection: &mut DB::Connection,
    shard: i64,
    limit: i64,
) -> Result<Vec<Queue>, Error> {
    let rows = Statement::new(DB::BLOCKED).bind(shard).bind(limit).fetch_all::<DB>(connection).await;
    rows.and_then(|rows| rows.iter().map(|row| queue_in(row, 0)).collect()).map_err(Error::database::<DB>)
}

pub(crate) async fn blocked_among<DB: OutboxSql>(
    connection: &mut DB::Connection,
    queues: &[Queue],
) -> Result<Vec<Queue>, Error> {
    let names: Vec<String> = queues.iter().map(Queue::to_string).collect();
    let blocked = DB::blocked_among(connection, &names).await;
    let parse = |name: &String| Queue::parse(name).ok_or_else(no_queue);
    blocked.and_then(|names| names.iter().map(parse).collect()).map_err(Error::database::<DB>)
}

pub(crate) async fn asked<DB: OutboxSql>(
    connection: &mut DB::Connection,
    shards: &[i64],
    after: Option<Queue>,
    limit: i64,
) -> Result<Vec<(i64, Queue)>, Error> {
    let after = after.map_or_else(String::new, |after| after.to_string());
    let rows = DB::asked(connection, shards, &after, limit).await;
    let asked = |row: &Row<DB>| Ok((row.int(0)?, queue_in(row, 1)?));
    rows.and_then(|rows| rows.iter().map(asked).collect()).map_err(Error::database::<DB>)
}

pub(crate) async fn head<DB: OutboxSql>(
    connection: &mut DB::Connection,
    shard: i64,
    queue: Queue,
    limit: ReadLimit,
) -> Result<Vec<LoggedEvent>, Error> {
    let (queue, bytes) = (queue.to_string(), i64::try_from(limit.bytes).unwrap_or(i64::MAX));
    let head = Statement::new(DB::HEAD).bind(&queue).bind(limit.events).bind(bytes);
    let rows = head.fetch_all::<DB>(connection).await;
    let rows = rows.map_err(Error::database::<DB>)?;
    rows.iter().map(|row| LoggedEvent::found_in(row, shard, 0)).collect()
}

/// The statements of [`ParkedLog::settle`], in a transaction that the caller commits if this answers `Some`.
pub(crate) async fn settle<DB: OutboxSql>(
    connection: &mut DB::Connection,
    shard: i64,
    epoch: i64,
    tried: &[Tried],
) -> Result<Option<Vec<Queue>>, Error> {
    let database = Error::database::<DB>;
    let fence = Statement::new(DB::FENCE).bind(shard).bind(epoch);
    if fence.fetch_optional::<DB>(connection).await.map_err(database)?.is_none() {
        return Ok(None);
    }
    let mut in_order: Vec<&Tried> = tried.iter().collect();
    in_order.sort_unstable_by_key(|tried| tried.queue);
    let mut gone = Vec::new();
    for tried in in_order {
        let queue = tried.queue.to_string();
        // What an operator asked for meanwhile counts: a retry may have become a release.
        let state = Locked::lock::<DB>(connection, &queue).await?.map(|locked| locked.state);
        DB::forget(connection, shard, &tried.sent).await.map_err(database)?;
        if let Some((id, event, reason)) = &tried.refused {
            let reason = bounded(reason);
            let aside = state == Some(State::Releasing);
            let from_now_on = if aside { Queue::of_event(*event).to_string() } else { queue.clone() };
            let refused = Statement::new(DB::REFUSED).bind(&reason).bind(&from_now_on).bind(shard).bind(*id);
            refused.execute::<DB>(connection).await.map_err(database)?;
            if aside {
                let alone = Statement::new(DB::ALONE).bind(shard).bind(*id);
                alone.execute::<DB>(connection).await.map_err(database)?;
            } else {
                Statement::new(DB::BLOCK).bind(&queue).execute::<DB>(connection).await.map_err(database)?;
            }
        }
        if Statement::new(DB::OPEN).bind(&queue).execute::<DB>(connection).await.map_err(database)? > 0 {
            gone.push(tried.queue);
        }
    }
    Ok(Some(gone))
}

fn queue_in<DB: OutboxSql>(row: &Row<DB>, column: usize) -> Result<Queue, sqlx::Error> {
    Queue::parse(&row.text(column)?).ok_or_else(no_queue)
}

fn no_queue() -> sqlx::Error {
    sqlx::Error::Decode("a queue of parked events is named by 32 hexadecimal digits".into())
}
