//! The decision against an oracle that runs one movement at a time and keeps what a database would.

use proptest::prelude::*;

use super::*;

/// A database that sees one movement a transaction.
#[derive(Debug, Clone, Default)]
struct Oracle {
    rows: BTreeMap<String, i64>,
    /// The movement's rows, which the oracle compares, and its digest, which the database would store.
    orders: BTreeMap<String, (Rows, i64, Counted)>,
}

type Rows = Vec<(String, i64)>;

impl Oracle {
    fn run(&mut self, movement: &Movement, floor: i64) -> Counted {
        let mut wanted = movement.changes().to_vec();
        wanted.sort();
        if let Some((earlier, _, answer)) = movement.order_id().and_then(|id| self.orders.get(id)) {
            return if *earlier == wanted { answer.clone() } else { Counted::Mismatch };
        }
        let answer = self.try_to_move(movement, floor);
        if let Some(id) = movement.order_id() {
            self.orders.insert(id.to_owned(), (wanted, movement.digest(), answer.clone()));
        }
        answer
    }

    fn try_to_move(&mut self, movement: &Movement, floor: i64) -> Counted {
        let mut after = self.rows.clone();
        for (key, delta) in movement.changes() {
            match self.rows.get(key) {
                None => return Counted::NoSuchRow { key: key.clone() },
                Some(units) if *delta < 0 && units + delta < floor => {
                    return Counted::Refused { key: key.clone(), units: *units };
                }
                Some(units) => drop(after.insert(key.clone(), units + delta)),
            }
        }
        self.rows = after;
        Counted::Applied
    }
}

const KEYS: [&str; 4] = ["a", "b", "c", "missing"];

fn movements() -> impl Strategy<Value = Vec<Movement>> {
    let change = (0..KEYS.len(), -4_i64..=4);
    let order_id = prop::option::of(0_u8..5);
    let movement =
        (prop::collection::vec(change, 1..4), order_id).prop_filter_map("moves something", |(changes, id)| {
            let mut movement = Movement::take("a", 1).ok()?.and_give("a", 1).ok()?;
            for (key, delta) in changes {
                movement = match delta {
                    0 => movement,
                    1.. => movement.and_give(KEYS[key], delta).ok()?,
                    _ => movement.and_take(KEYS[key], -delta).ok()?,
                };
            }
            match id {
                Some(id) => movement.with_order_id(id.to_string()).ok(),
                None => Some(movement),
            }
        });
    prop::collection::vec(movement, 0..24)
}

/// Runs the movements in batches of that size, and writes down what each batch decides, as the statements do.
fn in_batches(
    movements: &[Movement],
    size: usize,
    opening: &BTreeMap<String, i64>,
    floor: i64,
) -> (Oracle, Vec<Counted>) {
    let mut database = Oracle { rows: opening.clone(), ..Oracle::default() };
    let mut answers = Vec::new();
    for batch in movements.chunks(size) {
        let rows = database.rows.iter().map(|(key, units)| (key.clone(), *units)).collect();
        let answered = database.orders.iter();
        let answered = answered.map(|(id, (_, digest, answer))| (id.clone(), (*digest, answer.clone())));
        let decision = decide(batch, Found { rows, answered: answered.collect() }, floor);
        for (key, delta) in &decision.deltas {
            *database.rows.get_mut(key).expect("only rows that are there are changed") += delta;
        }
        for (id, (place, digest)) in &decision.to_store {
            let mut changes = batch[*place].changes().to_vec();
            changes.sort();
            database.orders.insert(id.clone(), (changes, *digest, decision.answers[*place].clone()));
        }
        answers.extend(decision.answers);
    }
    (database, answers)
}

proptest! {
    #[test]
    fn batches_of_any_size_answer_and_leave_what_one_by_one_does(
        movements in movements(), size in 1_usize..9, opening in -2_i64..8, floor in -3_i64..3,
    ) {
        let opening: BTreeMap<_, _> = KEYS[..3].iter().map(|key| ((*key).to_owned(), opening)).collect();
        let mut one_by_one = Oracle { rows: opening.clone(), ..Oracle::default() };
        let expected: Vec<_> = movements.iter().map(|movement| one_by_one.run(movement, floor)).collect();
        let (database, answers) = in_batches(&movements, size, &opening, floor);
        prop_assert_eq!(answers, expected);
        prop_assert_eq!(database.rows, one_by_one.rows);
        prop_assert_eq!(database.orders, one_by_one.orders);
    }
}

#[test]
fn a_row_that_would_overflow_refuses_and_one_below_the_floor_takes_units_back() {
    let found = |units| Found { rows: [("a".to_owned(), units)].into(), ..Found::default() };
    let give = [Movement::give("a", 1).unwrap()];
    let refused = Counted::Refused { key: "a".to_owned(), units: i64::MAX };
    assert_eq!(decide(&give, found(i64::MAX), 0).answers, [refused]);
    assert_eq!(decide(&give, found(-5), 0).answers, [Counted::Applied]);
}
