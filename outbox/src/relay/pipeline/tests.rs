//! The pipeline against a log and a sink that do whatever the contract allows, in any order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use world::World;

mod world;

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
    /// What has no answer was waited for long enough.
    Forget,
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
        1 => Just(Op::Forget),
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
