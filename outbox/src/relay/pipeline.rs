//! What a relay has read, handed to the sink, and may note as published: pure, no I/O.
//!
//! Each shard that is held is a lane. Its events get numbers in the order of their reading:
//!
//! ```text
//!          noted      published            handed over             read
//! ───────────┴────────────┴───────────────────┴─────────────────────┴──▶
//!              in no note    some have answers    in memory, not sent
//! ```
//!
//! `published` moves over an event once it and all before it are settled (published, or to be parked), so nothing
//! that has no answer is ever noted, in whatever order the answers come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cursor::{Cursor, Note, Page, ReadFrom};
use crate::parked::Cause;
#[cfg(any(test, feature = "postgres", feature = "sqlite", feature = "mysql"))]
use crate::parked::{Park, Queue, park::bounded};
use crate::sink::{LoggedEvent, Refusal, Report, SendError};
use lane::Lane;

mod lane;
#[cfg(test)]
mod tests;

/// How much may be under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Events of a shard that were read and are not behind its published prefix; a read may go beyond it by a page.
    pub(crate) ahead: u64,
    /// Events, in all, that were handed over and are not noted, answered or not: what is published twice after a crash.
    pub(crate) in_flight: u64,
    /// Bytes, in all, of events that were read and not published; a read may go beyond it by an event.
    pub(crate) bytes: usize,
}

/// Decides what becomes of an event before it is handed over.
pub(crate) trait Gate {
    /// What to do with the next event of its shard. `refused` says why it can never be sent, if that is known: by
    /// [`Sink::check`](crate::Sink::check), or because it was refused when it was sent alone.
    fn fate(&mut self, event: &LoggedEvent, refused: Option<&str>) -> Fate;

    /// The shard goes back to what was published: fates of later events are void, and will be asked for again. Of the events
    /// to be parked only those with the ids `kept` still are.
    fn rewound(&mut self, shard: i64, kept: &[i64]);
}

/// What becomes of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is sent.
    Send,
    /// It is not sent, and noted together with the position behind it.
    Park(Cause),
    /// The relay ends before it.
    Stop(String),
}

/// An event that is not sent; noted in the same transaction as the position behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parked {
    pub(crate) event: LoggedEvent,
    pub(crate) cause: Cause,
    /// Later events of its key that the other side acknowledged before it was refused.
    pub(crate) overtaken_by: Vec<crate::event::EventId>,
}

#[cfg(any(test, feature = "postgres", feature = "sqlite", feature = "mysql"))]
impl Parked {
    /// As it is written. What overtook it is told to whoever looks at it.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
        allow(dead_code, reason = "without an engine nothing is written")
    )]
    pub(crate) fn to_park(&self) -> Park {
        let mut cause = self.cause.clone();
        if let Cause::Refused { reason } | Cause::Alone { reason } = &mut cause {
            *reason = bounded(reason);
            if let [first, others @ ..] = &self.overtaken_by[..] {
                let overtaken = format!("overtaken by event {first} of its key and {} more: {reason}", others.len());
                *reason = bounded(&overtaken);
            }
        }
        Park { id: self.event.id, queue: self.queue(), cause }
    }

    /// The queue that it is to stand in.
    pub(crate) fn queue(&self) -> Queue {
        match &self.event.key {
            Some(key) if self.cause.blocks() => Queue::of_key(&self.event.topic, key),
            _ => Queue::of_event(self.event.event_id),
        }
    }
}

/// Events to hand over: a run of one page.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) lane: u64,
    /// The number of the first.
    pub(crate) first: u64,
    pub(crate) page: Arc<Page>,
    pub(crate) range: std::ops::Range<usize>,
}

/// Why the relay ends.
#[derive(Debug, Clone)]
pub(crate) struct Stop {
    pub(crate) event: Box<LoggedEvent>,
    pub(crate) reason: String,
}

/// What was published since it was last asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) events: u64,
    /// From append to answer, in milliseconds: the sum, and the longest.
    pub(crate) lag_sum_ms: u64,
    pub(crate) lag_max_ms: u64,
    /// Events that were acknowledged before an earlier one of their key, because that one was refused among others.
    pub(crate) overtaking: u64,
}

impl Progress {
    fn count(&mut self, age_at_read_ms: i64, since_read: Duration) {
        let since_read = u64::try_from(since_read.as_millis()).unwrap_or(u64::MAX);
        // An age below zero is a database clock that was stepped back.
        let lag = u64::try_from(age_at_read_ms).unwrap_or(0).saturating_add(since_read);
        self.events += 1;
        self.lag_sum_ms = self.lag_sum_ms.saturating_add(lag);
        self.lag_max_ms = self.lag_max_ms.max(lag);
    }
}

/// All lanes of a relay.
#[derive(Debug)]
pub(crate) struct Pipeline {
    limits: Limits,
    /// Whether positions say what was published ([`Log::POSITIONS`](super::Log::POSITIONS)).
    positions: bool,
    lanes: Vec<Lane>,
    last_lane: u64,
    /// Whose turn it is to hand over.
    turn: usize,
    progress: Progress,
    lost_track: Option<String>,
    stop: Option<Stop>,
}

impl Pipeline {
    pub(crate) fn new(limits: Limits, positions: bool) -> Self {
        let (lanes, progress) = (Vec::new(), Progress::default());
        Self { limits, positions, lanes, last_lane: 0, turn: 0, progress, lost_track: None, stop: None }
    }

    /// Takes shards up from where they were noted. A shard that has a lane already gets a new one.
    pub(crate) fn own(&mut self, cursors: Vec<Cursor>) {
        self.lanes.retain(|lane| cursors.iter().all(|cursor| cursor.shard != lane.shard()));
        for cursor in cursors {
            self.last_lane += 1;
            self.lanes.push(Lane::new(self.last_lane, cursor, self.positions));
        }
    }

    /// Sends nothing more of these shards: they are to be another relay's.
    pub(crate) fn drain(&mut self, shards: &[i64], now: Instant) {
        self.lanes.iter_mut().filter(|lane| shards.contains(&lane.shard())).for_each(|lane| lane.drain(now));
    }

    /// The shards of which something has been on its way for `limit` since they were to be another relay's.
    pub(crate) fn overdue(&self, limit: Duration, now: Instant) -> Vec<i64> {
        self.lanes.iter().filter(|lane| lane.is_overdue(limit, now)).map(Lane::shard).collect()
    }

    /// Forgets the shards of which nothing is on its way and all that was published is noted, of those that are to be another
    /// relay's; answers which.
    pub(crate) fn give_up(&mut self) -> Vec<i64> {
        self.lanes.extract_if(.., |lane| lane.is_drained()).map(|lane| lane.shard()).collect()
    }

    /// Forgets every shard.
    pub(crate) fn clear(&mut self) {
        self.lanes.clear();
        self.lost_track = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// The shards that are held and are not to be another relay's.
    pub(crate) fn staying(&self) -> impl Iterator<Item = &Cursor> {
        self.lanes.iter().filter(|lane| !lane.is_draining()).map(Lane::cursor)
    }

    /// How many shards are held.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The shards that are held.
    pub(crate) fn cursors(&self) -> impl Iterator<Item = &Cursor> {
        self.lanes.iter().map(Lane::cursor)
    }

    /// Where to read on: the shards that have room. Another of them comes first now and then, since what there is room for goes to
    /// the first ones.
    pub(crate) fn places(&self) -> Vec<ReadFrom> {
        let mut places: Vec<_> = self.with_room().map(Lane::place).collect();
        let first = self.turn % places.len().max(1);
        places.rotate_left(first);
        places
    }

    /// How many bytes may be read before [`Limits::bytes`] are.
    pub(crate) fn room(&self) -> usize {
        self.limits.bytes.saturating_sub(self.bytes())
    }

    /// Whether there is somewhere to read on.
    pub(crate) fn has_room(&self) -> bool {
        self.with_room().next().is_some()
    }

    fn with_room(&self) -> impl Iterator<Item = &Lane> {
        let takes_more = self.stop.is_none() && self.bytes() < self.limits.bytes;
        let has_room = |lane: &&Lane| !lane.is_draining() && lane.ahead() < self.limits.ahead;
        self.lanes.iter().filter(move |lane| takes_more && has_room(lane))
    }

    /// Takes pages that were read at `now`; answers how many events are in them. A page of a shard that has moved elsewhere
    /// meanwhile is dropped.
    pub(crate) fn read(&mut self, pages: Vec<Page>, now: Instant) -> usize {
        let mut events = 0;
        for page in pages {
            if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.cursor() == page.cursor()) {
                events += page.events.len();
                lane.read(page, now);
            }
        }
        events
    }

    /// The next page that the sink has not checked, with the lane that it is of.
    pub(crate) fn unchecked(&self) -> Option<(u64, Arc<Page>)> {
        self.lanes.iter().find_map(|lane| Some((lane.id(), lane.unchecked()?)))
    }

    /// Takes what the sink says of the page that [`unchecked`](Self::unchecked) answered; answers the lane's shard, if it is
    /// still there.
    pub(crate) fn checked(&mut self, lane: u64, refusals: Vec<Refusal>) -> Option<i64> {
        let lane = self.lane(lane)?;
        lane.checked(refusals);
        Some(lane.shard())
    }

    /// Whether events that were refused among others are to be sent again, each alone: nothing else is handed over until they
    /// are settled, since a sink may pack whatever is in flight, of any shard, together and refuse it together.
    pub(crate) fn sends_alone(&self) -> bool {
        self.lanes.iter().any(Lane::sends_alone)
    }

    /// The next events to hand over: lanes take turns. `quiet` says that nothing is in flight but what this has handed over.
    pub(crate) fn hand_over(&mut self, quiet: bool, gate: &mut impl Gate, now: Instant) -> Option<Outgoing> {
        while self.sends_alone() {
            if !quiet || self.unanswered() > 0 || self.stop.is_some() {
                return None;
            }
            let outgoing = self.of_next_lane(0, Lane::sends_alone, gate, now);
            if outgoing.is_some() {
                return outgoing;
            }
        }
        self.of_next_lane(self.limits.in_flight.saturating_sub(self.under_way()), |_| true, gate, now)
    }

    /// What the next of some lanes has to hand over.
    fn of_next_lane(
        &mut self,
        room: u64,
        which: impl Fn(&Lane) -> bool,
        gate: &mut impl Gate,
        now: Instant,
    ) -> Option<Outgoing> {
        for _ in 0..self.lanes.len() {
            if self.stop.is_some() {
                return None;
            }
            self.turn = (self.turn + 1) % self.lanes.len();
            let lane = &mut self.lanes[self.turn];
            if !which(lane) {
                continue;
            }
            match lane.hand_over(room, gate, &mut self.progress, now) {
                Ok(Some(outgoing)) => return Some(outgoing),
                Ok(None) => {}
                Err(stop) => self.stop = Some(stop),
            }
        }
        None
    }

    /// Takes an answer that came at `now`. One for a lane that is no more says nothing of the present.
    pub(crate) fn report(&mut self, report: Report, gate: &mut impl Gate, now: Instant) {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id() == report.lane) else { return };
        let numbers = report.first..report.first + report.count;
        match report.outcome {
            Ok(()) => lane.published(numbers, &mut self.progress, now),
            Err(SendError::Permanent { reason }) => {
                if let Err(stop) = lane.refused(numbers, &reason, gate, &mut self.progress, now) {
                    self.stop = Some(stop);
                }
            }
            Err(SendError::NotSent { reason }) => lane.not_sent(numbers, &reason),
            Err(SendError::Unknown { reason }) => {
                lane.unknown(numbers);
                self.lost_track = Some(reason);
            }
        }
    }

    /// Why the sink lost track of some event, if it did. Everything has to be [rewound](Self::rewind) then.
    pub(crate) fn lost_track(&self) -> Option<&str> {
        self.lost_track.as_deref()
    }

    /// The sink has forgotten everything: every lane goes back to what is published.
    pub(crate) fn rewind(&mut self, gate: &mut impl Gate) {
        self.lost_track = None;
        for lane in &mut self.lanes {
            self.last_lane += 1;
            lane.rewind(self.last_lane);
            gate.rewound(lane.shard(), &lane.to_park());
        }
    }

    /// Why the relay is to end, if it is.
    pub(crate) fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// Events handed over that have no answer.
    pub(crate) fn unanswered(&self) -> u64 {
        self.lanes.iter().map(Lane::unanswered).sum()
    }

    /// Events handed over, or to be parked, that are in no note.
    pub(crate) fn under_way(&self) -> u64 {
        self.lanes.iter().map(Lane::under_way).sum()
    }

    /// Events published, or to be parked, that are in no note.
    pub(crate) fn unnoted(&self) -> u64 {
        self.lanes.iter().map(Lane::unnoted).sum()
    }

    /// Bytes of events that were read and not published.
    pub(crate) fn bytes(&self) -> usize {
        self.lanes.iter().map(Lane::bytes).sum()
    }

    /// What to note. [`noted`](Self::noted) has to follow before the next is asked for, or [`clear`](Self::clear).
    pub(crate) fn note(&mut self) -> Vec<Note> {
        self.lanes.iter_mut().filter_map(Lane::note).collect()
    }

    /// The note was taken, for the shards in `own`; answers how many events were noted as published, and which shards are another
    /// relay's now: their lanes are gone.
    pub(crate) fn noted(&mut self, own: &[i64]) -> (u64, Vec<i64>) {
        let (mut events, mut lost) = (0, Vec::new());
        self.lanes.retain_mut(|lane| match lane.noting() {
            Some(_) if own.contains(&lane.shard()) => {
                events += lane.noted();
                true
            }
            Some(_) => {
                lost.push(lane.shard());
                false
            }
            None => true,
        });
        (events, lost)
    }

    /// What was published since this was last asked.
    pub(crate) fn progress(&mut self) -> Progress {
        std::mem::take(&mut self.progress)
    }

    fn lane(&mut self, id: u64) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.id() == id)
    }
}
