//! One record of a key at a time, many keys at once. Pure: no I/O, no clock.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::partition::TopicPartition;

#[cfg(test)]
mod tests;

/// What orders records: those of one lane run one after the other, in offset order.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneKey {
    /// The partition.
    pub partition: TopicPartition,
    /// The lane of it.
    pub lane: Lane,
}

/// A lane of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Of the records with this key.
    Key(Arc<[u8]>),
    /// Of records that have no key, or that are in order whatever their key is.
    Shared,
    /// Of the one record at this offset. It has a name so that a redelivery waits for it.
    Alone(i64),
}

/// Work that runs in a lane.
pub trait Laned {
    /// Its lane.
    fn lane(&self) -> &LaneKey;
    /// In a hand of how many pieces it may be at most, itself counted.
    fn company(&self) -> usize;
}

/// The lanes of a worker, and the work of type `J` that waits in them.
///
/// # Contract
/// - Work comes out in *hands*: one or more pieces of one partition. Of a lane, at most one hand has work at a time, from
///   [`start`](Self::start) until [`finish`](Self::finish), [`give_back`](Self::give_back) or [`rest`](Self::rest). Work of a
///   lane comes out in the order in which it was pushed, and none of a lane is passed over.
/// - At most `limit` hands are out at a time in all, each until [`hand_is_over`](Self::hand_is_over).
/// - Partitions that have something ready take turns, and in each of them the lanes do.
/// - [`purge`](Self::purge) forgets what waits; what is out stays out, and its lane stays taken until it is finished: when
///   the partition comes back, redelivered work of that key waits for it.
#[derive(Debug)]
pub struct Lanes<J> {
    limit: usize,
    out: usize,
    partitions: HashMap<TopicPartition, OfPartition<J>>,
    /// Partitions with a lane that is ready, each once.
    turns: VecDeque<TopicPartition>,
    rests: u64,
}

#[derive(Debug)]
struct OfPartition<J> {
    lanes: HashMap<Lane, Queue<J>>,
    ready: VecDeque<Lane>,
    /// Lanes that are out.
    out: usize,
}

#[derive(Debug)]
struct Queue<J> {
    state: State,
    waiting: VecDeque<J>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Out,
    Resting(Rest),
}

/// A pause of lanes, ended by [`Lanes::wake`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest(u64);

impl<J: Laned> Lanes<J> {
    /// No lanes yet; at most `limit` hands will be out at a time.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, out: 0, partitions: HashMap::new(), turns: VecDeque::new(), rests: 0 }
    }

    /// Puts work at the end of its lane.
    pub fn push(&mut self, work: J) {
        let LaneKey { partition, lane } = work.lane();
        if !self.partitions.contains_key(partition) {
            self.partitions.insert(partition.clone(), OfPartition::default());
        }
        let Some(of) = self.partitions.get_mut(partition) else { return };
        match of.lanes.entry(lane.clone()) {
            Entry::Occupied(mut queue) => queue.get_mut().waiting.push_back(work),
            Entry::Vacant(queue) => {
                if of.ready.is_empty() {
                    self.turns.push_back(partition.clone());
                }
                of.ready.push_back(lane.clone());
                queue.insert(Queue { state: State::Ready, waiting: VecDeque::from([work]) });
            }
        }
    }

    /// Takes out the next hand, of at most `most` pieces of work, if there is something ready and the limit allows; answers
    /// whether. The first pieces of its lanes come first.
    pub fn start(&mut self, most: usize, hand: &mut Vec<J>) -> bool {
        if self.out >= self.limit {
            return false;
        }
        let Some(partition) = self.turns.pop_front() else { return false };
        let Some(of) = self.partitions.get_mut(&partition) else { return false };
        of.deal(most, hand);
        if !of.ready.is_empty() {
            self.turns.push_back(partition);
        }
        self.out += 1;
        true
    }

    /// A hand is done with. What became of its work is said by the other calls, before.
    pub const fn hand_is_over(&mut self) {
        self.out = self.out.saturating_sub(1);
    }

    /// The work of this lane that was out is done with; the lane goes on.
    pub fn finish(&mut self, key: &LaneKey) {
        let Some(of) = self.partitions.get_mut(&key.partition) else { return };
        let Entry::Occupied(mut queue) = of.lanes.entry(key.lane.clone()) else { return };
        if queue.get().state != State::Out {
            return;
        }
        of.out -= 1;
        if queue.get().waiting.is_empty() {
            queue.remove();
            if of.lanes.is_empty() {
                self.partitions.remove(&key.partition);
            }
            return;
        }
        queue.get_mut().state = State::Ready;
        if of.ready.is_empty() {
            self.turns.push_back(key.partition.clone());
        }
        of.ready.push_back(key.lane.clone());
    }

    /// Work that was out, all that a hand had of its lanes, in the order in which it came out, goes back to the front of them;
    /// they come out next.
    pub fn give_back(&mut self, work: Vec<J>) {
        for piece in work.into_iter().rev() {
            let LaneKey { partition, lane } = piece.lane().clone();
            let Some(of) = self.partitions.get_mut(&partition) else { continue };
            let Some(queue) = of.lanes.get_mut(&lane) else { continue };
            queue.waiting.push_front(piece);
            if queue.state == State::Out {
                queue.state = State::Ready;
                of.out -= 1;
                if of.ready.is_empty() {
                    self.turns.push_front(partition);
                }
                of.ready.push_front(lane);
            }
        }
    }

    /// As [`give_back`](Self::give_back), but the lanes rest until they are woken.
    pub fn rest(&mut self, work: Vec<J>) -> Rest {
        self.rests += 1;
        let rest = Rest(self.rests);
        for piece in work.into_iter().rev() {
            let LaneKey { partition, lane } = piece.lane();
            let Some(of) = self.partitions.get_mut(partition) else { continue };
            let Some(queue) = of.lanes.get_mut(lane) else { continue };
            if queue.state == State::Out {
                queue.state = State::Resting(rest);
                of.out -= 1;
            }
            queue.waiting.push_front(piece);
        }
        rest
    }

    /// Ends this rest of the lane; if the lane has been purged meanwhile, nothing happens.
    pub fn wake(&mut self, key: &LaneKey, rest: Rest) {
        let Some(of) = self.partitions.get_mut(&key.partition) else { return };
        let Some(queue) = of.lanes.get_mut(&key.lane).filter(|queue| queue.state == State::Resting(rest)) else {
            return;
        };
        queue.state = State::Ready;
        if of.ready.is_empty() {
            self.turns.push_back(key.partition.clone());
        }
        of.ready.push_back(key.lane.clone());
    }

    /// Forgets the work of a partition that waits; answers it.
    pub fn purge(&mut self, partition: &TopicPartition) -> Vec<J> {
        let Some(of) = self.partitions.get_mut(partition) else {
            return Vec::new();
        };
        let forgotten = of.lanes.values_mut().flat_map(|queue| queue.waiting.drain(..)).collect();
        of.lanes.retain(|_, queue| queue.state == State::Out);
        of.ready.clear();
        if of.lanes.is_empty() {
            self.partitions.remove(partition);
        }
        self.turns.retain(|turn| turn != partition);
        forgotten
    }

    /// Whether nothing of this partition is out.
    #[must_use]
    pub fn is_quiet(&self, partition: &TopicPartition) -> bool {
        self.out_of(partition) == 0
    }

    /// How many lanes of this partition are out.
    #[must_use]
    pub fn out_of(&self, partition: &TopicPartition) -> usize {
        self.partitions.get(partition).map_or(0, |of| of.out)
    }

    /// How much work waits in this lane.
    #[must_use]
    pub fn waiting(&self, key: &LaneKey) -> usize {
        let queue = self.partitions.get(&key.partition).and_then(|of| of.lanes.get(&key.lane));
        queue.map_or(0, |queue| queue.waiting.len())
    }

    /// How many hands are out.
    #[must_use]
    pub const fn out(&self) -> usize {
        self.out
    }
}

impl<J: Laned> OfPartition<J> {
    /// Puts the next pieces of work into a hand: one of each lane that is ready, then more of the same lanes in turn.
    fn deal(&mut self, most: usize, hand: &mut Vec<J>) {
        let (begin, mut room) = (hand.len(), most.max(1));
        let fits = |count: usize, room: usize, piece: &J| count < room.min(piece.company().max(1));
        while let Some(queue) = self.ready.front().and_then(|lane| self.lanes.get_mut(lane)) {
            let Some(piece) = queue.waiting.pop_front_if(|piece| fits(hand.len() - begin, room, piece)) else { break };
            room = room.min(piece.company().max(1));
            queue.state = State::Out;
            self.out += 1;
            self.ready.pop_front();
            hand.push(piece);
        }
        let mut before = begin;
        while hand.len() - begin < room && before < hand.len() {
            let queue = self.lanes.get_mut(&hand[before].lane().lane);
            let piece =
                queue.and_then(|queue| queue.waiting.pop_front_if(|piece| fits(hand.len() - begin, room, piece)));
            if let Some(piece) = piece {
                room = room.min(piece.company().max(1));
                hand.push(piece);
            }
            before += 1;
        }
    }
}

impl<J> Default for OfPartition<J> {
    fn default() -> Self {
        Self { lanes: HashMap::new(), ready: VecDeque::new(), out: 0 }
    }
}
