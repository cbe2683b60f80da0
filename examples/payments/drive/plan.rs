//! Who buys what with which card.

use crate::drive::ITEMS;
use crate::provider::manner::{CARDS, Manner};
use crate::service::shop::{Order, item_name};

const CUSTOMERS: u32 = 20;

/// A payment as its client sends it, every time.
#[derive(Debug, Clone)]
pub(crate) struct Payment {
    pub(crate) key: String,
    pub(crate) customer: String,
    pub(crate) order: Order,
}

/// Payments that the seed decides. The first ones bring each card once, so that even a short drive meets every fault.
pub(crate) fn plan(payments: u32, seed: u64) -> Vec<Payment> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let payment = |number: u32| Payment {
        key: format!("{number}-{:016x}", rng.u64(..)),
        customer: format!("customer-{}", rng.u32(0..CUSTOMERS)),
        order: Order {
            id: format!("order-{number}"),
            item: item_name(rng.u32(0..ITEMS)),
            units: rng.i64(1..=3),
            card: card(number, &mut rng),
        },
    };
    (0..payments).map(payment).collect()
}

/// Half of the cards are good, and one fault in four comes twice.
fn card(number: u32, rng: &mut fastrand::Rng) -> String {
    let dealt = usize::try_from(number).ok().and_then(|number| CARDS.get(number));
    let (name, manner) = match dealt {
        Some(card) => *card,
        None if rng.bool() => CARDS[0],
        None => CARDS[rng.usize(1..CARDS.len())],
    };
    let is_fault = !matches!(manner, Manner::Answers | Manner::Declines);
    if is_fault && rng.u8(0..4) == 0 { format!("{name}:2") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_and_every_card_is_dealt() {
        let cards = |seed| plan(50, seed).into_iter().map(|payment| payment.order.card).collect::<Vec<_>>();
        assert_eq!(cards(7), cards(7));
        assert_ne!(cards(7), cards(8));
        for (card, _) in CARDS {
            assert!(cards(7).iter().any(|dealt| dealt.split(':').next() == Some(card)), "{card}");
        }
    }
}
