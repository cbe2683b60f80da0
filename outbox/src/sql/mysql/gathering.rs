//! Which events of a shard can be handed out: pure, no I/O.
//!
//! Ids follow the lock of a key, but not the order of commits: an event may become visible below one that was handed out long
//! ago. So a read first takes the next events behind the highest id that it knows of, and then asks, by a statement that begins
//! when that one has ended, which ids there are below. What it does not know yet was committed late. That second question is
//! what keeps a key in order: a transaction becomes visible before it releases its locks, so when a later event of a key has
//! been seen, each earlier one is visible to any snapshot taken *afterwards*. Not to the same one: MariaDB collects the open
//! transactions for a snapshot one after the other while others commit, so a snapshot may show a transaction and not one that
//! was committed before it.
//!
//! An event is therefore *settled* once a later question has brought what precedes it. One that only the last question has
//! brought is handed out if it is itself what precedes a settled event of its key; else the next read finds it again.

use std::collections::{BTreeMap, HashSet};

use crate::relay::cursor::ReadFrom;
use crate::sink::LoggedEvent;
use crate::sql::found::Found;

/// What a read has found of a shard.
#[derive(Debug)]
pub(super) struct Gathering<'a> {
    pub(super) from: &'a ReadFrom,
    /// Read earlier, and neither deleted nor to be handed out again.
    unnoted: HashSet<i64>,
    /// By id, and whether it is settled.
    found: BTreeMap<i64, (LoggedEvent, bool)>,
    /// The bytes of each that is still to be brought whole.
    bytes: BTreeMap<i64, i64>,
    limit: usize,
    /// Nothing more is to be asked.
    complete: bool,
}

impl<'a> Gathering<'a> {
    pub(super) fn new(from: &'a ReadFrom, limit: usize) -> Self {
        let unnoted = from.unnoted.iter().copied().collect();
        Self { from, unnoted, found: BTreeMap::new(), bytes: BTreeMap::new(), limit, complete: false }
    }

    pub(super) fn shard(&self) -> i64 {
        self.from.cursor.shard
    }

    /// The highest id that was handed out: the next events are behind it.
    pub(super) fn behind(&self) -> i64 {
        self.from.unnoted.iter().copied().max().unwrap_or(0)
    }

    /// Adds an event that is to be settled. It takes `bytes`, and is whole if that is not more than `whole`.
    pub(super) fn add(&mut self, event: LoggedEvent, bytes: i64, whole: i64) {
        if bytes > whole {
            self.bytes.insert(event.id, bytes);
        }
        self.found.insert(event.id, (event, false));
    }

    /// Up to which id it must be asked what there is; `None` if there is nothing to ask.
    pub(super) fn asks_up_to(&self) -> Option<i64> {
        let last_found = self.found.last_key_value().map(|(&id, _)| id);
        let last = last_found.max(self.from.unnoted.iter().copied().max());
        last.filter(|_| !self.complete)
    }

    /// How many of the lowest of these ids suffice: however many of them are known, a page of unknown ones is among them.
    pub(super) fn asks_for(&self) -> usize {
        self.unnoted.len() + self.found.len() + self.limit
    }

    /// Takes the answer to that: settles what was found before, keeps the lowest ids up to the limit, and answers which of the
    /// ids that it does not know belong to those.
    pub(super) fn settle(&mut self, there: &[i64]) -> Vec<i64> {
        for (_, settled) in self.found.values_mut() {
            *settled = true;
        }
        let mut unknown: Vec<_> =
            there.iter().copied().filter(|id| !self.unnoted.contains(id) && !self.found.contains_key(id)).collect();
        self.complete = unknown.is_empty();
        unknown.sort_unstable();
        unknown.truncate(self.limit);
        while self.found.len() + unknown.len() > self.limit {
            let last_unknown = unknown.last().copied();
            match self.found.last_key_value() {
                Some((&last_found, _)) if Some(last_found) > last_unknown => drop(self.found.pop_last()),
                _ => drop(unknown.pop()),
            }
        }
        unknown
    }

    /// The events to hand out, in the order of their ids.
    pub(super) fn handed_out(self) -> Found {
        let (mut precedes, mut handed_out) = (HashSet::new(), Found::default());
        let events: Vec<_> = self
            .found
            .into_values()
            .rev()
            .filter(|(event, settled)| {
                let of_key = event.key.as_ref().map(|key| (event.topic.clone(), key.clone()));
                match of_key {
                    Some(of_key) if *settled => {
                        precedes.insert(of_key);
                        true
                    }
                    Some(of_key) => precedes.contains(&of_key),
                    None => *settled,
                }
            })
            .map(|(event, _)| event)
            .collect();
        for event in events.into_iter().rev() {
            let bytes = self.bytes.get(&event.id).copied();
            handed_out.push(event, bytes.unwrap_or(0), i64::from(bytes.is_none()));
        }
        handed_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventId;
    use crate::headers::Headers;
    use crate::relay::cursor::{Cursor, Position};

    fn event(id: i64, key: &str) -> LoggedEvent {
        LoggedEvent {
            shard: 0,
            id,
            event_id: EventId::new(),
            topic: "t".into(),
            key: Some(key.into()),
            value: None,
            headers: Headers::default(),
            partition: None,
            age_ms: 0,
            unreadable: None,
        }
    }

    fn from(unnoted: &[i64]) -> ReadFrom {
        let position = Position { done: String::new(), target: None, last_id: 0 };
        ReadFrom { cursor: Cursor { shard: 0, epoch: 1, position }, unnoted: unnoted.to_vec() }
    }

    fn ids(gathering: Gathering<'_>) -> Vec<i64> {
        gathering.handed_out().events.iter().map(|event| event.id).collect()
    }

    #[test]
    fn nothing_known_and_nothing_found_asks_nothing() {
        assert_eq!(Gathering::new(&from(&[]), 10).asks_up_to(), None);
    }

    #[test]
    fn b1_what_was_committed_below_a_published_id_is_found() {
        let from = from(&[9, 4]);
        let mut shard = Gathering::new(&from, 10);
        assert_eq!((shard.behind(), shard.asks_up_to()), (9, Some(9)));
        // 4 was noted and deleted meanwhile; 7 is new.
        assert_eq!(shard.settle(&[7, 9]), [7]);
        shard.add(event(7, "a"), 0, 1);
        assert_eq!(shard.settle(&[7, 9]), [0_i64; 0]);
        assert_eq!(shard.asks_up_to(), None);
        assert_eq!(ids(shard), [7]);
    }

    #[test]
    fn predecessor_that_the_snapshot_missed_comes_first() {
        let from = from(&[]);
        let mut shard = Gathering::new(&from, 10);
        // The snapshot shows a later event of the key and, torn as it is, not the earlier one.
        shard.add(event(8, "a"), 0, 1);
        assert_eq!(shard.settle(&[5, 8]), [5]);
        shard.add(event(5, "a"), 0, 1);
        // Whatever the next question would bring: 5 precedes 8, which is settled.
        assert_eq!(ids(shard), [5, 8]);
    }

    #[test]
    fn what_only_the_last_question_brought_waits() {
        let from = from(&[]);
        let mut shard = Gathering::new(&from, 10);
        shard.add(event(8, "a"), 0, 1);
        assert_eq!(shard.settle(&[5, 6, 8]), [5, 6]);
        // The key of 6 may have had an earlier event that this snapshot missed; an event without a key has no order, but
        // may wait just as well.
        shard.add(event(6, "b"), 0, 1);
        shard.add(LoggedEvent { key: None, ..event(5, "") }, 0, 1);
        assert_eq!(ids(shard), [8]);
    }

    #[test]
    fn late_crowd_is_handed_out_from_its_lowest_id_and_before_what_it_precedes() {
        let from = from(&[100]);
        let mut shard = Gathering::new(&from, 3);
        (101..104).for_each(|id| shard.add(event(id, "a"), 0, 1));
        assert_eq!((shard.asks_up_to(), shard.asks_for()), (Some(103), 7));
        let late = shard.settle(&[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(late, [1, 2, 3]);
        for id in late {
            shard.add(event(id, "a"), 0, 1);
        }
        assert_eq!(shard.asks_up_to(), Some(100));
        assert_eq!(shard.settle(&[1, 2, 3, 4, 5, 6, 7]), [0_i64; 0]);
        assert_eq!(ids(shard), [1, 2, 3]);
    }

    #[test]
    fn late_ones_take_the_place_of_the_highest() {
        let from = from(&[]);
        let mut shard = Gathering::new(&from, 3);
        for id in [10, 20, 30] {
            shard.add(event(id, "a"), 0, 1);
        }
        assert_eq!(shard.settle(&[10, 15, 20, 25, 30]), [15]);
        shard.add(event(15, "a"), 0, 1);
        assert_eq!(shard.asks_up_to(), Some(20));
        assert_eq!(shard.settle(&[10, 15, 20]), [0_i64; 0]);
        assert_eq!(ids(shard), [10, 15, 20]);
    }
}
