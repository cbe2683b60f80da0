//! A client in a storm of retries: every client asks for the order whose turn it is, several times at once, until it has an answer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::shop::{Engine, Receipt, Request, Shop};
use super::{ITEMS, OF_ITEM, WIDTH};
use crate::part::Part;
use crate::record::now;

/// What a client calls.
pub(super) const PLACE: &str = "place";

/// So long it is an order's turn.
const TURN_MS: u64 = 60;
/// How often a client asks for it at once.
const COPIES: usize = 2;
/// The most requests of a client that are under way.
const AT_ONCE: usize = 12;
/// How long a client waits for an answer before it takes the outcome for unknown and asks again.
const PATIENCE: Duration = Duration::from_secs(8);
const ASK_AGAIN_MS: std::ops::Range<u64> = 50..400;

pub(super) async fn play<DB: Engine>(part: Part) -> anyhow::Result<()> {
    let shop = Arc::new(Shop::<DB>::open(part.clone())?);
    let (places, mut last) = (Arc::new(Semaphore::new(AT_ONCE)), 0);
    while !part.draining.is_cancelled() {
        let turn = u64::try_from(now().as_millis())? / TURN_MS;
        if turn == last {
            part.pause(Duration::from_millis(5)).await;
            continue;
        }
        last = turn;
        for _ in 0..COPIES {
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let (shop, request) = (Arc::clone(&shop), request(i64::try_from(turn)?));
            tokio::spawn(async move {
                let _place = place;
                insist(&shop, &request).await;
            });
        }
    }
    part.shutdown.cancelled().await;
    Ok(())
}

/// The order of a turn. Items are sold out quickly, and after so many orders other ones are on sale: each item's history is short.
fn request(turn: i64) -> Request {
    let lot = turn / (OF_ITEM * WIDTH) % (ITEMS / WIDTH);
    Request { key: format!("order-{turn}"), item: lot * WIDTH + turn % WIDTH, units: 1 + turn / WIDTH % 3 }
}

/// Asks until there is an answer.
async fn insist<DB: Engine>(shop: &Shop<DB>, request: &Request) {
    while !shop.part.shutdown.is_cancelled() {
        let pending = shop.part.recorder.call(PLACE, request);
        match tokio::time::timeout(PATIENCE, shop.place(request)).await {
            Ok(Ok(Some(told))) if told.receipt == Receipt::SoldOut => return pending.refused(&Some(told)),
            Ok(Ok(Some(told))) => return pending.done(&Some(told)),
            // Somebody else's is at work.
            Ok(Ok(None)) => pending.refused(&None::<super::shop::Told>),
            // What failed may have committed all the same.
            Ok(Err(_)) | Err(_) => drop(pending),
        }
        shop.part.pause(Duration::from_millis(fastrand::u64(ASK_AGAIN_MS))).await;
    }
}
