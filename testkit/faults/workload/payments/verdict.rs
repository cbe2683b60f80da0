//! Whether a card was charged twice, or for an order that was not settled; whether a unit was lost; whether an answer changed.

use std::collections::HashMap;

use leastlock_core::Statement;
use leastlock_testkit::checkers::exactly_once::{Event, at_most_once_and_once_after_success};
use leastlock_testkit::checkers::oversell::{Kind, Movement, balanced};
use leastlock_testkit::checkers::{Breach, replays};
use leastlock_testkit::database::Postgres;

use super::OPENING;
use super::service::{Payment, Receipt, Told};
use crate::ground::Ground;
use crate::record::Call;
use crate::workload::{Stage, Verdict};

pub(super) type Asked = Call<Payment, Option<Told>>;

/// An order as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) key: String,
    pub(super) item: i64,
    pub(super) units: i64,
    pub(super) state: String,
}

/// A charge at the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) provider_key: String,
    pub(super) reference: String,
    pub(super) cents: i64,
}

/// What is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    pub(super) orders: Vec<Order>,
    pub(super) stock: Vec<(i64, i64)>,
    pub(super) charges: Vec<Charge>,
    /// Each key, and whether it stands at an end.
    pub(super) keys: Vec<(String, bool)>,
}

impl Books {
    pub(super) async fn read(ground: &Ground) -> anyhow::Result<Self> {
        let pool = &ground.database::<Postgres>()?.pool;
        let mut tx = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
        let mut rows = Vec::new();
        for all in [
            include_str!("../../sql/payments/all_orders.sql"),
            include_str!("../../sql/payments/all_stock.sql"),
            include_str!("../../sql/payments/all_charges.sql"),
            include_str!("../../sql/payments/all_keys.sql"),
        ] {
            rows.push(Statement::new(all).fetch_all::<Postgres>(&mut tx).await?);
        }
        tx.rollback().await?;
        let mut books = Self::default();
        for row in &rows[0] {
            books.orders.push(Order { key: row.text(0)?, item: row.int(1)?, units: row.int(2)?, state: row.text(3)? });
        }
        for row in &rows[1] {
            books.stock.push((row.int(0)?, row.int(1)?));
        }
        for row in &rows[2] {
            books.charges.push(Charge { provider_key: row.text(0)?, reference: row.text(1)?, cents: row.int(2)? });
        }
        for row in &rows[3] {
            books.keys.push((row.text(0)?, row.text(1)? == "completed"));
        }
        Ok(books)
    }

    /// What has not come to an end.
    pub(super) fn open(&self) -> Option<String> {
        let open = self.keys.iter().filter(|(_, is_end)| !is_end).count();
        (open > 0).then(|| format!("{open} payments have not come to an end"))
    }
}

pub(super) fn of(books: &Books, calls: &[Asked], stage: Stage) -> anyhow::Result<Verdict> {
    let mut verdict = Verdict { cycles: books.keys.len() as u64, ..Verdict::default() };
    verdict.count("payments", books.keys.len());
    verdict.count("charges", books.charges.len());
    let paid = successes(calls, |receipt| matches!(receipt, Receipt::Paid { .. }));
    let charges = books.charges.iter().map(|charge| Event::effect(&charge.reference, format!("{charge:?}")));
    verdict.expect(at_most_once_and_once_after_success(&charges.chain(paid).collect::<Vec<_>>()));
    let ordered = successes(calls, |receipt| *receipt != Receipt::SoldOut);
    let orders = books.orders.iter().map(|order| Event::effect(&order.key, format!("{order:?}")));
    verdict.expect(at_most_once_and_once_after_success(&orders.chain(ordered).collect::<Vec<_>>()));
    let answers = answers(calls)?;
    verdict.expect(replays::byte_identical(&answers));
    verdict.expect(balanced(&movements(books)));
    if stage == Stage::Settled {
        verdict.expect(replays::all_terminal(&answers, books.keys.iter().map(|(key, is_end)| (&**key, *is_end))));
        verdict.expect(settled(books));
    }
    Ok(verdict)
}

/// Paid if and only if charged; otherwise cancelled.
fn settled(books: &Books) -> Result<(), Breach> {
    let mut of_order: HashMap<&str, usize> = HashMap::new();
    for charge in &books.charges {
        *of_order.entry(&charge.reference).or_default() += 1;
    }
    for (place, order) in books.orders.iter().enumerate() {
        let charges = of_order.remove(&*order.key).unwrap_or(0);
        let is_settled = matches!((&*order.state, charges), ("paid", 1) | ("cancelled", 0));
        if !is_settled {
            return Err(Breach::new(format!("an order with {charges} charges is {}", order.state), [(place, order)]));
        }
    }
    match of_order.into_iter().next() {
        Some(charge) => Err(Breach::new("a charge without an order", [(0, charge)])),
        None => Ok(()),
    }
}

fn told(call: &Asked) -> Option<&Told> {
    call.answer.as_ref().and_then(|answer| answer.value.as_ref())
}

fn successes(calls: &[Asked], is_success: impl Fn(&Receipt) -> bool) -> Vec<Event> {
    let success = |call: &Asked| {
        let event = || Event::success(&call.call.key, format!("{}: {:?}", call.by, call.answer));
        told(call).is_some_and(|told| is_success(&told.receipt)).then(event)
    };
    calls.iter().filter_map(success).collect()
}

fn answers(calls: &[Asked]) -> anyhow::Result<Vec<replays::Told>> {
    let mut answers = Vec::new();
    for call in calls {
        let (Some(answer), Some(told)) = (&call.answer, told(call)) else { continue };
        answers.push(replays::Told {
            key: call.call.key.clone(),
            answer: serde_json::to_vec(&told.receipt)?,
            is_replay: told.is_replay,
            called_ms: i64::try_from(call.at.as_millis())?,
            answered_ms: i64::try_from(answer.at.as_millis())?,
        });
    }
    Ok(answers)
}

/// Units leave the stock with the order, and come back when it is cancelled.
fn movements(books: &Books) -> Vec<Movement> {
    let ends = books.stock.iter().flat_map(|(item, units)| {
        let item = item.to_string();
        [Movement::new(&item, Kind::Opening, OPENING), Movement::new(&item, Kind::Remaining, *units)]
    });
    let moves = books.orders.iter().flat_map(|order| {
        let moved = |kind| Movement::new(order.item.to_string(), kind, order.units);
        let back = (order.state == "cancelled").then(|| moved(Kind::Back));
        [moved(Kind::Out)].into_iter().chain(back)
    });
    ends.chain(moves).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Answer;
    use std::time::Duration;

    fn call(key: &str, receipt: Receipt) -> Asked {
        let payment = Payment { key: key.to_owned(), item: 1, units: 2, cents: 7 };
        let value = Some(Told { receipt, is_replay: false });
        let answer = Some(Answer { at: Duration::from_millis(1), ok: true, value });
        Call { by: "client-0-0".to_owned(), at: Duration::ZERO, call: payment, answer }
    }

    fn good() -> (Books, Vec<Asked>) {
        let order = |key: &str, state: &str| Order { key: key.to_owned(), item: 1, units: 2, state: state.to_owned() };
        let charge = Charge { provider_key: "k".to_owned(), reference: "a".to_owned(), cents: 7 };
        let books = Books {
            orders: vec![order("a", "paid"), order("b", "cancelled")],
            stock: vec![(1, OPENING - 2)],
            charges: vec![charge],
            keys: vec![("a".to_owned(), true), ("b".to_owned(), true)],
        };
        (books, vec![call("a", Receipt::Paid { charge: 1 }), call("b", Receipt::Declined)])
    }

    type Change = fn(&mut Books);

    #[test]
    fn a_good_history_has_no_breach_and_every_mistake_is_one() {
        let (books, calls) = good();
        assert_eq!(of(&books, &calls, Stage::Settled).unwrap().breaches, Vec::<String>::new());
        let changes: [(&str, Change); 6] = [
            ("2 effects", |books| books.charges.push(books.charges[0].clone())),
            ("2 effects", |books| books.orders.push(books.orders[0].clone())),
            ("no effect", |books| books.charges.clear()),
            ("1 charges is reserved", |books| books.orders[0].state = "reserved".to_owned()),
            ("did not come to an end", |books| books.keys[0].1 = false),
            ("remain", |books| books.stock[0].1 -= 1),
        ];
        for (said, change) in changes {
            let (mut books, calls) = good();
            change(&mut books);
            let breaches = of(&books, &calls, Stage::Settled).unwrap().breaches;
            assert!(breaches.iter().any(|breach| breach.contains(said)), "{said}: {breaches:?}");
        }
    }
}
