//! Sends parked events that operators have asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::parked::{Queue, Tried};
use crate::relay::Relay;
use crate::relay::connection::within;
use crate::relay::cursor::{Cursor, Page};
use crate::relay::log::Log;
use crate::sink::{Batch, LoggedEvent, Reports, SendError, Sink};

/// How often it is looked for queues that were asked for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Queues that are sent side by side. Inside a queue an event is sent when the one before it is durable.
const QUEUES: i64 = 8;
/// Events of a queue that are sent before it is written what became of them.
const EVENTS: i64 = 64;
/// How long an answer of the sink is waited for, so that a queue that gets none does not keep the others from being written.
const ROUND: Duration = Duration::from_secs(2);

/// What a round came to.
#[derive(Debug, Default)]
pub(super) struct Round {
    /// Nothing was asked for, behind the queue looked from.
    pub(super) idle: bool,
    /// The last queue of the round: the next one looks behind it.
    pub(super) last: Option<Queue>,
    /// Queues that are empty and gone, with their shards.
    pub(super) gone: Vec<(i64, Queue)>,
    /// Shards that are another relay's now.
    pub(super) lost: Vec<i64>,
    /// Events that were sent, and that were refused again.
    pub(super) sent: u64,
    pub(super) refused: u64,
    /// Why the sink lost track of an event, if it did.
    pub(super) lost_track: Option<String>,
}

/// Sends events of some of the queues that operators asked for, and writes what became of them. What is sent and not written
/// (the relay died, or the future was dropped) is sent again, in the same order.
pub(super) async fn round<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    cursors: &[Cursor],
    after: Option<Queue>,
    ending: CancellationToken,
) -> Result<Round, Error> {
    let shards: Vec<i64> = cursors.iter().map(|cursor| cursor.shard).collect();
    let lease = relay.settings.lease;
    let asked = within(lease, "looking for what operators asked for", relay.log.asked(&shards, after, QUEUES)).await?;
    let mut round = Round { idle: asked.is_empty(), last: asked.last().map(|(_, queue)| *queue), ..Round::default() };
    let mut sending = Vec::with_capacity(asked.len());
    for (shard, queue) in asked {
        let events = within(lease, "reading parked events", relay.log.head(shard, queue, EVENTS)).await?;
        let Some(cursor) = cursors.iter().find(|cursor| cursor.shard == shard) else { continue };
        sending.push(send(relay, cursor, queue, events, &ending));
    }
    let mut tried = join_all(sending).await;
    for cursor in cursors {
        let of_shard = tried.extract_if(.., |(shard, ..)| *shard == cursor.shard);
        let (of_shard, lost): (Vec<Tried>, Vec<Option<String>>) =
            of_shard.map(|(_, tried, lost)| (tried, lost)).unzip();
        round.lost_track = round.lost_track.take().or_else(|| lost.into_iter().flatten().next());
        if of_shard.is_empty() {
            continue;
        }
        let settle = relay.log.settle(cursor.shard, cursor.epoch, &of_shard);
        match within(lease, "writing what became of parked events", settle).await? {
            Some(gone) => {
                round.gone.extend(gone.into_iter().map(|queue| (cursor.shard, queue)));
                round.sent += of_shard.iter().map(|tried| tried.sent.len() as u64).sum::<u64>();
                round.refused += of_shard.iter().filter(|tried| tried.refused.is_some()).count() as u64;
            }
            None => round.lost.push(cursor.shard),
        }
    }
    Ok(round)
}

/// Sends a queue's events one after the other, up to one that is refused or gets no answer. Also says why the sink lost track, if
/// it did.
async fn send<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    cursor: &Cursor,
    queue: Queue,
    events: Vec<LoggedEvent>,
    ending: &CancellationToken,
) -> (i64, Tried, Option<String>) {
    let mut tried = Tried { queue, sent: Vec::new(), refused: None };
    let known = relay.sink.check(&events).await;
    let until = Instant::now() + ROUND;
    let page = Arc::new(Page::of_cursor(cursor, events));
    for (index, event) in page.events.iter().enumerate() {
        if ending.is_cancelled() || Instant::now() >= until {
            break;
        }
        let refused = known.iter().find(|refusal| refusal.index == index).map(|refusal| refusal.reason.clone());
        let answer = match refused {
            Some(reason) => Some(Err(SendError::Permanent { reason })),
            None => tokio::time::timeout_at(until.into(), send_one(relay, &page, index)).await.ok(),
        };
        match answer {
            Some(Ok(())) => tried.sent.push(event.id),
            Some(Err(SendError::Permanent { reason })) => {
                tried.refused = Some((event.id, event.event_id, reason));
                break;
            }
            Some(Err(SendError::Unknown { reason })) => return (cursor.shard, tried, Some(reason)),
            // Still under way: it is sent again behind itself in the next round, which changes no order.
            None => break,
        }
    }
    (cursor.shard, tried, None)
}

async fn send_one<L: Log, S: Sink>(relay: &Relay<L, S>, page: &Arc<Page>, index: usize) -> Result<(), SendError> {
    let reports = Arc::default();
    let batch = Batch::new(page.clone(), index..index + 1, 0, 0, &reports);
    {
        let _turn = relay.turn.lock().await;
        relay.sink.send(batch).await;
    }
    answer(&reports).await
}

async fn answer(reports: &Reports) -> Result<(), SendError> {
    loop {
        if let Some(report) = reports.take(Vec::new()).into_iter().next() {
            return report.outcome;
        }
        reports.some().await;
    }
}
