//! A shard, its tables, a sink and an operator, in memory and in any interleaving. The relay in it decides by [`Blocking`](super::Blocking) or by a
//! double that makes a mistake; the same checks have to accept the one and catch the others.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};

use self::minds::{BlocksAll, Forgets, Mind, NewestFirst, OpensEarly, OpensLate, Product, Skips, TrustsMemory};
use self::world::World;
use crate::event::EventId;
use crate::headers::Headers;
use crate::sink::LoggedEvent;

mod minds;
mod world;

const KEYS: u8 = 4;
pub(super) const SHARD: i64 = 0;

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
    /// It hears that this is written.
    Hear,
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
        4 => Just(Op::Hear),
        1 => key().prop_map(|key| Op::Mend { key }),
    ]
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
        caught::<OpensLate>(),
        caught::<NewestFirst>(),
    ] {
        assert!(message.contains("overtook"), "{message}");
    }
    let message = caught::<BlocksAll>();
    assert!(message.contains("innocent"), "{message}");
}

pub(super) fn event(id: i64, key: Vec<u8>) -> LoggedEvent {
    LoggedEvent {
        shard: SHARD,
        id,
        event_id: EventId::new(),
        topic: "t".into(),
        key: Some(key),
        value: None,
        headers: Headers::default(),
        partition: None,
        age_ms: 0,
        unreadable: None,
    }
}
