//! A batch whose movements can all be met: what each row has to have for that, known before any row is read.

use std::collections::BTreeMap;

use super::movement::Movement;

/// What a batch changes in all, and between which bounds a row must lie so that every movement is met in its turn. Sorted by
/// key.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct AtOnce {
    pub(super) keys: Vec<String>,
    pub(super) deltas: Vec<i64>,
    pub(super) least: Vec<i64>,
    pub(super) most: Vec<i64>,
}

/// How a row moves while the batch is applied, relative to where it begins.
#[derive(Debug, Default)]
struct Course {
    now: i64,
    /// The lowest point to which something was *taken*: only that is held to the floor.
    lowest: Option<i64>,
    highest: i64,
}

impl AtOnce {
    /// `None` if a movement has an order id, whose repeat has to be looked up, or the sums leave 64 bits.
    pub(super) fn of<N>(movements: &[Movement<N>], floor: i64) -> Option<Self> {
        let mut courses = BTreeMap::<&str, Course>::new();
        for movement in movements {
            if movement.order_id().is_some() {
                return None;
            }
            for (key, delta) in movement.changes() {
                courses.entry(key).or_default().go(*delta)?;
            }
        }
        let mut at_once = Self::default();
        for (key, course) in courses {
            at_once.keys.push(key.to_owned());
            at_once.deltas.push(course.now);
            at_once.least.push(course.lowest.map_or(Some(i64::MIN), |lowest| floor.checked_sub(lowest))?);
            at_once.most.push(i64::MAX - course.highest);
        }
        Some(at_once)
    }
}

impl Course {
    fn go(&mut self, delta: i64) -> Option<()> {
        self.now = self.now.checked_add(delta)?;
        if delta < 0 {
            self.lowest = Some(self.lowest.map_or(self.now, |lowest| lowest.min(self.now)));
        }
        self.highest = self.highest.max(self.now);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::decision::{Found, decide};
    use super::*;

    /// Changes of rows `a` to `c` by −20 to 20 units.
    fn movements() -> impl Strategy<Value = Vec<Movement>> {
        let change = (0..3_usize, (1..20_i64), any::<bool>());
        prop::collection::vec(prop::collection::vec(change, 1..4), 1..12).prop_map(|batch| {
            let movement = |changes: Vec<(usize, i64, bool)>| {
                let mut changes = changes.into_iter().map(|(row, units, gives)| (["a", "b", "c"][row], units, gives));
                let (key, units, gives) = changes.next().expect("at least one");
                let first = if gives { Movement::give(key, units) } else { Movement::take(key, units) };
                changes.try_fold(first.expect("it is within bounds"), |movement, (key, units, gives)| {
                    if gives { movement.and_give(key, units) } else { movement.and_take(key, units) }
                })
            };
            batch.into_iter().map(|changes| movement(changes).expect("it is within bounds")).collect()
        })
    }

    /// Rows that may be near the floor or near the end of 64 bits.
    fn units() -> impl Strategy<Value = i64> {
        prop_oneof![-30..80_i64, (i64::MAX - 60)..=i64::MAX]
    }

    proptest! {
        #[test]
        fn the_bounds_hold_exactly_when_every_movement_is_met_one_after_the_other(
            movements in movements(),
            rows in prop::array::uniform3(units()),
            floor in -10..10_i64,
        ) {
            let rows = ["a", "b", "c"].map(str::to_owned).into_iter().zip(rows).collect();
            let found = Found { rows, ..Found::default() };
            let at_once = AtOnce::of(&movements, floor).expect("no order ids");
            let rows = at_once.keys.iter().map(|key| found.rows[key]);
            let bounds = at_once.least.iter().zip(&at_once.most);
            let is_within = rows.zip(bounds).all(|(units, (least, most))| (*least..=*most).contains(&units));

            let decision = decide(&movements, found.clone(), floor);
            prop_assert_eq!(is_within, decision.answers.iter().all(super::super::counted::Counted::is_applied));
            if is_within {
                let changes = at_once.keys.into_iter().zip(at_once.deltas).filter(|(_, delta)| *delta != 0);
                prop_assert_eq!(changes.collect::<BTreeMap<_, _>>(), decision.deltas);
            }
        }
    }

    #[test]
    fn an_order_id_or_a_sum_beyond_64_bits_goes_the_long_way() {
        let take = |units| Movement::take("a", units).expect("it is within bounds");
        assert!(AtOnce::of(&[take(1)], 0).is_some());
        assert_eq!(AtOnce::of(&[take(1), take(1).with_order_id("7").expect("a good id")], 0), None);
        let most = vec![take(1_000_000_000_000_000); 9_300];
        assert_eq!(AtOnce::of(&most, 0), None);
        assert_eq!(AtOnce::of(&most[..9_000], i64::MAX), None);
    }
}
