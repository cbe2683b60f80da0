//! The pipeline against a log and a sink that do whatever the contract allows, in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::event::EventId;
use crate::headers::Headers;
use crate::relay::blocking::{Blocking, Policies};
use crate::relay::cursor::Position;

const SHARDS: i64 = 3;
const EVENTS: i64 = 40;
const PAGE: usize = 4;
const LIMITS: Limits = Limits { ahead: 9, in_flight: 14, bytes: 400 };

/// What may happen. Numbers pick among what there is.
#[derive(Debug, Clone)]
enum Op {
    Read,
    HandOver,
    Publish(prop::sample::Index),
    /// A refusal of an innocent: its batch was refused because of another event.
    RefuseInnocent(prop::sample::Index),
    /// It was not tried, because of another event.
    NotSent(prop::sample::Index),
    LoseTrack(prop::sample::Index),
    Note,
    NoteTaken,
    NoteUnanswered,
    Takeover(prop::sample::Index),
    /// A shard is to be another relay's.
    Drain(prop::sample::Index),
    GiveUp,
    /// A parked event that an operator asked for is sent, and answered for.
    Resume,
    Resumed,
}

fn op() -> impl Strategy<Value = Op> {
    let any = any::<prop::sample::Index>;
    prop_oneof![
        4 => Just(Op::Read),
        8 => Just(Op::HandOver),
        12 => any().prop_map(Op::Publish),
        2 => any().prop_map(Op::RefuseInnocent),
        1 => any().prop_map(Op::NotSent),
        1 => any().prop_map(Op::LoseTrack),
        3 => Just(Op::Note),
        3 => Just(Op::NoteTaken),
        1 => Just(Op::NoteUnanswered),
        1 => any().prop_map(Op::Takeover),
        1 => any().prop_map(Op::Drain),
        3 => Just(Op::GiveUp),
        1 => Just(Op::Resume),
        2 => Just(Op::Resumed),
    ]
}

/// A log, a sink, and what each has seen.
struct World {
    pipeline: Pipeline,
    gate: Blocking,
    /// Keys that the tables say are blocked.
    blocked: BTreeSet<(i64, Queue)>,
    positions: bool,
    /// Lane, number, event, and whether it was sent again alone.
    reports_for: Vec<(u64, u64, LoggedEvent, bool)>,
    /// Durable: where each shard is noted, or what is left of it; what is parked; who owns it.
    position: BTreeMap<i64, i64>,
    left: BTreeSet<(i64, i64)>,
    parked: BTreeSet<(i64, i64)>,
    epochs: BTreeMap<i64, i64>,
    noting: Option<Vec<Note>>,
    /// What became visible at the other side.
    landed: BTreeMap<i64, Vec<i64>>,
    /// The highest event of each shard that was handed over since it last went back.
    sent: BTreeMap<i64, i64>,
    poison: BTreeSet<(i64, i64)>,
    /// Whether something of a round is in flight.
    resuming: bool,
}

impl World {
    fn new(positions: bool, poison: BTreeSet<(i64, i64)>) -> Self {
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
            poison,
            resuming: false,
        };
        (0..SHARDS).for_each(|shard| world.own(shard));
        world
    }

    /// Claims a shard, whoever had it.
    fn own(&mut self, shard: i64) {
        let epoch = self.epochs.entry(shard).and_modify(|epoch| *epoch += 1).or_insert(1);
        let position = Position { done: String::new(), target: None, last_id: self.position[&shard] };
        let of_shard = self.blocked.iter().filter(|(of, _)| *of == shard).map(|(_, queue)| *queue);
        self.gate.own(shard, of_shard.collect());
        self.sent.remove(&shard);
        self.pipeline.own(vec![Cursor { shard, epoch: *epoch, position }]);
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
        let alone = self.sent.get(&events[0].shard).is_some_and(|sent| *sent >= events[0].id);
        assert!(!alone || events.len() == 1, "sent again together: {events:?}");
        // Whatever is in flight may be packed together, whichever shard it is of.
        // What was sent for a lane that is no more was abandoned.
        let in_flight =
            || self.reports_for.iter().filter(|(of, ..)| self.pipeline.lanes.iter().any(|lane| lane.id() == *of));
        assert!(!alone || (in_flight().next().is_none() && !self.resuming), "not alone: {events:?}");
        assert!(in_flight().all(|(.., alone)| !alone), "beside one that is alone: {events:?}");
        assert!(alone || under_way + events.len() as u64 <= LIMITS.in_flight, "over the limit");
        for (number, event) in (outgoing.first..).zip(events) {
            if !alone {
                let before = self.sent.insert(event.shard, event.id);
                assert!(before.is_none_or(|before| before < event.id), "out of order: {event:?} after {before:?}");
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
        self.sent.clear();
        self.pipeline.rewind(&mut self.gate);
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

    fn run(&mut self, op: &Op) {
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
    fn settle(&mut self) {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b9_b15_nothing_without_an_answer_is_noted_and_nothing_is_left_behind(
        ops in prop::collection::vec(op(), 0..200),
        positions in any::<bool>(),
        poison in prop::collection::btree_set((0..SHARDS, 1..=EVENTS), 0..4),
    ) {
        let mut world = World::new(positions, poison.clone());
        for op in &ops {
            world.run(op);
        }
        world.settle();
        prop_assert!(world.left.is_empty(), "left behind: {:?}", world.left);
        for shard in 0..SHARDS {
            let landed: BTreeSet<i64> = world.landed.get(&shard).into_iter().flatten().copied().collect();
            for id in 1..=EVENTS {
                let parked = world.parked.contains(&(shard, id));
                prop_assert!(parked || landed.contains(&id));
                // Only what can never be sent is parked, and what is behind it in its key.
                let behind = (1..=id).any(|before| before % 3 == id % 3 && poison.contains(&(shard, before)));
                prop_assert!(!parked || behind, "an innocent is parked: {shard}/{id}");
            }
        }
    }
}
