//! The shard, its tables, the sink and the operator.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::minds::Mind;
use super::{KEYS, Op, SHARD, event};
use crate::parked::{Cause, Queue};
use crate::relay::pipeline::{Fate, Gate};
use crate::sink::LoggedEvent;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Parked,
    Retrying,
    Releasing,
}

/// The tables, as the statements leave them.
#[derive(Default)]
struct Tables {
    position: usize,
    /// By event: the queue that it stands in.
    parked: BTreeMap<i64, Queue>,
    /// State, and whether a key is blocked by it.
    queues: BTreeMap<Queue, (State, bool)>,
}

pub(super) struct World<M> {
    mind: M,
    tables: Tables,
    log: Vec<LoggedEvent>,
    bad: BTreeSet<i64>,
    was_bad: BTreeSet<Vec<u8>>,
    /// How far events were read, and decided on.
    read: usize,
    decided: usize,
    /// Decided and not noted: the event's place in the log, and its fate.
    unnoted: Vec<(usize, Option<Park>)>,
    tried: Option<Tried>,
    /// Written and not heard of: the queue, and whether it is gone.
    unheard: Option<(Queue, bool)>,
    delivered: BTreeSet<i64>,
    /// Given up by an operator: these may be overtaken.
    given_up: BTreeSet<i64>,
}

type Park = (i64, Cause);

struct Tried {
    queue: Queue,
    sent: Vec<i64>,
    refused: Vec<i64>,
}

impl<M: Mind> World<M> {
    pub(super) fn new() -> Self {
        let mut mind = M::new();
        mind.own(Vec::new());
        Self {
            mind,
            tables: Tables::default(),
            log: Vec::new(),
            bad: BTreeSet::new(),
            was_bad: BTreeSet::new(),
            read: 0,
            decided: 0,
            unnoted: Vec::new(),
            tried: None,
            unheard: None,
            delivered: BTreeSet::new(),
            given_up: BTreeSet::new(),
        }
    }

    pub(super) fn run(&mut self, ops: &[Op]) -> Result<(), String> {
        for op in ops {
            self.step(op)?;
        }
        self.settle_down()
    }

    fn step(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::Append { key, bad } => self.append(key, bad),
            Op::Read { events } => self.read(events),
            Op::Decide => self.decide()?,
            Op::Note => self.note(self.unnoted.len()),
            Op::Rewind { kept } => self.rewind(kept),
            Op::TakeOver => self.take_over(),
            Op::Retry { key } => self.ask(key, State::Retrying),
            Op::Release { key } => self.ask(key, State::Releasing),
            Op::Skip { key } => self.skip(key),
            Op::Drain { events } => self.drain(events)?,
            Op::Settle => self.settle(),
            Op::Hear => self.hear(),
            Op::Mend { key } => self.mend(key),
        }
        if self.mind.blocking().overfull().is_some() {
            self.take_over();
        }
        Ok(())
    }

    /// With everything mended and tried again, nothing may be left.
    fn settle_down(&mut self) -> Result<(), String> {
        for _ in 0..4 * (self.log.len() + 1) {
            self.bad.clear();
            for key in 0..KEYS {
                self.ask(key, State::Retrying);
            }
            let alone: Vec<Queue> =
                self.tables.queues.iter().filter(|(_, (_, blocks))| !blocks).map(|(queue, _)| *queue).collect();
            for queue in alone {
                self.tables.queues.insert(queue, (State::Retrying, false));
            }
            for op in [Op::Read { events: 3 }, Op::Decide, Op::Decide, Op::Decide, Op::Note, Op::Drain { events: 3 }] {
                self.step(&op)?;
            }
            self.settle();
            self.hear();
        }
        let lost =
            self.log.iter().find(|event| !self.delivered.contains(&event.id) && !self.given_up.contains(&event.id));
        match lost {
            Some(event) => Err(format!("event {} was never delivered", event.id)),
            None if !self.tables.parked.is_empty() => Err("something is parked for ever".into()),
            None => Ok(()),
        }
    }

    fn append(&mut self, key: u8, bad: bool) {
        let id = i64::try_from(self.log.len()).unwrap() + 1;
        let key = vec![key];
        if bad {
            self.bad.insert(id);
            self.was_bad.insert(key.clone());
        }
        self.log.push(event(id, key));
    }

    fn read(&mut self, events: usize) {
        let to = (self.read + events).min(self.log.len());
        let page = &self.log[self.read..to];
        let look_up = self.mind.to_look_up(page);
        let found = look_up.into_iter().filter(|queue| self.tables.queues.get(queue).is_some_and(|queue| queue.1));
        let found = found.collect();
        self.mind.blocking().found(SHARD, found);
        self.read = to;
    }

    fn decide(&mut self) -> Result<(), String> {
        if self.decided == self.read {
            return Ok(());
        }
        let event = self.log[self.decided].clone();
        let refused = self.bad.contains(&event.id).then_some("bad");
        let park = match self.mind.decide(&event, refused) {
            Fate::Send => {
                self.deliver(&event)?;
                None
            }
            Fate::Park(cause) if self.was_bad.contains(event.key.as_ref().unwrap()) => Some((event.id, cause)),
            Fate::Park(_) => return Err(format!("event {} of an innocent key was parked", event.id)),
            Fate::Stop(reason) => return Err(reason),
        };
        self.unnoted.push((self.decided, park));
        self.decided += 1;
        Ok(())
    }

    fn deliver(&mut self, event: &LoggedEvent) -> Result<(), String> {
        if !self.delivered.insert(event.id) {
            return Ok(());
        }
        let missing = self.log.iter().take_while(|earlier| earlier.id < event.id).find(|earlier| {
            earlier.key == event.key && !self.delivered.contains(&earlier.id) && !self.given_up.contains(&earlier.id)
        });
        missing.map_or(Ok(()), |earlier| Err(format!("event {} overtook event {} of its key", event.id, earlier.id)))
    }

    fn note(&mut self, events: usize) {
        let mut parked = Vec::new();
        for (place, park) in self.unnoted.drain(..events) {
            self.tables.position = place + 1;
            let Some((id, cause)) = park else { continue };
            let event = &self.log[place];
            let queue = match cause {
                Cause::Alone { .. } => Queue::of_event(event.event_id),
                _ => Queue::of_key(&event.topic, event.key.as_ref().unwrap()),
            };
            let state = if cause.is_refusal() { State::Parked } else { State::Retrying };
            self.tables.queues.entry(queue).or_insert((state, cause.blocks()));
            self.tables.parked.entry(id).or_insert(queue);
            parked.push(id);
        }
        self.mind.blocking().noted(SHARD, parked);
    }

    fn rewind(&mut self, kept: usize) {
        self.unnoted.truncate(kept);
        let position = self.unnoted.last().map_or(self.tables.position, |(place, _)| place + 1);
        (self.read, self.decided) = (position, position);
        let kept: Vec<i64> = self.unnoted.iter().filter_map(|(_, park)| Some(park.as_ref()?.0)).collect();
        self.mind.blocking().rewound(SHARD, &kept);
    }

    fn take_over(&mut self) {
        self.unnoted.clear();
        (self.tried, self.unheard) = (None, None);
        (self.read, self.decided) = (self.tables.position, self.tables.position);
        self.mind = M::new();
        let limit = self.mind.blocking().to_load();
        let blocked = self.tables.queues.iter().filter(|(_, (_, blocks))| *blocks).map(|(queue, _)| *queue);
        let blocked = blocked.take(limit).collect();
        self.mind.own(blocked);
    }

    fn ask(&mut self, key: u8, wanted: State) {
        if let Some((state, _)) = self.tables.queues.get_mut(&Queue::of_key("t", &[key]))
            && (*state == State::Parked || wanted == State::Releasing)
        {
            *state = wanted;
        }
    }

    fn skip(&mut self, key: u8) {
        let queue = Queue::of_key("t", &[key]);
        let of_queue = |tables: &Tables| tables.parked.iter().find(|(_, of)| **of == queue).map(|(id, _)| *id);
        let Some(&(State::Parked, blocks)) = self.tables.queues.get(&queue) else { return };
        let Some(first) = of_queue(&self.tables) else { return };
        self.tables.parked.remove(&first);
        self.given_up.insert(first);
        if of_queue(&self.tables).is_none() {
            self.tables.queues.remove(&queue);
        } else {
            self.tables.queues.insert(queue, (State::Retrying, blocks));
        }
    }

    fn drain(&mut self, events: usize) -> Result<(), String> {
        let asked = self.tables.queues.iter().find(|(_, (state, _))| *state != State::Parked);
        let (Some((&queue, &(state, _))), None, None) = (asked, &self.tried, self.unheard) else { return Ok(()) };
        self.mind.round_begins();
        let of_queue = self.tables.parked.iter().filter(|(_, of)| **of == queue).map(|(id, _)| *id);
        let in_order = M::drained(of_queue.collect());
        let mut tried = Tried { queue, sent: Vec::new(), refused: Vec::new() };
        for id in in_order.into_iter().take(events) {
            if !self.bad.contains(&id) {
                let event = self.log.iter().find(|event| event.id == id).unwrap().clone();
                self.deliver(&event)?;
                tried.sent.push(id);
            } else if state == State::Releasing {
                self.given_up.insert(id);
                tried.refused.push(id);
            } else {
                tried.refused.push(id);
                break;
            }
        }
        self.tried = Some(tried);
        Ok(())
    }

    fn settle(&mut self) {
        let Some(tried) = self.tried.take() else { return };
        let tables = &mut self.tables;
        let state = tables.queues.get(&tried.queue).map(|(state, _)| *state);
        for id in tried.sent {
            tables.parked.remove(&id);
        }
        for id in tried.refused {
            if state == Some(State::Releasing) {
                self.given_up.insert(id);
                let event = self.log.iter().find(|event| event.id == id).unwrap();
                let alone = Queue::of_event(event.event_id);
                tables.parked.insert(id, alone);
                tables.queues.insert(alone, (State::Parked, false));
            } else if let Some(queue) = tables.queues.get_mut(&tried.queue) {
                queue.0 = State::Parked;
            }
        }
        let gone = tables.parked.values().all(|queue| *queue != tried.queue);
        if gone {
            tables.queues.remove(&tried.queue);
        }
        self.unheard = Some((tried.queue, gone));
    }

    fn hear(&mut self) {
        if let Some((queue, true)) = self.unheard.take() {
            self.mind.opened(queue);
        }
    }

    fn mend(&mut self, key: u8) {
        let mended: HashMap<i64, &Option<Vec<u8>>> = self.log.iter().map(|event| (event.id, &event.key)).collect();
        self.bad.retain(|id| mended[id].as_deref() != Some(&[key]));
    }
}
