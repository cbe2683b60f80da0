//! A log and a sink for the pipeline, and what each has seen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use proptest::prelude::*;

use super::{EVENTS, LIMITS, Op, PAGE, SHARDS};
use crate::event::EventId;
use crate::headers::Headers;
use crate::parked::Queue;
use crate::relay::blocking::{Blocking, Policies};
use crate::relay::cursor::{Cursor, Note, Page, Position, ReadFrom};
use crate::relay::pipeline::Pipeline;
use crate::sink::{LoggedEvent, Refusal, Report, SendError};

/// A log, a sink, and what each has seen.
pub(super) struct World {
    pipeline: Pipeline,
    gate: Blocking,
    /// Keys that the tables say are blocked.
    blocked: BTreeSet<(i64, Queue)>,
    positions: bool,
    /// Lane, number, event, and whether it was sent again alone.
    reports_for: Vec<(u64, u64, LoggedEvent, bool)>,
    /// Durable: where each shard is noted, or what is left of it; what is parked; who owns it.
    position: BTreeMap<i64, i64>,
    pub(super) left: BTreeSet<(i64, i64)>,
    pub(super) parked: BTreeSet<(i64, i64)>,
    epochs: BTreeMap<i64, i64>,
    noting: Option<Vec<Note>>,
    /// What became visible at the other side.
    pub(super) landed: BTreeMap<i64, Vec<i64>>,
    /// The highest event of each shard that was handed over since it last went back, or since the sink forgot what it had.
    sent: BTreeMap<i64, i64>,
    /// The same, whatever the sink forgot.
    highest: BTreeMap<i64, i64>,
    /// What the sink has forgotten and has not answered for since.
    forgotten: BTreeSet<(i64, i64)>,
    poison: BTreeSet<(i64, i64)>,
    /// Whether something of a round is in flight.
    resuming: bool,
}

impl World {
    pub(super) fn new(positions: bool, poison: BTreeSet<(i64, i64)>) -> Self {
        let mut world = Self {
            pipeline: Pipeline::new(LIMITS, positions),
            gate: Blocking::new(Policies::default(), 1_000),
            blocked: BTreeSet::new(),
            positions,
            reports_for: Vec::new(),
            position: (0..SHARDS).map(|shard| (shard, 0)).collect(),
            left: (0..SHARDS).flat_map(|shard| (1..=EVENTS).map(move |id| (shard, id))).collect(),
            parked: BTreeSet::new(),
            epochs: BTreeMap::new(),
            noting: None,
            landed: BTreeMap::new(),
            sent: BTreeMap::new(),
            highest: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            poison,
            resuming: false,
        };
        (0..SHARDS).for_each(|shard| world.own(shard));
        world
    }

    /// Claims a shard, whoever had it.
    fn own(&mut self, shard: i64) {
        self.went_back(shard);
        let epoch = self.epochs.entry(shard).and_modify(|epoch| *epoch += 1).or_insert(1);
        let position = Position { done: String::new(), target: None, last_id: self.position[&shard] };
        let of_shard = self.blocked.iter().filter(|(of, _)| *of == shard).map(|(_, queue)| *queue);
        self.gate.own(shard, of_shard.collect());
        self.pipeline.own(vec![Cursor { shard, epoch: *epoch, position }]);
    }

    fn went_back(&mut self, shard: i64) {
        self.sent.remove(&shard);
        self.highest.remove(&shard);
        self.forgotten.retain(|(of, _)| *of != shard);
    }

    fn read(&mut self) -> usize {
        let pages = self.pipeline.places().into_iter().map(|from| self.page(&from)).collect();
        self.pipeline.read(pages, Instant::now())
    }

    fn page(&self, from: &ReadFrom) -> Page {
        let (shard, last) = (from.cursor.shard, from.cursor.position.last_id);
        let ids = 1..=EVENTS;
        let events = ids.filter(|id| {
            if self.positions { *id > last } else { self.left.contains(&(shard, *id)) && !from.unnoted.contains(id) }
        });
        Page::of_cursor(&from.cursor, events.take(PAGE).map(|id| event(shard, id)).collect())
    }

    /// The sink knows beforehand of every second event that it cannot take.
    fn hand_over(&mut self) -> bool {
        while let Some((lane, page)) = self.pipeline.unchecked() {
            let known = |event: &LoggedEvent| self.poison.contains(&(event.shard, event.id)) && event.id % 2 == 0;
            let refused = page.events.iter().enumerate().filter(|(_, event)| known(event));
            let refusals = refused.map(|(index, _)| Refusal { index, reason: "poison".into() }).collect();
            self.pipeline.checked(lane, refusals);
        }
        let under_way = self.pipeline.under_way();
        let Some(outgoing) = self.pipeline.hand_over(!self.resuming, &mut self.gate, Instant::now()) else {
            return false;
        };
        let events = &outgoing.page.events[outgoing.range.clone()];
        // Nothing else is handed over until what is to be sent alone was.
        let alone = self.pipeline.sends_alone();
        assert!(!alone || events.len() == 1, "sent again together: {events:?}");
        // Whatever is in flight may be packed together, whichever shard it is of.
        // What was sent for a lane that is no more was abandoned.
        let in_flight =
            || self.reports_for.iter().filter(|(of, ..)| self.pipeline.lanes.iter().any(|lane| lane.id() == *of));
        assert!(!alone || (in_flight().next().is_none() && !self.resuming), "not alone: {events:?}");
        assert!(in_flight().all(|(.., alone)| !alone), "beside one that is alone: {events:?}");
        let is_new = self.highest.get(&events[0].shard).is_none_or(|highest| *highest < events[0].id);
        assert!(!is_new || under_way + events.len() as u64 <= LIMITS.in_flight, "over the limit");
        for (number, event) in (outgoing.first..).zip(events) {
            if alone {
                let overtaken =
                    |&&(shard, id): &&(i64, i64)| shard == event.shard && id < event.id && id % 3 == event.id % 3;
                let overtaken = self.forgotten.iter().find(overtaken);
                assert!(overtaken.is_none(), "{event:?} overtakes {overtaken:?}, which has no answer");
            } else {
                let before = self.sent.insert(event.shard, event.id);
                assert!(before.is_none_or(|before| before < event.id), "out of order: {event:?} after {before:?}");
                let highest = self.highest.entry(event.shard).or_default();
                *highest = event.id.max(*highest);
            }
            self.reports_for.push((outgoing.lane, number, event.clone(), alone));
        }
        true
    }

    fn answer(&mut self, which: usize, outcome: Result<(), SendError>) {
        let (lane, first, event, alone) = self.reports_for.remove(which);
        let poison = self.poison.contains(&(event.shard, event.id));
        let is_refusal = matches!(outcome, Err(SendError::Permanent { .. }));
        let not_sent = matches!(outcome, Err(SendError::NotSent { .. }));
        // A refusal of one that is alone is true.
        let outcome = if poison && !not_sent {
            Err(permanent())
        } else if alone && is_refusal {
            Ok(())
        } else {
            outcome
        };
        if outcome.is_ok() {
            self.landed.entry(event.shard).or_default().push(event.id);
        }
        if self.pipeline.lanes.iter().any(|of| of.id() == lane) {
            self.forgotten.remove(&(event.shard, event.id));
        }
        let lost_track = matches!(outcome, Err(SendError::Unknown { .. }));
        self.pipeline.report(Report { lane, first, count: 1, outcome }, &mut self.gate, Instant::now());
        // What was sent for a lane that is no more says nothing.
        assert!(self.pipeline.lost_track().is_none() || lost_track);
        if self.pipeline.lost_track().is_some() {
            self.rewind();
        }
    }

    /// What another relay takes up, it takes up behind all that was sent, and nothing of it is on its way.
    fn give_up(&mut self) -> bool {
        let lanes: BTreeMap<i64, u64> = self.pipeline.lanes.iter().map(|lane| (lane.shard(), lane.id())).collect();
        let given_up = self.pipeline.give_up();
        for &shard in &given_up {
            assert!(self.reports_for.iter().all(|(lane, ..)| *lane != lanes[&shard]), "{shard} is on its way");
            let noted = |id: i64| !self.left.contains(&(shard, id));
            let sent = self.sent.get(&shard).copied().unwrap_or_default();
            assert!((1..=sent).all(noted), "{shard}/{sent} was sent, and is not noted");
            self.own(shard);
        }
        !given_up.is_empty()
    }

    fn rewind(&mut self) {
        (0..SHARDS).for_each(|shard| self.went_back(shard));
        self.pipeline.rewind(&mut self.gate);
    }

    /// Of a shard that is to be another relay's nothing is sent again.
    fn forget(&mut self) {
        for place in 0..self.pipeline.lanes.len() {
            let lane = &self.pipeline.lanes[place];
            let (id, shard, is_draining) = (lane.id(), lane.shard(), lane.is_draining());
            if is_draining {
                self.went_back(shard);
                continue;
            }
            let of_lane = self.reports_for.iter().filter(|(of, ..)| *of == id);
            self.forgotten.extend(of_lane.map(|(_, _, event, _)| (shard, event.id)));
        }
        self.sent.clear();
        self.pipeline.forget_unanswered(&mut self.gate);
    }

    fn note(&mut self) {
        if self.noting.is_none() {
            let notes = self.pipeline.note();
            self.noting = (!notes.is_empty()).then_some(notes);
        }
    }

    fn note_taken(&mut self) {
        let Some(notes) = self.noting.take() else { return };
        let mut own = Vec::new();
        for note in notes {
            let shard = note.cursor.shard;
            if self.epochs[&shard] != note.cursor.epoch {
                continue;
            }
            own.push(shard);
            for park in &note.parked {
                assert!(self.parked.insert((shard, park.event.id)), "parked twice: {park:?}");
                self.blocked.insert((shard, park.queue()));
            }
            self.gate.noted(shard, note.parked.iter().map(|park| park.event.id));
            let settled: Vec<i64> = if self.positions {
                (self.position[&shard] + 1..=note.cursor.position.last_id).collect()
            } else {
                note.published.clone()
            };
            for id in settled {
                let landed = self.landed.get(&shard).is_some_and(|landed| landed.contains(&id));
                assert!(landed || self.parked.contains(&(shard, id)), "noted without an answer: {shard}/{id}");
                assert!(self.left.remove(&(shard, id)), "noted twice: {shard}/{id}");
            }
            self.position.insert(shard, note.cursor.position.last_id);
        }
        let (_, lost) = self.pipeline.noted(&own);
        for shard in lost {
            self.own(shard);
        }
    }

    pub(super) fn run(&mut self, op: &Op) {
        let (published, innocent) = (Ok(()), Err(permanent()));
        match op {
            Op::Read => drop(self.read()),
            Op::HandOver => drop(self.hand_over()),
            Op::Publish(which) => self.answer_one(*which, published),
            Op::RefuseInnocent(which) => self.answer_one(*which, innocent),
            Op::NotSent(which) => self.answer_one(*which, Err(SendError::NotSent { reason: "another".into() })),
            Op::Resume => self.resuming |= !self.pipeline.sends_alone(),
            Op::Resumed => self.resuming = false,
            Op::LoseTrack(which) => self.answer_one(*which, Err(SendError::Unknown { reason: "lost".into() })),
            Op::Forget => self.forget(),
            Op::Note => self.note(),
            Op::NoteTaken => self.note_taken(),
            Op::NoteUnanswered => {
                // It arrives all the same; the relay claims anew before it goes on.
                if self.noting.is_some() {
                    self.note_taken();
                    self.pipeline.clear();
                    (0..SHARDS).for_each(|shard| self.own(shard));
                }
            }
            Op::Drain(which) => {
                let shard = i64::try_from(which.index(usize::try_from(SHARDS).unwrap())).unwrap();
                self.pipeline.drain(&[shard], Instant::now());
            }
            Op::GiveUp => drop(self.give_up()),
            // Another relay had the shard for a moment and did nothing.
            Op::Takeover(which) => {
                let shard = i64::try_from(which.index(usize::try_from(SHARDS).unwrap())).unwrap();
                *self.epochs.get_mut(&shard).unwrap() += 1;
            }
        }
        assert!(self.pipeline.lanes.iter().all(|lane| lane.ahead() < LIMITS.ahead + PAGE as u64));
    }

    fn answer_one(&mut self, which: prop::sample::Index, outcome: Result<(), SendError>) {
        if !self.reports_for.is_empty() {
            self.answer(which.index(self.reports_for.len()), outcome);
        }
    }

    /// From here on everything works.
    pub(super) fn settle(&mut self) {
        self.resuming = false;
        for round in 0.. {
            assert!(round < 1_000, "it never comes to an end: {:?}", self.pipeline);
            let mut moved = self.read() > 0;
            while self.hand_over() {
                moved = true;
            }
            while !self.reports_for.is_empty() {
                self.answer(0, Ok(()));
                moved = true;
            }
            self.note();
            moved |= self.noting.is_some();
            self.note_taken();
            moved |= self.give_up();
            if !moved {
                return;
            }
        }
    }
}

fn permanent() -> SendError {
    SendError::Permanent { reason: "too large".into() }
}

/// Two keys a shard.
fn event(shard: i64, id: i64) -> LoggedEvent {
    LoggedEvent {
        shard,
        id,
        event_id: EventId::new(),
        topic: "t".into(),
        key: Some(format!("{shard}/{}", id % 3).into_bytes()),
        value: Some(vec![0; 10]),
        headers: Headers::default(),
        partition: None,
        age_ms: 0,
        unreadable: None,
    }
}
