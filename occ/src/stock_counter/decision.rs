//! What a batch of movements comes to, decided in memory while its rows are locked.

use std::collections::{BTreeMap, HashMap};

use super::counted::Counted;
use super::movement::Movement;

/// What the database said: the rows of the batch, and the order ids that were answered before.
#[derive(Debug, Default, Clone)]
pub(super) struct Found {
    /// Units by key.
    pub(super) rows: HashMap<String, i64>,
    /// Digest and answer by order id.
    pub(super) answered: HashMap<String, (i64, Counted)>,
}

/// What is to be answered and written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// One for each movement, in their order.
    pub(super) answers: Vec<Counted>,
    /// The places of the movements that were applied now, in their order.
    pub(super) applied: Vec<usize>,
    /// What each row changes by in all, in the order of the keys; never zero.
    pub(super) deltas: BTreeMap<String, i64>,
    /// The places of the movements whose answers are to be kept, in the order of their ids, with the digests.
    pub(super) to_store: BTreeMap<String, (usize, i64)>,
}

/// Decides the movements one after the other, each on what those before it left.
pub(super) fn decide<N>(movements: &[Movement<N>], mut found: Found, floor: i64) -> Decision {
    let mut decision = Decision { answers: Vec::with_capacity(movements.len()), ..Decision::default() };
    for (place, movement) in movements.iter().enumerate() {
        let Some(order_id) = movement.order_id() else {
            let answer = one(movement, &mut found.rows, floor);
            decision.take_in(place, movement, answer);
            continue;
        };
        let digest = movement.digest();
        if let Some((earlier, answer)) = found.answered.get(order_id) {
            let answer = if *earlier == digest { answer.clone() } else { Counted::Mismatch };
            decision.answers.push(answer);
            continue;
        }
        let answer = one(movement, &mut found.rows, floor);
        found.answered.insert(order_id.to_owned(), (digest, answer.clone()));
        decision.to_store.insert(order_id.to_owned(), (place, digest));
        decision.take_in(place, movement, answer);
    }
    decision.deltas.retain(|_, delta| *delta != 0);
    decision
}

impl Decision {
    /// Whether nothing is to be written.
    pub(super) fn is_read_only(&self) -> bool {
        self.applied.is_empty() && self.to_store.is_empty()
    }

    fn take_in<N>(&mut self, place: usize, movement: &Movement<N>, answer: Counted) {
        if answer.is_applied() {
            self.applied.push(place);
            for (key, delta) in movement.changes() {
                match self.deltas.get_mut(key) {
                    Some(sum) => *sum += delta,
                    None => drop(self.deltas.insert(key.clone(), *delta)),
                }
            }
        }
        self.answers.push(answer);
    }
}

/// Decides one movement; changes the rows only if all of it can be met.
fn one<N>(movement: &Movement<N>, rows: &mut HashMap<String, i64>, floor: i64) -> Counted {
    for (key, delta) in movement.changes() {
        let Some(&units) = rows.get(key) else { return Counted::NoSuchRow { key: key.clone() } };
        // What gives is never refused for the floor: it may be what brings a row back above it.
        let is_met = units.checked_add(*delta).is_some_and(|left| *delta >= 0 || left >= floor);
        if !is_met {
            return Counted::Refused { key: key.clone(), units };
        }
    }
    for (key, delta) in movement.changes() {
        if let Some(units) = rows.get_mut(key) {
            *units += delta;
        }
    }
    Counted::Applied
}

#[cfg(test)]
mod tests;
