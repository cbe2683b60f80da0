//! Single decisions.

use super::model::{SHARD, event};
use super::{Blocking, OnRefusal, Policies};
use crate::parked::{Cause, Queue};
use crate::relay::pipeline::{Fate, Gate};
use crate::sink::LoggedEvent;

#[test]
fn policies_decide_by_topic_and_an_event_without_a_key_is_parked_alone() {
    let topics = [("skipped".to_owned(), OnRefusal::ParkAlone), ("halted".to_owned(), OnRefusal::Halt)];
    let policies = Policies { default: OnRefusal::BlockKey, topics: topics.into() };
    let mut blocking = Blocking::new(policies, 10);
    blocking.own(SHARD, Vec::new());
    let of_topic = |topic: &str, id| LoggedEvent { topic: topic.into(), ..event(id, vec![1]) };
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
    let event = |id| event(id, vec![1]);
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
    blocking.round_begins();
    blocking.opened(SHARD, Queue::of_key("t", &[1]));
    assert_eq!(blocking.fate(&event(9), None), Fate::Send);
    blocking.rewound(SHARD, &[]);
}

/// An earlier event of the key was refused on its way and is in the tables, while a later one was refused beforehand and is not.
#[test]
fn key_that_is_blocked_in_the_tables_is_not_opened_when_a_later_refusal_is_void() {
    let mut blocking = Blocking::new(Policies::default(), 10);
    blocking.own(SHARD, Vec::new());
    let event = |id| event(id, vec![1]);
    let refused = Fate::Park(Cause::Refused { reason: "bad".into() });
    assert_eq!(blocking.fate(&event(3), None), Fate::Send);
    assert_eq!(blocking.fate(&event(4), None), Fate::Send);
    assert_eq!(blocking.fate(&event(6), Some("bad")), refused);
    // 3 and 4 were refused among others, and 3 is refused alone.
    assert_eq!(blocking.fate(&event(3), Some("bad")), refused);
    blocking.noted(SHARD, [3]);
    // The sink loses track, so that 4 is read again.
    blocking.rewound(SHARD, &[]);
    assert_eq!(blocking.fate(&event(4), None), Fate::Park(Cause::Behind));
}
