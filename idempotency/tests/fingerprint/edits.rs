//! I7 and I8 over any value: how it is written never counts, and whatever else is changed does. A failure prints its seed.

use leastlock_idempotency::Fingerprint;
use proptest::prelude::*;

use crate::json::{Dice, Json, json};

fn fingerprint(body: &str) -> Fingerprint {
    Fingerprint::request("POST", "/orders", "").json(body.as_bytes())
}

/// The value with one edit somewhere in it; `None` if it has no place for this one.
fn edited(value: &Json, dice: &mut Dice) -> Option<Json> {
    let mut edited = value.clone();
    edit(&mut edited, dice)?;
    Some(edited)
}

fn edit(value: &mut Json, dice: &mut Dice) -> Option<()> {
    match value {
        Json::Array(items) if !items.is_empty() && dice.below(3) > 0 => {
            let at = dice.below(items.len());
            edit(&mut items[at], dice)
        }
        Json::Object(members) if !members.is_empty() && dice.below(3) > 0 => {
            let at = dice.below(members.len());
            edit(&mut members[at].1, dice)
        }
        Json::Array(items) => match dice.below(4) {
            0 => items.pop().map(drop),
            1 => {
                items.push(Json::Literal("null"));
                Some(())
            }
            // A reordering that changes something.
            2 => {
                let at = items.windows(2).position(|pair| pair[0] != pair[1])?;
                items.swap(at, at + 1);
                Some(())
            }
            _ => {
                *value = Json::Array(vec![value.clone()]);
                Some(())
            }
        },
        Json::Object(members) => match dice.below(3) {
            0 => members.pop().map(drop),
            1 => {
                members.push(("a name of its own".to_owned(), Json::Literal("null")));
                Some(())
            }
            _ => {
                members.first_mut()?.0.push_str(" renamed");
                Some(())
            }
        },
        Json::Literal(text) => {
            *text = if *text == "null" { "false" } else { "null" };
            Some(())
        }
        // The same number in other words is another one here, and so is the same text as a number.
        Json::Number(text) => {
            *value = if dice.below(2) == 0 {
                Json::Text(text.clone())
            } else {
                Json::Number(format!("1{}", text.trim_start_matches('-')))
            };
            Some(())
        }
        Json::Text(text) => {
            text.push('x');
            Some(())
        }
    }
}

proptest! {
    #[test]
    fn i7_how_a_value_is_written_never_counts(value in json(), one: u64, other: u64) {
        let (one, other) = (value.written(one), value.written(other));
        prop_assert_eq!(fingerprint(&one), fingerprint(&other), "{} and {}", one, other);
        // The double: bytes as they came.
        let bytes = |body: &str| Fingerprint::request("POST", "/orders", "").bytes(body.as_bytes());
        prop_assert_eq!(bytes(&one) == bytes(&other), one == other);
    }

    #[test]
    fn i7_any_edit_of_a_value_counts(value in json(), seed: u64, one: u64, other: u64) {
        if let Some(edited) = edited(&value, &mut Dice(seed)) {
            prop_assert_ne!(&edited, &value, "the edit changes something");
            let (one, other) = (value.written(one), edited.written(other));
            prop_assert_ne!(fingerprint(&one), fingerprint(&other), "{} and {}", one, other);
        }
    }

    #[test]
    fn i8_no_two_lists_of_parts_are_one(
        one in prop::collection::vec(prop::collection::vec(0_u8..3, 0..3), 0..4),
        other in prop::collection::vec(prop::collection::vec(0_u8..3, 0..3), 0..4),
    ) {
        prop_assert_eq!(Fingerprint::of_parts(&one) == Fingerprint::of_parts(&other), one == other);
    }

    #[test]
    fn i8_method_path_query_and_body_keep_their_borders(text in "[a-b/]{0,6}", cuts in prop::array::uniform3(0_usize..7), others in prop::array::uniform3(0_usize..7)) {
        let split = |mut cuts: [usize; 3]| {
            cuts = cuts.map(|cut| cut.min(text.len()));
            cuts.sort_unstable();
            let [a, b, c] = cuts;
            (&text[..a], &text[a..b], &text[b..c], &text[c..])
        };
        let of = |(method, path, query, body): (&str, &str, &str, &str)| {
            Fingerprint::request(method, path, query).bytes(body.as_bytes())
        };
        prop_assert_eq!(of(split(cuts)) == of(split(others)), split(cuts) == split(others));
    }
}
