//! Which keys are blocked, and what becomes of an event because of it: pure, no I/O.
//!
//! A key is a topic and a key. It is blocked from the refusal of an event of it on, until its queue of parked events has been
//! sent. The tables say which keys are blocked ([`ParkedLog`](crate::parked::ParkedLog)); a relay knows them from its claim of the
//! shard on, and is the only one to add any while it holds the shard. What it decided and has not written yet counts as well:
//!
//! ```text
//!   decide ──▶ unwritten ──(note)──▶ in the tables ──(drained)──▶ opened
//!                  └──(rewound)──▶ void, to be decided again
//! ```
//!
//! A key that counts as blocked and is not (an operator skipped its last event) does no harm: its next event is parked, the tables
//! find that it stands behind nothing, and it is sent at once. The other way round an event would overtake.

use std::collections::{HashMap, HashSet};

use crate::parked::{Cause, Queue};
use crate::relay::cursor::Cursor;
use crate::relay::pipeline::{Fate, Gate};
use crate::sink::LoggedEvent;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// What a relay does with an event that the sink refuses for good.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnRefusal {
    /// Parks it, and later events of its key behind it until somebody [retries, skips or releases](crate::Parked) it: the order of
    /// the key is kept. All other keys go on. An event without a key is parked alone.
    #[default]
    BlockKey,
    /// Parks it alone: later events of its key go on, and it is kept until somebody [retries or skips](crate::Parked) it. For topics
    /// whose events stand by themselves.
    ParkAlone,
    /// Stops before it, with [`Error::Refused`](crate::Error::Refused): nothing of its shard goes on.
    Halt,
}

/// The policies of a relay.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    pub(crate) default: OnRefusal,
    pub(crate) topics: HashMap<String, OnRefusal>,
}

impl Policies {
    fn of(&self, topic: &str) -> OnRefusal {
        self.topics.get(topic).copied().unwrap_or(self.default)
    }
}

/// What a relay knows of the blocked keys of its shards.
#[derive(Debug)]
pub(crate) struct Blocking {
    policies: Policies,
    /// Blocked keys of a shard that are kept in memory, 16 bytes each.
    in_memory: usize,
    shards: HashMap<i64, Keys>,
}

/// The blocked keys of a shard.
#[derive(Debug, Default)]
struct Keys {
    blocked: HashSet<Queue>,
    /// Whether that is all of them. If not, every event is looked up in the tables before it is decided on.
    whole: bool,
    /// What was decided and is in no note yet, by the event's number in the shard.
    unwritten: HashMap<i64, Unwritten>,
    /// The first event that a key is blocked by, where it is in no note yet. An earlier one of the key, which was refused among others
    /// and is to be sent again, is not behind it.
    since: HashMap<Queue, i64>,
    /// Queues that events were noted into since the round under way began. One that it found gone may have been made anew.
    noted_since: HashSet<Queue>,
}

#[derive(Debug, Clone, Copy)]
struct Unwritten {
    queue: Queue,
    /// Whether the key is blocked because of this event.
    began: bool,
}

impl Blocking {
    pub(crate) fn new(policies: Policies, in_memory: usize) -> Self {
        Self { policies, in_memory, shards: HashMap::new() }
    }

    /// How many of a shard's blocked keys to ask the tables for, when it was claimed: one more than are kept.
    pub(crate) fn to_load(&self) -> usize {
        self.in_memory.saturating_add(1)
    }

    /// A shard was claimed, and has these blocked keys: all of them, if there are fewer than [`to_load`](Self::to_load).
    pub(crate) fn own(&mut self, shard: i64, blocked: Vec<Queue>) {
        let whole = blocked.len() <= self.in_memory;
        let blocked = if whole { blocked.into_iter().collect() } else { HashSet::new() };
        self.shards.insert(shard, Keys { blocked, whole, ..Keys::default() });
    }

    /// Forgets every shard but these.
    pub(crate) fn keep_only(&mut self, cursors: &[Cursor]) {
        self.shards.retain(|shard, _| cursors.iter().any(|cursor| cursor.shard == *shard));
    }

    /// The keys of a page that have to be looked up in the tables before any of it is decided on; usually none.
    pub(crate) fn to_look_up(&self, shard: i64, events: &[LoggedEvent]) -> Vec<Queue> {
        let Some(keys) = self.shards.get(&shard).filter(|keys| !keys.whole) else { return Vec::new() };
        let mut queues: Vec<Queue> = events.iter().filter_map(queue_of).collect();
        queues.retain(|queue| !keys.blocked.contains(queue));
        queues.sort_unstable();
        queues.dedup();
        queues
    }

    /// These of the keys looked up are blocked.
    pub(crate) fn found(&mut self, shard: i64, blocked: Vec<Queue>) {
        if let Some(keys) = self.shards.get_mut(&shard) {
            keys.blocked.extend(blocked);
        }
    }

    fn decide(&mut self, event: &LoggedEvent, refused: Option<&str>) -> Fate {
        let keys = self.shards.entry(event.shard).or_default();
        let queue = if refused.is_some() || !keys.blocked.is_empty() { queue_of(event) } else { None };
        if let Some(queue) = queue.filter(|queue| keys.is_behind(*queue, event.id)) {
            keys.unwritten.insert(event.id, Unwritten { queue, began: false });
            return Fate::Park(Cause::Behind);
        }
        let Some(reason) = refused else { return Fate::Send };
        match (self.policies.of(&event.topic), queue) {
            (OnRefusal::Halt, _) => Fate::Stop(reason.to_owned()),
            (OnRefusal::BlockKey, Some(queue)) => {
                keys.blocked.insert(queue);
                keys.since.insert(queue, event.id);
                keys.unwritten.insert(event.id, Unwritten { queue, began: true });
                Fate::Park(Cause::Refused { reason: reason.to_owned() })
            }
            (OnRefusal::BlockKey, None) | (OnRefusal::ParkAlone, _) => {
                Fate::Park(Cause::Alone { reason: reason.to_owned() })
            }
        }
    }

    /// These events stand in the tables now.
    pub(crate) fn noted(&mut self, shard: i64, parked: impl IntoIterator<Item = i64>) {
        let Some(keys) = self.shards.get_mut(&shard) else { return };
        let mut blocked = HashSet::new();
        for id in parked {
            let Some(Unwritten { queue, began }) = keys.unwritten.remove(&id) else { continue };
            keys.noted_since.insert(queue);
            if began {
                keys.since.remove(&queue);
                blocked.insert(queue);
            }
        }
        // The tables block these keys from here on, whatever becomes of a later refusal.
        if !blocked.is_empty() {
            keys.unwritten.values_mut().for_each(|later| later.began &= !blocked.contains(&later.queue));
        }
        if keys.whole && keys.blocked.len() > self.in_memory {
            keys.whole = false;
        }
    }

    /// Queues are about to be looked up and sent. What this finds gone is told by [`opened`](Self::opened).
    pub(crate) fn round_begins(&mut self) {
        self.shards.values_mut().for_each(|keys| keys.noted_since.clear());
    }

    /// A queue is empty, and was gone from the tables at some moment of the round. Its key stays blocked if an event was parked behind
    /// it meanwhile, noted or not: that one comes into a queue that is drained at once.
    pub(crate) fn opened(&mut self, shard: i64, queue: Queue) {
        let Some(keys) = self.shards.get_mut(&shard) else { return };
        let made_anew = keys.noted_since.contains(&queue);
        if !made_anew && keys.unwritten.values().all(|unwritten| unwritten.queue != queue) {
            keys.blocked.remove(&queue);
        }
    }

    /// A shard that has so many blocked keys in memory that it is to be claimed anew, to begin with none.
    pub(crate) fn overfull(&self) -> Option<i64> {
        let overfull = |keys: &Keys| !keys.whole && keys.blocked.len() > self.in_memory.saturating_mul(2);
        self.shards.iter().find(|(_, keys)| overfull(keys)).map(|(&shard, _)| shard)
    }
}

impl Gate for Blocking {
    fn fate(&mut self, event: &LoggedEvent, refused: Option<&str>) -> Fate {
        self.decide(event, refused)
    }

    fn rewound(&mut self, shard: i64, kept: &[i64]) {
        let Some(keys) = self.shards.get_mut(&shard) else { return };
        let void: Vec<Unwritten> =
            keys.unwritten.extract_if(|id, _| !kept.contains(id)).map(|(_, unwritten)| unwritten).collect();
        for Unwritten { queue, .. } in void.iter().filter(|void| void.began) {
            let first = keys.unwritten.iter().filter(|(_, kept)| kept.queue == *queue).map(|(id, _)| *id).min();
            if let Some(first) = first {
                keys.since.insert(*queue, first);
            } else {
                keys.since.remove(queue);
                keys.blocked.remove(queue);
            }
        }
    }
}

impl Keys {
    /// Whether an event of a key comes behind one that is parked.
    fn is_behind(&self, queue: Queue, id: i64) -> bool {
        self.blocked.contains(&queue) && self.since.get(&queue).is_none_or(|since| *since < id)
    }
}

fn queue_of(event: &LoggedEvent) -> Option<Queue> {
    event.key.as_deref().map(|key| Queue::of_key(&event.topic, key))
}
