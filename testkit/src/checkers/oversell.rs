//! No unit of stock is lost, made up or sold twice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Breach;

/// A change of an item's stock, or a count of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Movement {
    /// Whose stock.
    pub item: String,
    /// What happened to it.
    pub kind: Kind,
    /// How many units.
    pub units: i64,
}

/// What a [`Movement`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The stock before everything; once for each item.
    Opening,
    /// Units that a client was promised.
    Out,
    /// Units that came back.
    Back,
    /// The stock after everything, as it stands in the database; once for each item.
    Remaining,
}

impl Movement {
    /// A movement of `units` of `item`.
    pub fn new(item: impl Into<String>, kind: Kind, units: i64) -> Self {
        Self { item: item.into(), kind, units }
    }
}

/// For each item: opening − out + back = remaining, and remaining ≥ 0. The order does not matter.
///
/// # Errors
/// The first item (in the order of names) whose sum does not come out, with its movements; a negative number of units; an
/// item that was not counted exactly once at each end.
pub fn balanced(history: &[Movement]) -> Result<(), Breach> {
    let mut of_item: BTreeMap<&str, Vec<(usize, &Movement)>> = BTreeMap::new();
    for (place, movement) in history.iter().enumerate() {
        of_item.entry(&movement.item).or_default().push((place, movement));
    }
    for (item, movements) in of_item {
        if let Some(negative) = movements.iter().find(|(_, movement)| movement.units < 0) {
            return Err(Breach::new(format!("item {item:?}: less than nothing"), [*negative]));
        }
        let of_kind =
            |kind| movements.iter().map(|(_, movement)| movement).filter(move |movement| movement.kind == kind);
        let sum = |kind| of_kind(kind).map(|movement| i128::from(movement.units)).sum::<i128>();
        if [Kind::Opening, Kind::Remaining].iter().any(|kind| of_kind(*kind).count() != 1) {
            return Err(Breach::new(format!("item {item:?}: it is to be counted once at each end"), movements));
        }
        let [opening, out, back, remaining] = [Kind::Opening, Kind::Out, Kind::Back, Kind::Remaining].map(sum);
        let due = opening - out + back;
        if due != remaining {
            let what = format!("item {item:?}: {opening} − {out} + {back} = {due}, and {remaining} remain");
            return Err(Breach::new(what, movements));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(movements: &[(&str, Kind, i64)]) -> Vec<Movement> {
        movements.iter().map(|(item, kind, units)| Movement::new(*item, *kind, *units)).collect()
    }

    #[track_caller]
    fn rejected(movements: &[(&str, Kind, i64)], because: &str) {
        let breach = balanced(&history(movements)).expect_err("it does not come out");
        assert!(breach.to_string().contains(because), "{breach}");
    }

    #[test]
    fn sums_that_come_out_pass() {
        let good = history(&[
            ("a", Kind::Opening, 10),
            ("b", Kind::Opening, 0),
            ("a", Kind::Out, 8),
            ("a", Kind::Back, 1),
            ("a", Kind::Out, 3),
            ("a", Kind::Remaining, 0),
            ("b", Kind::Remaining, 0),
        ]);
        assert_eq!(balanced(&good), Ok(()));
        assert_eq!(balanced(&[]), Ok(()));
    }

    #[test]
    fn unit_sold_twice_is_rejected() {
        let sold = [("a", Kind::Opening, 1), ("a", Kind::Out, 1), ("a", Kind::Out, 1), ("a", Kind::Remaining, 0)];
        rejected(&sold, "1 − 2 + 0 = -1, and 0 remain");
    }

    #[test]
    fn lost_and_made_up_units_are_rejected() {
        rejected(&[("a", Kind::Opening, 5), ("a", Kind::Out, 1), ("a", Kind::Remaining, 3)], "= 4, and 3 remain");
        rejected(&[("a", Kind::Opening, 5), ("a", Kind::Back, 1), ("a", Kind::Remaining, 7)], "= 6, and 7 remain");
    }

    #[test]
    fn stock_below_zero_is_rejected_even_if_the_sum_comes_out() {
        let below = [("a", Kind::Opening, 1), ("a", Kind::Out, 2), ("a", Kind::Remaining, -1)];
        rejected(&below, "less than nothing");
    }

    #[test]
    fn item_that_was_not_counted_once_at_each_end_is_rejected() {
        rejected(&[("a", Kind::Opening, 1), ("a", Kind::Out, 1)], "once at each end");
        rejected(&[("a", Kind::Remaining, 0)], "once at each end");
        let twice = [("a", Kind::Opening, 1), ("a", Kind::Opening, 1), ("a", Kind::Remaining, 2)];
        rejected(&twice, "once at each end");
    }
}
