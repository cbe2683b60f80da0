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
use crate::sink::{Batch, LoggedEvent, Refusal, Reports, SendError, Sink};
use crate::sql::found::ReadLimit;

#[cfg(all(test, feature = "sqlite"))]
mod rounds;

/// How often it is looked for queues that were asked for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The longest pause after rounds to which the sink answered nothing. What it may still have is given to it again each time.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
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
    /// The last queue that was sent of: the next round looks behind it.
    pub(super) last: Option<Queue>,
    /// Queues that are empty and gone, with their shards.
    pub(super) gone: Vec<(i64, Queue)>,
    /// Events that were sent, and that were refused again.
    pub(super) sent: u64,
    pub(super) refused: u64,
    /// An event was refused, maybe only because it was among others.
    pub(super) suspects: bool,
    /// What is sent and no longer waited for.
    pub(super) left_behind: Vec<Arc<Reports>>,
    /// Why the sink lost track of an event, if it did.
    pub(super) lost_track: Option<String>,
    /// Why it was broken off. What was sent before is no less on its way.
    pub(super) failed: Option<Error>,
}

impl Round {
    /// How long to wait after it, when `pause` was waited before: twice as long if it came to nothing but a missing answer, so that an
    /// outage does not pile up copies of an event in the sink. `behind` says that it looked behind the last round's queues: if there was
    /// nothing, the next one goes on at the front.
    pub(super) fn pause(&self, pause: Duration, behind: bool) -> Duration {
        let nothing = self.sent + self.refused == 0 && self.gone.is_empty() && self.lost_track.is_none();
        match (nothing, !self.left_behind.is_empty()) {
            (true, true) => (pause * 2).min(LONGEST_PAUSE),
            (true, false) if self.idle && behind => pause,
            _ => LOOK_EVERY,
        }
    }
}

/// What sending a queue's events came to.
struct Sent {
    shard: i64,
    tried: Tried,
    suspect: bool,
    left_behind: Option<Arc<Reports>>,
    lost_track: Option<String>,
}

/// Sends events of some of the queues that operators asked for, and writes what became of them. What is sent and not written
/// (the relay died, or the future was dropped) is sent again, in the same order.
///
/// A refusal counts only of a round that is `alone`: nothing else is in flight then, and it sends the first of each queue, one after
/// the other.
pub(super) async fn round<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    cursors: &[Cursor],
    after: Option<Queue>,
    alone: bool,
    ending: CancellationToken,
) -> Round {
    let mut round = Round::default();
    let written = match heads(relay, cursors, after, alone, &mut round).await {
        Ok(heads) => {
            let sent = send_all(relay, cursors, heads, alone, &ending, &mut round).await;
            settle(relay, cursors, sent, &mut round).await
        }
        Err(error) => Err(error),
    };
    round.failed = written.err();
    round
}

/// The first events of a queue, with its shard.
type Head = (i64, Queue, Vec<LoggedEvent>);

/// The first events of some of the queues that operators asked for: not more bytes than the relay may have in memory, and one event.
async fn heads<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    cursors: &[Cursor],
    after: Option<Queue>,
    alone: bool,
    round: &mut Round,
) -> Result<Vec<Head>, Error> {
    let shards: Vec<i64> = cursors.iter().map(|cursor| cursor.shard).collect();
    let lease = relay.settings.lease;
    let asked = within(lease, "looking for parked events", relay.log.asked(&shards, after, QUEUES)).await?;
    round.idle = asked.is_empty();
    let (mut room, mut left) = (relay.settings.in_flight_bytes, asked.len());
    let mut heads = Vec::with_capacity(left);
    for (shard, queue) in asked {
        if room == 0 {
            break;
        }
        // Each queue has its part; what one leaves is the others'.
        let limit = ReadLimit { events: if alone { 1 } else { EVENTS }, bytes: room.div_ceil(left) };
        let head = within(lease, "reading parked events", relay.log.head(shard, queue, limit)).await?;
        room = room.saturating_sub(head.iter().map(LoggedEvent::bytes).sum());
        left -= 1;
        heads.push((shard, queue, head));
    }
    Ok(heads)
}

/// Sends them, side by side or one after the other.
async fn send_all<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    cursors: &[Cursor],
    heads: Vec<Head>,
    alone: bool,
    ending: &CancellationToken,
    round: &mut Round,
) -> Vec<Sent> {
    let mut sending = Vec::with_capacity(heads.len());
    for (shard, queue, events) in heads {
        if let Some(cursor) = cursors.iter().find(|cursor| cursor.shard == shard) {
            sending.push(send(relay, cursor, queue, events, alone, ending));
        }
    }
    let mut sent = Vec::with_capacity(sending.len());
    if alone {
        for one in sending {
            sent.push(one.await);
            if sent.last().is_some_and(|sent| sent.left_behind.is_some() || sent.lost_track.is_some()) {
                break;
            }
        }
    } else {
        sent = join_all(sending).await;
    }
    // Where one got no answer, those behind it come next, and not behind it again.
    round.last = sent.last().map(|sent| sent.tried.queue);
    for sent in &mut sent {
        round.suspects |= sent.suspect;
        round.left_behind.extend(sent.left_behind.take());
        round.lost_track = round.lost_track.take().or(sent.lost_track.take());
    }
    sent
}

/// Writes what became of them, shard by shard. A shard that is another relay's by now is that one's to go on with.
async fn settle<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    cursors: &[Cursor],
    mut sent: Vec<Sent>,
    round: &mut Round,
) -> Result<(), Error> {
    for cursor in cursors {
        let of_shard = sent.extract_if(.., |sent| sent.shard == cursor.shard);
        let of_shard: Vec<Tried> = of_shard.map(|sent| sent.tried).collect();
        if of_shard.is_empty() {
            continue;
        }
        let settle = relay.log.settle(cursor.shard, cursor.epoch, &of_shard);
        let settled = within(relay.settings.lease, "writing what became of parked events", settle).await?;
        if let Some(gone) = settled {
            round.gone.extend(gone.into_iter().map(|queue| (cursor.shard, queue)));
            round.sent += of_shard.iter().map(|tried| tried.sent.len() as u64).sum::<u64>();
            round.refused += of_shard.iter().filter(|tried| tried.refused.is_some()).count() as u64;
        }
    }
    Ok(())
}

/// Sends a queue's events one after the other, up to one that is refused or gets no answer.
async fn send<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    cursor: &Cursor,
    queue: Queue,
    events: Vec<LoggedEvent>,
    alone: bool,
    ending: &CancellationToken,
) -> Sent {
    let tried = Tried { queue, sent: Vec::new(), refused: None };
    let mut sent = Sent { shard: cursor.shard, tried, suspect: false, left_behind: None, lost_track: None };
    let known = known_refusals(relay, &events).await;
    let until = Instant::now() + ROUND;
    let page = Arc::new(Page::of_cursor(cursor, events));
    for (index, event) in page.events.iter().enumerate() {
        if ending.is_cancelled() || Instant::now() >= until {
            break;
        }
        if let Some(known) = known.iter().find(|refusal| refusal.index == index) {
            sent.tried.refused = Some((event.id, event.event_id, known.reason.clone()));
            break;
        }
        let reports = Arc::default();
        let answer = tokio::time::timeout_at(until.into(), send_one(relay, &page, index, &reports)).await;
        match answer {
            Ok(Ok(())) => sent.tried.sent.push(event.id),
            Ok(Err(SendError::Permanent { reason })) if alone => {
                sent.tried.refused = Some((event.id, event.event_id, reason));
                break;
            }
            Ok(Err(SendError::Permanent { .. } | SendError::NotSent { .. })) => {
                sent.suspect = true;
                break;
            }
            Ok(Err(SendError::Unknown { reason })) => {
                sent.lost_track = Some(reason);
                break;
            }
            // Still under way: it is sent again behind itself in the next round, which changes no order.
            Err(_) => {
                sent.left_behind = Some(reports);
                break;
            }
        }
    }
    sent
}

/// Which of these events can never be sent: those that cannot be read, and those that the sink knows of.
pub(super) async fn known_refusals<L: Log, S: Sink>(relay: &Relay<L, S>, events: &[LoggedEvent]) -> Vec<Refusal> {
    let mut known = relay.sink.check(events).await;
    for (index, event) in events.iter().enumerate() {
        if let Some(reason) = &event.unreadable {
            known.retain(|refusal| refusal.index != index);
            known.push(Refusal { index, reason: reason.to_string() });
        }
    }
    known
}

async fn send_one<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    page: &Arc<Page>,
    index: usize,
    reports: &Arc<Reports>,
) -> Result<(), SendError> {
    let batch = Batch::new(page.clone(), index..index + 1, 0, 0, reports);
    {
        let _turn = relay.turn.lock().await;
        relay.sink.send(batch).await;
    }
    answer(reports).await
}

async fn answer(reports: &Reports) -> Result<(), SendError> {
    loop {
        if let Some(report) = reports.take(Vec::new()).into_iter().next() {
            return report.outcome;
        }
        reports.some().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_without_an_answer_come_ever_more_seldom_until_there_is_one() {
        let last = Some(Queue::of_key("t", b"k"));
        let unanswered = || Round { left_behind: vec![Arc::default()], last, ..Round::default() };
        let idle = Round { idle: true, ..Round::default() };
        let (mut pause, mut copies, mut passed) = (LOOK_EVERY, 0, Duration::ZERO);
        while passed < Duration::from_mins(10) {
            pause = idle.pause(unanswered().pause(pause, false), true);
            passed += pause;
            copies += 1;
        }
        assert!(copies < 20, "{copies} copies of an event in ten minutes");
        assert_eq!(pause, LONGEST_PAUSE);
        // Nothing is asked for any more, or something came of it.
        assert_eq!(idle.pause(pause, false), LOOK_EVERY);
        assert_eq!(Round { sent: 1, ..unanswered() }.pause(pause, true), LOOK_EVERY);
        assert_eq!(Round { refused: 1, last, ..Round::default() }.pause(pause, true), LOOK_EVERY);
        assert_eq!(Round { lost_track: Some("gone".into()), ..unanswered() }.pause(pause, true), LOOK_EVERY);
    }
}
