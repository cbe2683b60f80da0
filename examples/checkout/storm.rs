//! The retry storm: every order is sent several times at once.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use leastlock::core::{Backoff, classify};
use leastlock::occ::combiner::{BatchError, CombineError};
use leastlock::{idempotency, occ, outbox};

use crate::ended::Ended;
use crate::engine::Engine;
use crate::orders::OrderBook;
use crate::shop::{Answer, BoxError, Places, Receipt};

/// How long a request is tried again before its client gives up.
const PATIENCE: Duration = Duration::from_mins(1);

/// What the clients were told.
#[derive(Debug, Default)]
pub(crate) struct Storm {
    /// The receipt of each order, by its place in the file.
    pub(crate) receipts: Mutex<Vec<Option<Receipt>>>,
    pub(crate) answered: AtomicU64,
    pub(crate) retried: AtomicU64,
    breaches: Mutex<Vec<String>>,
}

impl Storm {
    /// Answers that contradict each other.
    pub(crate) fn breaches(&self) -> Vec<String> {
        self.breaches.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every copy of an order must be told the same.
    fn told(&self, orders: &OrderBook, order: usize, receipt: Receipt) {
        self.answered.fetch_add(1, Relaxed);
        let mut receipts = self.receipts.lock().unwrap_or_else(PoisonError::into_inner);
        match &receipts[order] {
            None => receipts[order] = Some(receipt),
            Some(earlier) if *earlier == receipt => {}
            Some(earlier) => {
                let invoice = &orders.orders[order].invoice;
                let breach = format!("invoice {invoice} was answered {earlier:?} and then {receipt:?}");
                self.breaches.lock().unwrap_or_else(PoisonError::into_inner).push(breach);
            }
        }
    }
}

/// Sends each order `duplicates` times through `clients` clients, and waits until all are answered.
pub(crate) async fn rage<S: Places>(
    shop: &Arc<S>,
    orders: &Arc<OrderBook>,
    storm: &Arc<Storm>,
    (clients, duplicates, seed): (u16, u16, u64),
) -> Result<(), Ended> {
    let requests: Arc<[usize]> = requests(orders.orders.len(), duplicates, usize::from(clients), seed).into();
    storm.receipts.lock().unwrap_or_else(PoisonError::into_inner).resize(orders.orders.len(), None);
    let next = Arc::new(AtomicUsize::new(0));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let (shop, orders, storm) = (Arc::clone(shop), Arc::clone(orders), Arc::clone(storm));
        let (requests, next) = (Arc::clone(&requests), Arc::clone(&next));
        running.spawn(async move {
            while let Some(&order) = requests.get(next.fetch_add(1, Relaxed)) {
                send(&*shop, &orders, &storm, order).await?;
            }
            Ok::<(), Ended>(())
        });
    }
    while let Some(client) = running.join_next().await {
        client.map_err(|error| Ended::Breach(vec![format!("a client panicked: {error}")]))??;
    }
    Ok(())
}

/// Sends one request until it has an answer. That a request may be sent again, whatever happened to it, is the point of
/// its key.
async fn send<S: Places>(shop: &S, orders: &OrderBook, storm: &Storm, order: usize) -> Result<(), Ended> {
    let (deadline, backoff) = (Instant::now() + PATIENCE, Backoff::default());
    for attempt in 0_u32.. {
        let pause = match shop.place(&orders.orders[order]).await {
            Ok(Answer::Told(receipt)) => {
                storm.told(orders, order, receipt);
                return Ok(());
            }
            Ok(Answer::AskAgain(retry_after)) if Instant::now() < deadline => retry_after,
            Ok(Answer::AskAgain(_)) => {
                let invoice = &orders.orders[order].invoice;
                return Err(Ended::Refused(format!("invoice {invoice} is still in flight after {PATIENCE:?}")));
            }
            Err(error) if can_retry::<S::DB>(&error) && Instant::now() < deadline => backoff.delay(attempt),
            Err(error) => {
                let doing = format!("invoice {} could not be placed", orders.orders[order].invoice);
                return Err(Ended::refused(&doing, &*error));
            }
        };
        storm.retried.fetch_add(1, Relaxed);
        tokio::time::sleep(pause).await;
    }
    Ok(())
}

fn can_retry<DB: Engine>(error: &BoxError) -> bool {
    if let Some(error) = error.downcast_ref::<idempotency::Error>() {
        return error.is_retryable();
    }
    if let Some(error) = error.downcast_ref::<occ::Error>() {
        return error.is_retryable();
    }
    if let Some(error) = error.downcast_ref::<outbox::Error>() {
        return error.is_retryable();
    }
    if let Some(error) = error.downcast_ref::<CombineError>() {
        return can_submit_again::<DB>(error);
    }
    let database = error.downcast_ref::<sqlx::Error>();
    database.is_some_and(|error| classify::<DB>(error).is_retryable())
}

/// What may have been applied may be submitted again as well, since its order id absorbs the repeat.
fn can_submit_again<DB: Engine>(error: &CombineError) -> bool {
    match error {
        CombineError::Unknown => true,
        CombineError::Failed { source, .. } => match &**source {
            BatchError::Database { source } => classify::<DB>(source).is_retryable(),
            BatchError::Checked { source } => source.is_retryable(),
            BatchError::Raced | BatchError::TimedOut => true,
            _ => false,
        },
        _ => false,
    }
}

/// The copies of an order stand close together, so that different clients send them at the same time; the seed shuffles
/// them among their neighbours.
fn requests(orders: usize, duplicates: u16, clients: usize, seed: u64) -> Vec<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut requests: Vec<(usize, usize)> = (0..orders)
        .flat_map(|order| std::iter::repeat_n(order, usize::from(duplicates)))
        .enumerate()
        .map(|(place, order)| (place + rng.usize(0..=clients), order))
        .collect();
    requests.sort_by_key(|&(place, _)| place);
    requests.into_iter().map(|(_, order)| order).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_sent_as_often_as_asked_in_an_order_that_the_seed_decides() {
        let sent = requests(50, 3, 16, 7);
        assert!((0..50).all(|order| sent.iter().filter(|&&other| other == order).count() == 3));
        assert_eq!(sent, requests(50, 3, 16, 7));
        assert_ne!(sent, requests(50, 3, 16, 8));
    }
}
