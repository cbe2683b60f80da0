//! What must agree. Every order is compared with the provider, not only those whose outcome was unknown once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Books, OrderRow};
use crate::service::shop::Notice;

/// The most breaches of one kind that are told one by one.
const MAX_TOLD: usize = 20;

impl Books {
    /// Everything that does not agree; nothing if all is well.
    pub(crate) fn breaches(&self) -> Vec<String> {
        let kinds = [
            self.doubled_charges(),
            self.unsettled_keys(),
            self.orders_against_the_ledger(),
            self.ledger_against_the_orders(),
            self.stock(),
            self.notices(),
            self.publications(),
        ];
        kinds.into_iter().flat_map(shortened).collect()
    }

    /// One charge for each payment: by the merchant's reference, which no mistake with keys can change, and by key.
    fn doubled_charges(&self) -> Vec<String> {
        let (mut by_reference, mut by_key) = (BTreeMap::<&str, Vec<&str>>::new(), BTreeMap::<&str, usize>::new());
        for charge in &self.charges {
            by_reference.entry(&charge.reference).or_default().push(&charge.id);
            *by_key.entry(&charge.provider_key).or_default() += 1;
        }
        let doubled = by_reference.into_iter().filter(|(_, charges)| charges.len() > 1);
        let doubled = doubled.map(|(reference, charges)| {
            format!("double charge: order {reference} was charged {} times: {}", charges.len(), charges.join(", "))
        });
        let keys = by_key.into_iter().filter(|(_, charges)| *charges > 1);
        let keys =
            keys.map(|(key, charges)| format!("double charge: the provider key {key} was charged {charges} times"));
        doubled.chain(keys).collect()
    }

    /// Every key has an answer that stands, and every order a key.
    fn unsettled_keys(&self) -> Vec<String> {
        let open = self.keys.iter().filter(|(_, state)| *state != "completed");
        let open = open.map(|((_, key), state)| format!("the key {key} did not come to an end: it is {state}"));
        let known = |order: &&OrderRow| !self.keys.contains_key(&(order.scope.clone(), order.key.clone()));
        let without = self.orders.iter().filter(known);
        let without = without.map(|order| format!("order {} has no record of its key {}", order.order, order.key));
        open.chain(without).collect()
    }

    /// Paid if and only if there is exactly one charge, the one that the step recorded; cancelled if and only if there is none.
    fn orders_against_the_ledger(&self) -> Vec<String> {
        let mut breaches = Vec::new();
        for order in &self.orders {
            let charges: Vec<_> = self.charges.iter().filter(|charge| charge.reference == order.order).collect();
            let seen = self.seen.iter().find(|seen| seen.provider_key == order.provider_key);
            let name = &order.order;
            match (order.state.as_str(), &charges[..]) {
                ("paid", [charge]) => {
                    if charge.provider_key != order.provider_key {
                        breaches.push(format!("order {name} was charged under a key that is not its own"));
                    }
                    if Some(&charge.id) != order.charge_id.as_ref() || charge.amount_cents != order.amount_cents {
                        breaches.push(format!(
                            "order {name} recorded {} cents as {:?}, the provider has {} cents as {}",
                            order.amount_cents, order.charge_id, charge.amount_cents, charge.id
                        ));
                    }
                }
                ("cancelled", []) => match seen {
                    Some(seen) if seen.charge_id.is_none() => {}
                    _ => breaches.push(format!("order {name} is cancelled, and the provider has declined nothing")),
                },
                (state @ ("paid" | "cancelled"), charges) => {
                    breaches.push(format!("order {name} is {state}, and the provider has {} charges", charges.len()));
                }
                (state, _) => breaches.push(format!("order {name} did not come to an end: it is {state}")),
            }
        }
        breaches
    }

    /// Nothing at the provider that the service does not know of.
    fn ledger_against_the_orders(&self) -> Vec<String> {
        let known: BTreeMap<&str, &str> =
            self.orders.iter().map(|order| (order.provider_key.as_str(), order.order.as_str())).collect();
        let strange = self.seen.iter().filter(|seen| known.get(seen.provider_key.as_str()) != Some(&&*seen.reference));
        strange
            .map(|seen| format!("the provider saw a key for order {} that the service does not know", seen.reference))
            .collect()
    }

    /// Units in stock and in paid orders are the opening; what cancelled orders had is back, once.
    fn stock(&self) -> Vec<String> {
        let mut breaches = Vec::new();
        for stock in &self.stock {
            let units = |state: &str| -> i64 {
                let of = self.orders.iter().filter(|order| order.item == stock.item && order.state == state);
                of.map(|order| order.units).sum()
            };
            let (paid, cancelled) = (units("paid"), units("cancelled"));
            if stock.units + paid != stock.opening {
                breaches.push(format!(
                    "{}: {} units in stock and {paid} in paid orders are not the opening {}",
                    stock.item, stock.units, stock.opening
                ));
            }
            if stock.given_back != cancelled {
                breaches.push(format!(
                    "{}: {} units were given back, and cancelled orders had {cancelled}",
                    stock.item, stock.given_back
                ));
            }
        }
        breaches
    }

    /// One event for each order, and it says what became of it.
    fn notices(&self) -> Vec<String> {
        let mut by_order = BTreeMap::<&str, Vec<&Notice>>::new();
        for (_, notice) in &self.events {
            by_order.entry(notice.order()).or_default().push(notice);
        }
        let mut breaches = Vec::new();
        for order in &self.orders {
            let notices = by_order.remove(order.order.as_str()).unwrap_or_default();
            let fits = match &notices[..] {
                [Notice::Paid { amount_cents, charge, .. }] => {
                    order.state == "paid"
                        && *amount_cents == order.amount_cents
                        && Some(charge) == order.charge_id.as_ref()
                }
                [Notice::Cancelled { .. }] => order.state == "cancelled",
                _ => false,
            };
            if !fits {
                breaches.push(format!("order {} is {} and has the events {notices:?}", order.order, order.state));
            }
        }
        let strange = by_order.keys().map(|order| format!("an event speaks of order {order}, which is not there"));
        breaches.extend(strange);
        breaches
    }

    /// What was appended has arrived, and nothing else.
    fn publications(&self) -> Vec<String> {
        let Some(published) = &self.published else { return Vec::new() };
        let appended: BTreeMap<&str, &Notice> = self.events.iter().map(|(id, notice)| (id.as_str(), notice)).collect();
        let missing = self.unpublished().into_iter().map(|id| format!("the event {id} was not published"));
        let strange: BTreeSet<_> = published
            .iter()
            .filter(|(id, notice)| appended.get(id.as_str()) != Some(notice))
            .map(|(id, _)| id)
            .collect();
        let strange = strange.into_iter().map(|id| format!("the event {id} was published and is not in the outbox"));
        missing.chain(strange).collect()
    }
}

fn shortened(mut breaches: Vec<String>) -> Vec<String> {
    let more = breaches.len().saturating_sub(MAX_TOLD);
    if more > 0 {
        breaches.truncate(MAX_TOLD);
        breaches.push(format!("and {more} more of this kind"));
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::super::StockRow;
    use super::*;
    use crate::provider::ledger::{ChargeRow, SeenRow};

    /// Two orders that came to their end as they should.
    fn books() -> Books {
        let order = |order: &str, state: &str, charge_id: Option<&str>| OrderRow {
            order: order.to_owned(),
            scope: "shop/c/pay".to_owned(),
            key: format!("key-{order}"),
            provider_key: format!("pk-{order}"),
            item: "item-0".to_owned(),
            units: 2,
            amount_cents: 398,
            state: state.to_owned(),
            charge_id: charge_id.map(str::to_owned),
        };
        let seen = |order: &str, charge_id: Option<&str>| SeenRow {
            provider_key: format!("pk-{order}"),
            reference: order.to_owned(),
            calls: 1,
            charge_id: charge_id.map(str::to_owned),
        };
        let completed = |order: &str| (("shop/c/pay".to_owned(), format!("key-{order}")), "completed".to_owned());
        let paid = Notice::Paid { order: "a".to_owned(), amount_cents: 398, charge: "ch_1".to_owned() };
        let cancelled = Notice::Cancelled { order: "b".to_owned(), reason: "declined".to_owned() };
        let events = vec![("e1".to_owned(), paid), ("e2".to_owned(), cancelled)];
        Books {
            orders: vec![order("a", "paid", Some("ch_1")), order("b", "cancelled", None)],
            stock: vec![StockRow { item: "item-0".to_owned(), opening: 10, units: 8, given_back: 2 }],
            keys: BTreeMap::from([completed("a"), completed("b")]),
            published: Some(events.iter().cloned().collect()),
            events,
            seen: vec![seen("a", Some("ch_1")), seen("b", None)],
            charges: vec![charge(1, "pk-a", "a")],
            resolved: 0,
        }
    }

    fn charge(id: i64, key: &str, order: &str) -> ChargeRow {
        let (provider_key, reference) = (key.to_owned(), order.to_owned());
        ChargeRow { id: format!("ch_{id}"), provider_key, reference, amount_cents: 398 }
    }

    #[test]
    fn books_that_agree_have_no_breach() {
        assert_eq!(books().breaches(), Vec::<String>::new());
    }

    #[test]
    fn every_disagreement_is_a_breach() {
        type Change = fn(&mut Books);
        let changes: [(&str, Change); 13] = [
            ("double charge: order a", |books| books.charges.push(charge(2, "pk-other", "a"))),
            ("double charge: the provider key", |books| books.charges.push(charge(2, "pk-a", "a"))),
            ("order b is cancelled, and the provider has 1", |books| books.charges.push(charge(2, "pk-b", "b"))),
            ("order a is paid, and the provider has 0", |books| books.charges.clear()),
            ("the provider has 397 cents", |books| books.charges[0].amount_cents = 397),
            ("declined nothing", |books| books.seen.truncate(1)),
            ("that the service does not know", |books| books.seen[0].provider_key = "pk-fresh".to_owned()),
            ("did not come to an end: it is running", |books| {
                books.keys.values_mut().for_each(|state| *state = "running".to_owned());
            }),
            ("did not come to an end: it is reserved", |books| books.orders[0].state = "reserved".to_owned()),
            ("are not the opening", |books| books.stock[0].units = 9),
            ("4 units were given back", |books| books.stock[0].given_back = 4),
            ("has the events", |books| books.events.push(books.events[0].clone())),
            ("was not published", |books| books.published = Some(BTreeMap::new())),
        ];
        for (said, change) in changes {
            let mut books = books();
            change(&mut books);
            let breaches = books.breaches();
            assert!(breaches.iter().any(|breach| breach.contains(said)), "{said}: {breaches:?}");
        }
    }
}
