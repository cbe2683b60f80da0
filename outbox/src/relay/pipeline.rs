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

use super::cursor::{Cursor, Page, ReadFrom};
use crate::parked::Cause;
use crate::sink::{LoggedEvent, Refusal};
use lane::Lane;

mod lane;
mod notes;
mod reports;
#[cfg(test)]
mod tests;

pub(crate) use notes::Parked;
pub(crate) use reports::Progress;

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

    /// Events handed over that have no answer.
    pub(crate) fn unanswered(&self) -> u64 {
        self.lanes.iter().map(Lane::unanswered).sum()
    }

    /// Bytes of events that were read and not published.
    pub(crate) fn bytes(&self) -> usize {
        self.lanes.iter().map(Lane::bytes).sum()
    }

    fn lane(&mut self, id: u64) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.id() == id)
    }
}
