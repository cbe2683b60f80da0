//! The relay of the model: the product, and doubles that each make one mistake.

use super::SHARD;
use crate::parked::{Cause, Queue};
use crate::relay::blocking::{Blocking, Policies};
use crate::relay::pipeline::{Fate, Gate};
use crate::sink::LoggedEvent;

/// What the relay in the model is made of. The product, unless a double says otherwise.
pub(super) trait Mind {
    fn new() -> Self;
    fn blocking(&mut self) -> &mut Blocking;

    fn own(&mut self, blocked: Vec<Queue>) {
        self.blocking().own(SHARD, blocked);
    }

    fn decide(&mut self, event: &LoggedEvent, refused: Option<&str>) -> Fate {
        self.blocking().fate(event, refused)
    }

    fn round_begins(&mut self) {
        self.blocking().round_begins();
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

pub(super) struct Product(Blocking);

impl Mind for Product {
    fn new() -> Self {
        Self(blocking())
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }
}

/// Keeps the parked event back and lets its key go on.
pub(super) struct Skips(Blocking);

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
pub(super) struct BlocksAll(Blocking, bool);

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
pub(super) struct Forgets(Blocking);

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
pub(super) struct TrustsMemory(Blocking);

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
pub(super) struct OpensEarly(Blocking);

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

/// Opens a key though an event was noted behind its queue while the answer that the queue is gone was on its way.
pub(super) struct OpensLate(Blocking);

impl Mind for OpensLate {
    fn new() -> Self {
        Self(blocking())
    }

    fn blocking(&mut self) -> &mut Blocking {
        &mut self.0
    }

    fn opened(&mut self, queue: Queue) {
        self.0.round_begins();
        self.0.opened(SHARD, queue);
    }
}

/// Sends what is released from the newest on.
pub(super) struct NewestFirst(Blocking);

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
