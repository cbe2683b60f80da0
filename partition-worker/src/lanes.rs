//! One record of a key at a time, many keys at once. Pure: no I/O, no clock.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::partition::TopicPartition;

/// What orders records: those of one lane run one after the other, in offset order.
///
/// All records of a partition that have no key share a lane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneKey {
    /// The partition.
    pub partition: TopicPartition,
    /// The record's key.
    pub key: Option<Arc<[u8]>>,
}

/// The lanes of a worker, and the work of type `J` that waits in them.
///
/// # Contract
/// - Of a lane, at most one piece of work is out at a time: between [`start`](Self::start) and
///   [`finish`](Self::finish) or [`rest`](Self::rest). Work of a lane comes out in the order in which it was pushed.
/// - At most `limit` pieces of work are out at a time in all.
/// - Lanes that are ready take turns.
/// - [`purge`](Self::purge) forgets what waits; what is out stays out, and its lane stays taken until it is finished: when
///   the partition comes back, redelivered work of that key waits for it.
#[derive(Debug)]
pub struct Lanes<J> {
    limit: usize,
    out: usize,
    partitions: HashMap<TopicPartition, OfPartition<J>>,
    ready: VecDeque<LaneKey>,
    rests: u64,
}

type OfPartition<J> = HashMap<Option<Arc<[u8]>>, Lane<J>>;

#[derive(Debug)]
struct Lane<J> {
    state: State,
    waiting: VecDeque<J>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    Out,
    Resting(Rest),
}

/// A pause of a lane, ended by [`Lanes::wake`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rest(u64);

impl<J> Lanes<J> {
    /// No lanes yet; at most `limit` pieces of work will be out at a time.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, out: 0, partitions: HashMap::new(), ready: VecDeque::new(), rests: 0 }
    }

    /// Puts work at the end of a lane.
    pub fn push(&mut self, key: LaneKey, work: J) {
        match self.partitions.entry(key.partition.clone()).or_default().entry(key.key.clone()) {
            Entry::Occupied(mut lane) => lane.get_mut().waiting.push_back(work),
            Entry::Vacant(lane) => {
                lane.insert(Lane { state: State::Ready, waiting: VecDeque::from([work]) });
                self.ready.push_back(key);
            }
        }
    }

    /// Takes out the next piece of work, if a lane is ready and the limit allows.
    pub fn start(&mut self) -> Option<(LaneKey, J)> {
        if self.out >= self.limit {
            return None;
        }
        let key = self.ready.pop_front()?;
        let lane = self.lane(&key)?;
        lane.state = State::Out;
        let work = lane.waiting.pop_front()?;
        self.out += 1;
        Some((key, work))
    }

    /// The work of this lane that was out is done with; the lane goes on.
    pub fn finish(&mut self, key: &LaneKey) {
        if self.lane(key).is_some_and(|lane| lane.state == State::Out) {
            self.out -= 1;
            self.release(key);
        }
    }

    /// The work of this lane that was out goes back to its front, and the lane rests until it is woken.
    pub fn rest(&mut self, key: &LaneKey, work: J) -> Option<Rest> {
        self.rests += 1;
        let rest = Rest(self.rests);
        let lane = self.lane(key).filter(|lane| lane.state == State::Out)?;
        lane.waiting.push_front(work);
        lane.state = State::Resting(rest);
        self.out -= 1;
        Some(rest)
    }

    /// Ends this rest of the lane; if the lane has been purged meanwhile, nothing happens.
    pub fn wake(&mut self, key: &LaneKey, rest: Rest) {
        if self.lane(key).is_some_and(|lane| lane.state == State::Resting(rest)) {
            self.release(key);
        }
    }

    /// Forgets the work of a partition that waits; answers it.
    pub fn purge(&mut self, partition: &TopicPartition) -> Vec<J> {
        let Some(lanes) = self.partitions.get_mut(partition) else {
            return Vec::new();
        };
        let forgotten = lanes.values_mut().flat_map(|lane| lane.waiting.drain(..)).collect();
        lanes.retain(|_, lane| lane.state == State::Out);
        if lanes.is_empty() {
            self.partitions.remove(partition);
        }
        self.ready.retain(|key| key.partition != *partition);
        forgotten
    }

    /// Whether nothing of this partition is out.
    #[must_use]
    pub fn is_quiet(&self, partition: &TopicPartition) -> bool {
        let lanes = self.partitions.get(partition);
        lanes.is_none_or(|lanes| lanes.values().all(|lane| lane.state != State::Out))
    }

    /// How many pieces of work are out.
    #[must_use]
    pub const fn out(&self) -> usize {
        self.out
    }

    fn lane(&mut self, key: &LaneKey) -> Option<&mut Lane<J>> {
        self.partitions.get_mut(&key.partition)?.get_mut(&key.key)
    }

    fn release(&mut self, key: &LaneKey) {
        let Some(lanes) = self.partitions.get_mut(&key.partition) else { return };
        let Some(lane) = lanes.get_mut(&key.key) else { return };
        if lane.waiting.is_empty() {
            lanes.remove(&key.key);
            if lanes.is_empty() {
                self.partitions.remove(&key.partition);
            }
        } else {
            lane.state = State::Ready;
            self.ready.push_back(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lane(partition: i32, key: Option<&str>) -> LaneKey {
        LaneKey { partition: TopicPartition::new("t", partition), key: key.map(|key| key.as_bytes().into()) }
    }

    #[test]
    fn null_keys_of_a_partition_share_a_lane_and_an_empty_key_is_a_key() {
        let mut lanes = Lanes::new(10);
        lanes.push(lane(0, None), 1);
        lanes.push(lane(0, None), 2);
        lanes.push(lane(0, Some("")), 3);
        lanes.push(lane(1, None), 4);
        let out: Vec<_> = std::iter::from_fn(|| lanes.start()).map(|(_, work)| work).collect();
        assert_eq!(out, [1, 3, 4]);
    }

    #[test]
    fn a_resting_lane_gives_its_place_to_others_and_keeps_its_order() {
        let mut lanes = Lanes::new(1);
        lanes.push(lane(0, Some("a")), 1);
        lanes.push(lane(0, Some("a")), 2);
        lanes.push(lane(0, Some("b")), 3);
        let (a, one) = lanes.start().expect("a is ready");
        let rest = lanes.rest(&a, one).expect("a was out");
        let (b, three) = lanes.start().expect("b is ready");
        assert_eq!((b, three), (lane(0, Some("b")), 3));
        lanes.finish(&lane(0, Some("b")));
        assert!(lanes.start().is_none());
        lanes.wake(&a, rest);
        assert_eq!(lanes.start().map(|(_, work)| work), Some(1));
    }

    #[test]
    fn p1_a_redelivered_key_waits_for_what_still_runs_from_before_the_purge() {
        let mut lanes = Lanes::new(10);
        lanes.push(lane(0, Some("a")), "before");
        lanes.push(lane(0, Some("a")), "forgotten");
        let (a, _) = lanes.start().expect("ready");
        assert_eq!(lanes.purge(&a.partition), ["forgotten"]);
        lanes.push(a.clone(), "redelivered");
        assert!(lanes.start().is_none(), "a handler of this key is still running");
        lanes.finish(&a);
        assert_eq!(lanes.start().map(|(_, work)| work), Some("redelivered"));
    }

    #[test]
    fn a_rest_from_before_a_purge_wakes_nothing() {
        let mut lanes = Lanes::new(10);
        lanes.push(lane(0, Some("a")), 1);
        let (a, one) = lanes.start().expect("ready");
        let stale = lanes.rest(&a, one).expect("out");
        assert_eq!(lanes.purge(&a.partition), [1]);
        lanes.push(a.clone(), 1);
        let (_, one) = lanes.start().expect("ready anew");
        lanes.rest(&a, one);
        lanes.wake(&a, stale);
        assert!(lanes.start().is_none());
    }

    #[derive(Debug, Clone)]
    enum Op {
        Push { key: u8 },
        Next,
        Finish { pick: usize },
        Rest { pick: usize },
        Wake { pick: usize },
        Purge { partition: i32 },
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..6_u8).prop_map(|key| Op::Push { key }),
            4 => Just(Op::Next),
            3 => any::<usize>().prop_map(|pick| Op::Finish { pick }),
            1 => any::<usize>().prop_map(|pick| Op::Rest { pick }),
            1 => any::<usize>().prop_map(|pick| Op::Wake { pick }),
            1 => (0..2).prop_map(|partition| Op::Purge { partition }),
        ]
    }

    proptest! {
        #[test]
        fn one_of_a_lane_at_a_time_in_order_within_the_limit(ops in prop::collection::vec(op(), 0..300)) {
            let mut lanes = Lanes::new(3);
            let mut out: Vec<(LaneKey, u64)> = Vec::new();
            let mut resting: Vec<(LaneKey, Rest)> = Vec::new();
            let mut waiting: HashMap<LaneKey, VecDeque<u64>> = HashMap::new();
            let mut number = 0;
            for op in ops {
                match op {
                    Op::Push { key } => {
                        number += 1;
                        let key = lane(i32::from(key % 2), Some(&key.to_string()));
                        waiting.entry(key.clone()).or_default().push_back(number);
                        lanes.push(key, number);
                    }
                    Op::Next => if let Some((key, work)) = lanes.start() {
                            prop_assert!(out.iter().all(|(other, _)| *other != key), "two of a lane");
                            prop_assert_eq!(waiting.get_mut(&key).and_then(VecDeque::pop_front), Some(work));
                            out.push((key, work));
                        } else {
                            let idle = waiting.iter().filter(|(key, queue)| {
                                !queue.is_empty()
                                    && out.iter().all(|(other, _)| other != *key)
                                    && resting.iter().all(|(other, _)| other != *key)
                            });
                            prop_assert!(out.len() == 3 || idle.count() == 0, "a ready lane was passed over");
                        }
                    Op::Finish { pick } if !out.is_empty() => {
                        let (key, _) = out.swap_remove(pick % out.len());
                        lanes.finish(&key);
                    }
                    Op::Rest { pick } if !out.is_empty() => {
                        let (key, work) = out.swap_remove(pick % out.len());
                        waiting.entry(key.clone()).or_default().push_front(work);
                        let rest = lanes.rest(&key, work).expect("it was out");
                        resting.push((key, rest));
                    }
                    Op::Wake { pick } if !resting.is_empty() => {
                        let (key, rest) = resting.swap_remove(pick % resting.len());
                        lanes.wake(&key, rest);
                    }
                    Op::Purge { partition } => {
                        let partition = TopicPartition::new("t", partition);
                        let mut gone = lanes.purge(&partition);
                        let mut expected: Vec<u64> = Vec::new();
                        for (key, queue) in &mut waiting {
                            if key.partition == partition {
                                expected.extend(queue.drain(..));
                            }
                        }
                        gone.sort_unstable();
                        expected.sort_unstable();
                        prop_assert_eq!(gone, expected);
                        resting.retain(|(key, _)| key.partition != partition);
                    }
                    _ => {}
                }
                prop_assert_eq!(lanes.out(), out.len());
            }
        }
    }
}
