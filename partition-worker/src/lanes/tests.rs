use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    lane: LaneKey,
    number: u64,
    company: usize,
}

impl Laned for Piece {
    fn lane(&self) -> &LaneKey {
        &self.lane
    }

    fn company(&self) -> usize {
        self.company
    }
}

fn key(key: &str) -> Lane {
    Lane::Key(key.as_bytes().into())
}

fn piece(partition: i32, lane: Lane, number: u64) -> Piece {
    let lane = LaneKey { partition: TopicPartition::new("t", partition), lane };
    Piece { lane, number, company: usize::MAX }
}

fn next(lanes: &mut Lanes<Piece>, most: usize) -> Vec<Piece> {
    let mut hand = Vec::new();
    assert_eq!(lanes.start(most, &mut hand), !hand.is_empty());
    hand
}

fn numbers(hand: &[Piece]) -> Vec<u64> {
    hand.iter().map(|piece| piece.number).collect()
}

fn one(lanes: &mut Lanes<Piece>) -> Option<u64> {
    next(lanes, 1).first().map(|piece| piece.number)
}

#[test]
fn null_keys_of_a_partition_share_a_lane_and_an_empty_key_is_a_key() {
    let mut lanes = Lanes::new(10);
    let pieces = [(0, Lane::Shared), (0, Lane::Shared), (0, key("")), (1, Lane::Shared), (0, Lane::Alone(7))];
    for (number, (partition, lane)) in (1..).zip(pieces) {
        lanes.push(piece(partition, lane, number));
    }
    let out: Vec<_> = std::iter::from_fn(|| one(&mut lanes)).collect();
    assert_eq!(out, [1, 4, 3, 5]);
}

#[test]
fn a_partition_with_many_keys_leaves_every_other_turn_to_one_with_few() {
    let mut lanes = Lanes::new(100);
    (0..50).for_each(|number| lanes.push(piece(0, key(&number.to_string()), number)));
    (50..53).for_each(|number| lanes.push(piece(1, key(&number.to_string()), number)));
    let out: Vec<_> = (0..6).filter_map(|_| one(&mut lanes)).collect();
    assert_eq!(out, [0, 50, 1, 51, 2, 52]);
}

#[test]
fn a_hand_has_one_partition_and_the_first_of_each_lane_first() {
    let mut lanes = Lanes::new(10);
    for (number, (partition, lane)) in (1..).zip([(0, "a"), (0, "a"), (1, "b"), (0, "c"), (0, "a"), (0, "c")]) {
        lanes.push(piece(partition, key(lane), number));
    }
    let hand = next(&mut lanes, 4);
    assert_eq!(numbers(&hand), [1, 4, 2, 6]);
    assert_eq!(numbers(&next(&mut lanes, 4)), [3]);
    assert_eq!(one(&mut lanes), None, "5 waits for 1 and 2");
}

#[test]
fn what_goes_alone_is_never_in_company() {
    let mut lanes = Lanes::new(10);
    for (number, company) in [(1, 9), (2, 1), (3, 2), (4, 9), (5, 9)] {
        lanes.push(Piece { company, ..piece(0, key(&number.to_string()), number) });
    }
    let hands: Vec<_> = (0..4).map(|_| numbers(&next(&mut lanes, 5))).collect();
    assert_eq!(hands, [vec![1], vec![2], vec![3, 4], vec![5]]);
}

#[test]
fn a_resting_lane_gives_its_place_to_others_and_keeps_its_order() {
    let mut lanes = Lanes::new(1);
    for (number, lane) in [(1, "a"), (2, "a"), (3, "b")] {
        lanes.push(piece(0, key(lane), number));
    }
    let a = next(&mut lanes, 1);
    let lane = a[0].lane.clone();
    let rest = lanes.rest(a);
    lanes.hand_is_over();
    let b = next(&mut lanes, 1);
    assert_eq!(numbers(&b), [3]);
    lanes.finish(&b[0].lane);
    lanes.hand_is_over();
    assert_eq!(one(&mut lanes), None);
    lanes.wake(&lane, rest);
    assert_eq!(one(&mut lanes), Some(1));
}

#[test]
fn p1_a_redelivered_key_waits_for_what_still_runs_from_before_the_purge() {
    for lane in [key("a"), Lane::Shared, Lane::Alone(7)] {
        let mut lanes = Lanes::new(10);
        lanes.push(piece(0, lane.clone(), 1));
        lanes.push(piece(0, lane.clone(), 2));
        let before = next(&mut lanes, 1);
        assert_eq!(numbers(&lanes.purge(&before[0].lane.partition)), [2]);
        lanes.push(piece(0, lane, 3));
        assert_eq!(one(&mut lanes), None, "a handler of this key is still running");
        lanes.finish(&before[0].lane);
        assert_eq!(one(&mut lanes), Some(3));
    }
}

#[test]
fn a_rest_from_before_a_purge_wakes_nothing() {
    let mut lanes = Lanes::new(10);
    lanes.push(piece(0, key("a"), 1));
    let hand = next(&mut lanes, 1);
    let lane = hand[0].lane.clone();
    let stale = lanes.rest(hand);
    assert_eq!(numbers(&lanes.purge(&lane.partition)), [1]);
    lanes.push(piece(0, key("a"), 1));
    let hand = next(&mut lanes, 1);
    lanes.rest(hand);
    lanes.wake(&lane, stale);
    assert_eq!(one(&mut lanes), None);
}

#[derive(Debug, Clone)]
enum Op {
    Push { key: u8, company: usize },
    Next { most: usize },
    Finish { pick: usize },
    GiveBack { pick: usize },
    Rest { pick: usize },
    Wake { pick: usize },
    Purge { partition: i32 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..8_u8, 1..6_usize).prop_map(|(key, company)| Op::Push { key, company }),
        4 => (1..5_usize).prop_map(|most| Op::Next { most }),
        3 => any::<usize>().prop_map(|pick| Op::Finish { pick }),
        1 => any::<usize>().prop_map(|pick| Op::GiveBack { pick }),
        1 => any::<usize>().prop_map(|pick| Op::Rest { pick }),
        1 => any::<usize>().prop_map(|pick| Op::Wake { pick }),
        1 => (0..2).prop_map(|partition| Op::Purge { partition }),
    ]
}

/// Lists that are searched from the front each time.
#[derive(Default)]
struct Model {
    waiting: BTreeMap<u8, VecDeque<u64>>,
    out: Vec<Vec<Piece>>,
    resting: Vec<(LaneKey, Rest)>,
}

fn number_of(lane: &LaneKey) -> u8 {
    match &lane.lane {
        Lane::Shared => 0,
        Lane::Alone(offset) => u8::try_from(*offset).expect("small"),
        Lane::Key(key) => key[0],
    }
}

fn lane_of(number: u8) -> (i32, Lane) {
    let lane = match number {
        0 => Lane::Shared,
        1 => Lane::Alone(1),
        number => Lane::Key([number].into()),
    };
    (i32::from(number % 2), lane)
}

impl Model {
    fn is_taken(&self, lane: &LaneKey) -> bool {
        self.out.iter().flatten().any(|piece| piece.lane == *lane) || self.resting.iter().any(|(of, _)| of == lane)
    }

    fn put_back(&mut self, hand: &[Piece]) {
        for piece in hand.iter().rev() {
            self.waiting.entry(number_of(&piece.lane)).or_default().push_front(piece.number);
        }
    }

    /// Checks a hand that has come out, or that none has.
    fn check(&mut self, hand: Vec<Piece>, most: usize) -> Result<(), TestCaseError> {
        if hand.is_empty() {
            let is_idle = self.waiting.iter().any(|(number, queue)| {
                let (partition, lane) = lane_of(*number);
                !queue.is_empty() && !self.is_taken(&piece(partition, lane, 0).lane)
            });
            prop_assert!(self.out.len() == 3 || !is_idle, "a ready lane was passed over");
            return Ok(());
        }
        prop_assert!(hand.len() <= most, "more than asked for");
        prop_assert!(hand.iter().all(|piece| piece.company >= hand.len()), "too large a company");
        prop_assert!(hand.iter().all(|piece| piece.lane.partition == hand[0].lane.partition), "two partitions");
        for piece in &hand {
            prop_assert!(!self.is_taken(&piece.lane), "two hands have work of a lane");
            let queue = self.waiting.entry(number_of(&piece.lane)).or_default();
            prop_assert_eq!(queue.pop_front(), Some(piece.number), "out of order");
        }
        self.out.push(hand);
        Ok(())
    }
}

proptest! {
    #[test]
    fn one_hand_of_a_lane_at_a_time_in_order_within_the_limit(ops in prop::collection::vec(op(), 0..300)) {
        let mut lanes = Lanes::new(3);
        let mut model = Model::default();
        let mut number = 0;
        for op in ops {
            match op {
                Op::Push { key, company } => {
                    number += 1;
                    let (partition, lane) = lane_of(key);
                    model.waiting.entry(key).or_default().push_back(number);
                    lanes.push(Piece { company, ..piece(partition, lane, number) });
                }
                Op::Next { most } => {
                    let hand = next(&mut lanes, most);
                    model.check(hand, most)?;
                }
                Op::Finish { pick } if !model.out.is_empty() => {
                    let index = pick % model.out.len();
                    for piece in model.out.swap_remove(index) {
                        lanes.finish(&piece.lane);
                    }
                    lanes.hand_is_over();
                }
                Op::GiveBack { pick } if !model.out.is_empty() => {
                    let index = pick % model.out.len();
                    let hand = model.out.swap_remove(index);
                    model.put_back(&hand);
                    lanes.give_back(hand);
                    lanes.hand_is_over();
                }
                Op::Rest { pick } if !model.out.is_empty() => {
                    let index = pick % model.out.len();
                    let hand = model.out.swap_remove(index);
                    model.put_back(&hand);
                    let keys: Vec<_> = hand.iter().map(|piece| piece.lane.clone()).collect();
                    let rest = lanes.rest(hand);
                    lanes.hand_is_over();
                    model.resting.extend(keys.into_iter().map(|key| (key, rest)));
                }
                Op::Wake { pick } if !model.resting.is_empty() => {
                    let index = pick % model.resting.len();
                    let (key, rest) = model.resting[index].clone();
                    model.resting.retain(|(other, _)| *other != key);
                    lanes.wake(&key, rest);
                }
                Op::Purge { partition } => {
                    let name = TopicPartition::new("t", partition);
                    let mut gone = numbers(&lanes.purge(&name));
                    let of = model.waiting.iter_mut().filter(|(number, _)| i32::from(*number % 2) == partition);
                    let mut expected: Vec<u64> = of.flat_map(|(_, queue)| queue.drain(..)).collect();
                    gone.sort_unstable();
                    expected.sort_unstable();
                    prop_assert_eq!(gone, expected);
                    model.resting.retain(|(key, _)| key.partition != name);
                }
                _ => {}
            }
            prop_assert_eq!(lanes.out(), model.out.len());
            for partition in 0..2 {
                let name = TopicPartition::new("t", partition);
                let out = model.out.iter().flatten().filter(|piece| piece.lane.partition == name);
                let different: std::collections::HashSet<_> = out.map(|piece| &piece.lane).collect();
                prop_assert_eq!(lanes.out_of(&name), different.len());
            }
        }
    }
}
