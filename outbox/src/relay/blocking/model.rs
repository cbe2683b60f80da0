//! A shard, its tables, a sink and an operator, in memory and in any interleaving. The relay in it decides by [`Blocking`] or by a
//! double that makes a mistake; the same checks have to accept the one and catch the others.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use super::{Blocking, OnRefusal, Policies};
use crate::event::EventId;
use crate::headers::Headers;
use crate::parked::{Cause, Queue};
use crate::relay::pipeline::{Fate, Gate};
use crate::sink::LoggedEvent;

const KEYS: u8 = 4;
const SHARD: i64 = 0;

#[derive(Debug, Clone)]
enum Op {
    /// A transaction appends an event, which the sink will refuse or not.
    Append {
        key: u8,
        bad: bool,
    },
    /// The relay reads some events and looks up what it has to.
    Read {
        events: usize,
    },
    /// It decides on the next event.
    Decide,
    /// It notes what it decided.
    Note,
    /// The sink loses track of some of it.
    Rewind {
        kept: usize,
    },
    /// The relay dies, or another takes the shard.
    TakeOver,
    Retry {
        key: u8,
    },
    Release {
        key: u8,
    },
    Skip {
        key: u8,
    },
    /// The relay sends events of a queue that was asked for.
    Drain {
        events: usize,
    },
    /// It writes what became of them.
    Settle,
    /// What was wrong with a key's events is mended.
    Mend {
        key: u8,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..KEYS;
    prop_oneof![
        8 => (key(), prop::bool::weighted(0.15)).prop_map(|(key, bad)| Op::Append { key, bad }),
        6 => (1..4_usize).prop_map(|events| Op::Read { events }),
        12 => Just(Op::Decide),
        4 => Just(Op::Note),
        1 => (0..4_usize).prop_map(|kept| Op::Rewind { kept }),
        1 => Just(Op::TakeOver),
        2 => key().prop_map(|key| Op::Retry { key }),
        1 => key().prop_map(|key| Op::Release { key }),
        1 => key().prop_map(|key| Op::Skip { key }),
        4 => (1..4_usize).prop_map(|events| Op::Drain { events }),
        4 => Just(Op::Settle),
        1 => key().prop_map(|key| Op::Mend { key }),
    ]
}

/// What the relay in the model is made of. The product, unless a double says otherwise.
trait Mind {
    fn new() -> Self;
    fn blocking(&mut self) -> &mut Blocking;

    fn own(&mut self, blocked: Vec<Queue>) {
        self.blocking().own(SHARD, blocked);
    }

    fn decide(&mut self, event: &LoggedEvent, refused: Option<&str>) -> Fate {
        self.blocking().fate(event, refused)
    }

    fn opened(&mut self, queue: Queue) {
        self.blocking().opened(SHARD, queue);
    }

    fn to_look_up(&mut self, events: &[LoggedEvent]) -> Vec<Queue> {
        self.blocking().to_look_up(SHARD, events)
    }

    /// The order in which a queue is drained.
    fn drained(events: Vec<i64>) -> Vec<i64> {
        events
    }
}

/// With so few keys in memory that most are looked up.
fn blocking() -> Blocking {
    Blocking::new(Policies::default(), 1)
}

struct Product(Blocking);

impl Mind for Product {
    fn new() -> Self {
        Self(blocking())
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }
}

/// Keeps the parked event back and lets its key go on.
struct Skips(Blocking);

impl Mind for Skips {
    fn new() -> Self {
        Self(blocking())
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }

    fn decide(&mut self, event: &LoggedEvent, refused: Option<&str>) -> Fate {
        match (self.0.fate(event, refused), refused) {
            (Fate::Park(Cause::Behind), None) => Fate::Send,
            (fate, _) => fate,
        }
    }
}

/// Blocks the topic of what is refused.
struct BlocksAll(Blocking, bool);

impl Mind for BlocksAll {
    fn new() -> Self {
        Self(blocking(), false)
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }

    fn decide(&mut self, event: &LoggedEvent, refused: Option<&str>) -> Fate {
        self.1 |= refused.is_some();
        match self.0.fate(event, refused) {
            Fate::Send if self.1 => Fate::Park(Cause::Behind),
            fate => fate,
        }
    }
}

/// Takes a shard over as if nothing were blocked.
struct Forgets(Blocking);

impl Mind for Forgets {
    fn new() -> Self {
        Self(blocking())
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }

    fn own(&mut self, _blocked: Vec<Queue>) {
        self.0.own(SHARD, Vec::new());
    }
}

/// Does not look up what it has no room for.
struct TrustsMemory(Blocking);

impl Mind for TrustsMemory {
    fn new() -> Self {
        Self(blocking())
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }

    fn to_look_up(&mut self, _events: &[LoggedEvent]) -> Vec<Queue> {
        Vec::new()
    }
}

/// Opens a key though events are on their way behind it.
struct OpensEarly(Blocking);

impl Mind for OpensEarly {
    fn new() -> Self {
        Self(blocking())
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }

    fn opened(&mut self, queue: Queue) {
        if let Some(keys) = self.0.shards.get_mut(&SHARD) {
            keys.blocked.remove(&queue);
        }
    }
}

/// Sends what is released from the newest on.
struct NewestFirst(Blocking);

impl Mind for NewestFirst {
    fn new() -> Self {
        Self(blocking())
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }

    fn drained(mut events: Vec<i64>) -> Vec<i64> {
        events.reverse();
        events
    }
}

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

struct World<M> {
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
    fn new() -> Self {
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
            delivered: BTreeSet::new(),
            given_up: BTreeSet::new(),
        }
    }

    fn run(&mut self, ops: &[Op]) -> Result<(), String> {
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
        self.log.push(LoggedEvent {
            shard: SHARD,
            id,
            event_id: EventId::new(),
            topic: "t".into(),
            key: Some(key),
            value: None,
            headers: Headers::default(),
            partition: None,
            age_ms: 0,
        });
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
        self.tried = None;
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
        let (Some((&queue, &(state, _))), None) = (asked, &self.tried) else { return Ok(()) };
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
        if tables.parked.values().all(|queue| *queue != tried.queue) {
            tables.queues.remove(&tried.queue);
            self.mind.opened(tried.queue);
        }
    }

    fn mend(&mut self, key: u8) {
        let mended: HashMap<i64, &Option<Vec<u8>>> = self.log.iter().map(|event| (event.id, &event.key)).collect();
        self.bad.retain(|id| mended[id].as_deref() != Some(&[key]));
    }
}

fn check<M: Mind>() -> Result<(), TestError<Vec<Op>>> {
    let mut runner = TestRunner::new(Config { cases: 3_000, failure_persistence: None, ..Config::default() });
    runner.run(&prop::collection::vec(op(), 0..120), |ops| World::<M>::new().run(&ops).map_err(TestCaseError::fail))
}

/// What the checks say of a double.
fn caught<M: Mind>() -> String {
    match check::<M>() {
        Err(TestError::Fail(reason, _)) => reason.message().to_owned(),
        other => panic!("the double was not caught: {other:?}"),
    }
}

#[test]
fn b7_only_the_key_of_a_refused_event_is_blocked_and_nothing_overtakes() {
    if let Err(error) = check::<Product>() {
        panic!("{error}");
    }
}

#[test]
fn b7_every_mistake_is_caught() {
    for message in [
        caught::<Skips>(),
        caught::<Forgets>(),
        caught::<TrustsMemory>(),
        caught::<OpensEarly>(),
        caught::<NewestFirst>(),
    ] {
        assert!(message.contains("overtook"), "{message}");
    }
    let message = caught::<BlocksAll>();
    assert!(message.contains("innocent"), "{message}");
}

#[test]
fn policies_decide_by_topic_and_an_event_without_a_key_is_parked_alone() {
    let topics = [("skipped".to_owned(), OnRefusal::Skip), ("halted".to_owned(), OnRefusal::Halt)];
    let policies = Policies { default: OnRefusal::BlockKey, topics: topics.into() };
    let mut blocking = Blocking::new(policies, 10);
    blocking.own(SHARD, Vec::new());
    let mut world = World::<Product>::new();
    world.append(1, true);
    let of_topic = |topic: &str, id| LoggedEvent { topic: topic.into(), id, ..world.log[0].clone() };
    let alone = Fate::Park(Cause::Alone { reason: "bad".into() });
    assert_eq!(blocking.fate(&of_topic("skipped", 1), Some("bad")), alone);
    assert_eq!(blocking.fate(&of_topic("skipped", 2), None), Fate::Send);
    assert_eq!(blocking.fate(&of_topic("halted", 3), Some("bad")), Fate::Stop("bad".into()));
    assert_eq!(blocking.fate(&LoggedEvent { key: None, ..of_topic("t", 4) }, Some("bad")), alone);
    assert_eq!(blocking.fate(&of_topic("t", 5), Some("bad")), Fate::Park(Cause::Refused { reason: "bad".into() }));
    // The key of another topic is another key.
    assert_eq!(blocking.fate(&of_topic("u", 6), None), Fate::Send);
    assert_eq!(blocking.fate(&of_topic("t", 7), None), Fate::Park(Cause::Behind));
    assert_eq!(blocking.fate(&LoggedEvent { key: None, ..of_topic("t", 8) }, None), Fate::Send);
}

/// A later event of its key was refused beforehand, while this one was on its way and was refused among others.
#[test]
fn event_that_is_sent_again_is_not_behind_a_later_one_of_its_key() {
    let mut blocking = Blocking::new(Policies::default(), 10);
    blocking.own(SHARD, Vec::new());
    let mut world = World::<Product>::new();
    world.append(1, true);
    let event = |id| LoggedEvent { id, ..world.log[0].clone() };
    let refused = Fate::Park(Cause::Refused { reason: "bad".into() });
    assert_eq!(blocking.fate(&event(6), Some("bad")), refused);
    assert_eq!(blocking.fate(&event(7), None), Fate::Park(Cause::Behind));
    assert_eq!(blocking.fate(&event(3), None), Fate::Send);
    assert_eq!(blocking.fate(&event(3), Some("bad")), refused);
    assert_eq!(blocking.fate(&event(4), None), Fate::Park(Cause::Behind));
    // The sink forgets all but the first.
    blocking.rewound(SHARD, &[3]);
    assert_eq!(blocking.fate(&event(6), None), Fate::Park(Cause::Behind));
    blocking.noted(SHARD, [3, 6]);
    assert_eq!(blocking.fate(&event(8), None), Fate::Park(Cause::Behind));
    blocking.noted(SHARD, [8]);
    blocking.opened(SHARD, Queue::of_key("t", &[1]));
    assert_eq!(blocking.fate(&event(9), None), Fate::Send);
    blocking.rewound(SHARD, &[]);
}
