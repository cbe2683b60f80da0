//! Whether an order took effect twice, a unit was sold twice, an answer changed, or an event was lost.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use leastlock_testkit::checkers::exactly_once::{Event, at_most_once_and_once_after_success};
use leastlock_testkit::checkers::linearizable::{self, MAX_CALLS, Model, linearizable};
use leastlock_testkit::checkers::oversell::{Kind, Movement, balanced};
use leastlock_testkit::checkers::{Breach, order, outbox, replays};

use super::OPENING;
use super::books::{Books, Placed};
use super::shop::{Receipt, Request, Told};
use crate::record::Call;
use crate::workload::{Stage, Verdict};

pub(super) type Asked = Call<Request, Option<Told>>;

/// Judges what the clients were told against what is there.
pub(super) fn of(books: &Books, calls: &[Asked], stage: Stage) -> anyhow::Result<Verdict> {
    let told: HashSet<&str> = calls.iter().filter(|call| told(call).is_some()).map(|call| &*call.call.key).collect();
    let mut verdict = Verdict { cycles: told.len() as u64, ..Verdict::default() };
    verdict.count("orders placed", books.orders.len());
    verdict.count("events published", books.events.len());
    verdict.expect(at_most_once_and_once_after_success(&effects(books, calls)));
    let answers = answers(calls)?;
    verdict.expect(replays::byte_identical(&answers));
    verdict.expect(balanced(&movements(books)));
    let events: Vec<_> = books.events.iter().map(|(event, _)| event.clone()).collect();
    verdict.expect(order::in_order(&events));
    verdict.expect(said_as_placed(books, calls));
    if stage == Stage::Settled {
        verdict.expect(replays::all_terminal(&answers, books.keys.iter().map(|(key, is_end)| (&**key, *is_end))));
        let consumed: Vec<String> = books.events.iter().map(|(_, order)| order.clone()).collect();
        verdict.expect(outbox::accounted(&commits(books, calls), &consumed));
        let histories = histories(books, calls);
        verdict.count("items searched for an order of their calls", histories.len());
        for (item, history) in histories {
            let searched = linearizable(&Stock, &OPENING, &history);
            verdict.expect(searched.map_err(|breach| format!("item {item}: {breach}")));
        }
    }
    Ok(verdict)
}

/// What is not finished yet.
pub(super) fn unfinished(books: &Books, calls: &[Asked]) -> Option<String> {
    let published: HashSet<&str> = books.events.iter().map(|(_, order)| &**order).collect();
    let unpublished = books.orders.iter().filter(|order| !published.contains(&*order.key)).count();
    if unpublished > 0 {
        return Some(format!("{unpublished} events are not published"));
    }
    if let Some((key, _)) = books.keys.iter().find(|(_, is_end)| !is_end) {
        return Some(format!("the key {key} has not come to an end"));
    }
    // What a process that is gone has asked for is nobody's to insist on.
    let mut living: HashMap<&str, u32> = HashMap::new();
    let incarnation = |by: &str| by.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0);
    let process = |call: &Asked| call.by.rsplit_once('-').map_or(0, |(process, _)| process.len());
    for call in calls {
        let living = living.entry(&call.by[..process(call)]).or_default();
        *living = incarnation(&call.by).max(*living);
    }
    let (mut open, mut closed) = (BTreeSet::new(), HashSet::new());
    for call in calls.iter().filter(|call| living[&call.by[..process(call)]] == incarnation(&call.by)) {
        if told(call).is_some() {
            closed.insert(&*call.call.key)
        } else {
            open.insert(&*call.call.key)
        };
    }
    let open: Vec<&str> = open.into_iter().filter(|key| !closed.contains(key)).collect();
    open.first().map(|first| format!("{} orders have no answer, such as {first}", open.len()))
}

fn told(call: &Asked) -> Option<&Told> {
    call.answer.as_ref().and_then(|answer| answer.value.as_ref())
}

fn effects(books: &Books, calls: &[Asked]) -> Vec<Event> {
    let placed = books.orders.iter().map(|placed| Event::effect(&placed.key, format!("{placed:?}")));
    let success = |call: &Asked| {
        let is_placed = told(call).is_some_and(|told| told.receipt != Receipt::SoldOut);
        is_placed.then(|| Event::success(&call.call.key, format!("{}: {:?}", call.by, call.answer)))
    };
    placed.chain(calls.iter().filter_map(success)).collect()
}

/// What clients and others were told of an order is what stands in the database. An order that is not there is not judged here.
fn said_as_placed(books: &Books, calls: &[Asked]) -> Result<(), Breach> {
    let placed: HashMap<&str, &Placed> = books.orders.iter().map(|placed| (&*placed.key, placed)).collect();
    for (place, (event, order)) in books.events.iter().enumerate() {
        let Some(placed) = placed.get(&**order) else { continue };
        if (&*event.key, event.sequence) != (&*placed.item.to_string(), placed.sequence.unsigned_abs()) {
            return Err(Breach::new(format!("an event is not as its order: {placed:?}"), [(place, event)]));
        }
    }
    for (place, call) in calls.iter().enumerate() {
        let (Some(told), Some(placed)) = (told(call), placed.get(&*call.call.key)) else { continue };
        if told.receipt != (Receipt::Placed { sequence: placed.sequence }) {
            return Err(Breach::new(format!("a receipt is not as its order: {placed:?}"), [(place, call)]));
        }
    }
    Ok(())
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

fn movements(books: &Books) -> Vec<Movement> {
    let ends = books.stock.iter().flat_map(|(item, units)| {
        [
            Movement::new(item.to_string(), Kind::Opening, OPENING),
            Movement::new(item.to_string(), Kind::Remaining, *units),
        ]
    });
    let outs = books.orders.iter().map(|placed| Movement::new(placed.item.to_string(), Kind::Out, placed.units));
    ends.chain(outs).collect()
}

/// The database says what became of each order that was asked for.
fn commits(books: &Books, calls: &[Asked]) -> Vec<outbox::Commit> {
    let placed: HashSet<&str> = books.orders.iter().map(|placed| &*placed.key).collect();
    let asked: BTreeSet<&str> = calls.iter().map(|call| &*call.call.key).chain(placed.iter().copied()).collect();
    let fate = |key| if placed.contains(key) { outbox::Fate::Acknowledged } else { outbox::Fate::Refused };
    asked.into_iter().map(|key| outbox::Commit { event: key.to_owned(), fate: fate(key) }).collect()
}

/// An item's stock: an order takes all of its units, or none.
struct Stock;

impl Model for Stock {
    type State = i64;
    type Operation = i64;
    type Answer = bool;

    fn apply(&self, units: &i64, wanted: &i64) -> (i64, bool) {
        if wanted <= units { (units - wanted, true) } else { (*units, false) }
    }
}

/// Each item's orders: from the first time that somebody asked for one to the first answer. What is in the database has happened, whoever was told.
fn histories(books: &Books, calls: &[Asked]) -> BTreeMap<i64, Vec<linearizable::Call<i64, bool>>> {
    let placed: HashSet<&str> = books.orders.iter().map(|placed| &*placed.key).collect();
    let mut of_key: BTreeMap<&str, (i64, linearizable::Call<i64, bool>)> = BTreeMap::new();
    let nanoseconds = |at: std::time::Duration| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    for call in calls {
        let Request { key, item, units } = &call.call;
        let asked = || linearizable::Call { called_ns: nanoseconds(call.at), answer: None, operation: *units };
        let (_, order) = of_key.entry(key).or_insert_with(|| (*item, asked()));
        order.called_ns = order.called_ns.min(nanoseconds(call.at));
        let (Some(answer), Some(told)) = (&call.answer, told(call)) else { continue };
        let at = order.answer.map_or(u64::MAX, |(at, _)| at).min(nanoseconds(answer.at));
        order.answer = Some((at, told.receipt != Receipt::SoldOut));
    }
    let mut of_item: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    for (key, (item, mut order)) in of_key {
        if order.answer.is_none() && placed.contains(key) {
            order.answer = Some((u64::MAX, true));
        }
        of_item.entry(item).or_default().push(order);
    }
    of_item.retain(|_, history| history.len() <= MAX_CALLS);
    of_item
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Answer;
    use leastlock_testkit::checkers::order::Delivery;
    use std::time::Duration;

    fn call(key: &str, (at, answered): (u64, Option<u64>), receipt: Receipt, is_replay: bool) -> Asked {
        Call {
            by: "client-0-0".to_owned(),
            at: Duration::from_millis(at),
            call: Request { key: key.to_owned(), item: 1, units: 20 },
            answer: answered.map(|at| Answer {
                at: Duration::from_millis(at),
                ok: true,
                value: Some(Told { receipt, is_replay }),
            }),
        }
    }

    /// Two orders of one item, of which the second found too few units.
    fn good() -> (Books, Vec<Asked>) {
        let placed = Placed { key: "a".to_owned(), item: 1, units: 20, sequence: 1 };
        let books = Books {
            orders: vec![placed],
            stock: vec![(1, OPENING - 20)],
            keys: vec![("a".to_owned(), true), ("b".to_owned(), true)],
            events: vec![(Delivery::new("1", 1, "e1"), "a".to_owned()), (Delivery::new("1", 1, "e1"), "a".to_owned())],
        };
        let calls = vec![
            call("a", (0, Some(9)), Receipt::Placed { sequence: 1 }, false),
            call("a", (1, None), Receipt::SoldOut, false),
            call("a", (5, Some(8)), Receipt::Placed { sequence: 1 }, true),
            call("b", (10, Some(11)), Receipt::SoldOut, false),
        ];
        (books, calls)
    }

    #[test]
    fn a_good_history_has_no_breach() {
        let (books, calls) = good();
        assert_eq!(of(&books, &calls, Stage::Settled).unwrap().breaches, Vec::<String>::new());
        assert_eq!(unfinished(&books, &calls), None);
    }

    #[test]
    fn every_mistake_is_a_breach() {
        type Change = fn(&mut Books, &mut Vec<Asked>);
        let changes: [(&str, Change); 9] = [
            ("2 effects", |books, _| books.orders.push(books.orders[0].clone())),
            ("no effect", |books, _| books.orders.clear()),
            ("was told two things", |_, calls| {
                calls.push(call("a", (20, Some(21)), Receipt::Placed { sequence: 2 }, true));
            }),
            ("an event is not as its order", |books, _| books.orders[0].sequence = 2),
            ("a receipt is not as its order", |books, calls| {
                books.events.clear();
                calls[0].answer = calls[3].answer.clone();
            }),
            ("remain", |books, _| books.stock[0].1 += 1),
            ("were not consumed", |books, _| books.events.clear()),
            ("were not committed", |books, _| books.events[0].1 = "b".to_owned()),
            ("no order of these 2 calls", |_, calls| calls[3].at = Duration::ZERO),
        ];
        for (said, change) in changes {
            let (mut books, mut calls) = good();
            change(&mut books, &mut calls);
            if said.starts_with("no order") {
                calls[3].answer = calls[3].answer.take().map(|answer| Answer { at: Duration::ZERO, ..answer });
                calls[0].at = Duration::from_millis(2);
                calls[1].at = Duration::from_millis(2);
            }
            let breaches = of(&books, &calls, Stage::Settled).unwrap().breaches;
            assert!(breaches.iter().any(|breach| breach.contains(said)), "{said}: {breaches:?}");
        }
    }

    #[test]
    fn what_is_open_is_unfinished_unless_its_process_is_gone() {
        let (books, mut calls) = good();
        calls.push(call("c", (12, None), Receipt::SoldOut, false));
        assert!(unfinished(&books, &calls).is_some_and(|open| open.contains("such as c")));
        let mut later = call("d", (13, Some(14)), Receipt::SoldOut, false);
        later.by = "client-0-1".to_owned();
        calls.push(later);
        assert_eq!(unfinished(&books, &calls), None);
    }
}
