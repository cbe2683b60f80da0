//! The clients: they send each payment several times at once, hang up, and ask again until they have an answer.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use reqwest::{Client, Response, StatusCode};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::books::Books;
use crate::drive::plan::Payment;
use crate::ended::Ended;
use crate::service::{CUSTOMER, PROBLEMS};

/// How long a client asks again before it gives up.
const PATIENCE: Duration = Duration::from_mins(3);
/// How long one request may take: a service that is stopped answers nobody.
const REQUEST: Duration = Duration::from_secs(4);
/// The pauses between asks, whatever the service advises: a drive is in a hurry.
const PAUSES_MS: std::ops::Range<u64> = 20..200;
/// How soon one client in four hangs up the first time.
const IMPATIENT_MS: std::ops::Range<u64> = 1..60;

/// A final answer: status and body, which every repeat must get byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Final {
    status: u16,
    body: String,
}

/// All clients, and what they were told.
#[derive(Debug)]
pub(crate) struct Clients {
    client: Client,
    payments: Arc<[Payment]>,
    address: watch::Receiver<String>,
    told: Mutex<Vec<Option<Final>>>,
    contradictions: Mutex<Vec<String>>,
    answered: watch::Sender<u64>,
    pub(crate) replayed: AtomicU64,
    pub(crate) asked_again: AtomicU64,
    pub(crate) hung_up: AtomicU64,
    pub(crate) bar: ProgressBar,
}

impl Clients {
    pub(crate) fn new(
        payments: Arc<[Payment]>,
        address: watch::Receiver<String>,
        bar: ProgressBar,
    ) -> Result<Self, Ended> {
        let client = Client::builder().no_proxy().build();
        let told = Mutex::new(vec![None; payments.len()]);
        Ok(Self {
            client: client.map_err(|error| Ended::refused("the clients", &error))?,
            payments,
            address,
            told,
            contradictions: Mutex::default(),
            answered: watch::Sender::new(0),
            replayed: AtomicU64::new(0),
            asked_again: AtomicU64::new(0),
            hung_up: AtomicU64::new(0),
            bar,
        })
    }

    /// The number of copies that have their answer.
    pub(crate) fn answered(&self) -> watch::Receiver<u64> {
        self.answered.subscribe()
    }

    /// Sends every payment `duplicates` times through `clients` clients, until all are answered.
    pub(crate) async fn rage(self: &Arc<Self>, clients: u16, duplicates: u16, seed: u64) -> Result<(), Ended> {
        let copies: Arc<[usize]> = copies(self.payments.len(), duplicates, usize::from(clients), seed).into();
        let next = Arc::new(AtomicUsize::new(0));
        let mut running = JoinSet::new();
        for number in 0..u64::from(clients) {
            let (this, copies, next) = (Arc::clone(self), Arc::clone(&copies), Arc::clone(&next));
            let mut rng = fastrand::Rng::with_seed(seed.wrapping_add(number));
            running.spawn(async move {
                while let Some(&payment) = copies.get(next.fetch_add(1, Relaxed)) {
                    this.send(payment, &mut rng).await?;
                }
                Ok::<(), Ended>(())
            });
        }
        while let Some(client) = running.join_next().await {
            client.map_err(|error| Ended::Breach(vec![format!("a client panicked: {error}")]))??;
        }
        Ok(())
    }

    /// Sends one copy until it has a final answer. That it may be sent again, whatever happened to it, is the point of its key.
    async fn send(&self, number: usize, rng: &mut fastrand::Rng) -> Result<(), Ended> {
        let payment = &self.payments[number];
        let deadline = Instant::now() + PATIENCE;
        let mut limit = if rng.u8(0..4) == 0 { Duration::from_millis(rng.u64(IMPATIENT_MS)) } else { REQUEST };
        loop {
            match self.ask(payment, limit).await {
                Asked::Final(answer, is_replay) => {
                    self.replayed.fetch_add(u64::from(is_replay), Relaxed);
                    self.take(number, answer);
                    return Ok(());
                }
                Asked::Wrong(what) => {
                    let order = &payment.order.id;
                    return Err(Ended::Breach(vec![format!("order {order} was answered with {what}")]));
                }
                Asked::HungUp => {
                    self.hung_up.fetch_add(1, Relaxed);
                }
                Asked::Again(why) if Instant::now() > deadline => {
                    let (order, key) = (&payment.order.id, &payment.key);
                    let breach = format!("order {order} has no answer after {PATIENCE:?} (key {key}); the last: {why}");
                    return Err(Ended::Breach(vec![breach]));
                }
                Asked::Again(_) => {}
            }
            limit = REQUEST;
            self.asked_again.fetch_add(1, Relaxed);
            tokio::time::sleep(Duration::from_millis(rng.u64(PAUSES_MS))).await;
        }
    }

    async fn ask(&self, payment: &Payment, limit: Duration) -> Asked {
        let address = self.address.borrow().clone();
        let request = self
            .client
            .post(format!("{address}/payments"))
            .header("idempotency-key", format!("\"{}\"", payment.key))
            .header(CUSTOMER, &payment.customer)
            .timeout(limit)
            .json(&payment.order);
        match request.send().await {
            Ok(response) => judge(response).await,
            Err(error) if error.is_timeout() && limit < REQUEST => Asked::HungUp,
            Err(error) => Asked::Again(format!("{address}: {error:?}")),
        }
    }

    fn take(&self, number: usize, answer: Final) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match &told[number] {
            None => told[number] = Some(answer),
            Some(earlier) if *earlier == answer => {}
            Some(earlier) => {
                let order = &self.payments[number].order.id;
                let breach = format!("order {order} was answered {earlier:?} and then {answer:?}");
                self.contradictions.lock().unwrap_or_else(PoisonError::into_inner).push(breach);
            }
        }
        drop(told);
        self.answered.send_modify(|answered| *answered += 1);
        self.bar.inc(1);
    }

    /// Payments that were refused before the card: sold out.
    pub(crate) fn sold_out(&self) -> usize {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().flatten().filter(|told| told.status == StatusCode::CONFLICT.as_u16()).count()
    }

    /// Answers that contradict each other, or the books.
    pub(crate) fn breaches(&self, books: &Books) -> Vec<String> {
        let mut breaches = self.contradictions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for (payment, told) in self.payments.iter().zip(told.iter()) {
            let name = &payment.order.id;
            let Some(told) = told else {
                breaches.push(format!("order {name} was never answered"));
                continue;
            };
            let order = books.orders.iter().find(|order| order.order == *name);
            let body: Value = serde_json::from_str(&told.body).unwrap_or_default();
            let fits = match (told.status, order) {
                (201, Some(order)) => order.state == "paid" && body["charge"].as_str() == order.charge_id.as_deref(),
                (402, Some(order)) => order.state == "cancelled",
                (409, None) => true,
                _ => false,
            };
            if !fits {
                let state = order.map_or("not there", |order| &order.state);
                breaches.push(format!("the client of order {name} was told {told:?}, and the order is {state}"));
            }
        }
        if books.keys.len() != self.payments.len() {
            breaches.push(format!("{} payments have left {} keys", self.payments.len(), books.keys.len()));
        }
        breaches
    }
}

/// What one request came to.
enum Asked {
    /// With whether it was marked as a replay.
    Final(Final, bool),
    /// The client has hung up.
    HungUp,
    /// Nothing that is final, for this reason: the same request is to be sent again.
    Again(String),
    /// What no request of a drive should get.
    Wrong(String),
}

async fn judge(response: Response) -> Asked {
    let status = response.status();
    let is_replay = response.headers().contains_key("idempotency-replayed");
    // An answer that broke off is none.
    let body = match response.text().await {
        Ok(body) => body,
        Err(error) => return Asked::Again(format!("{status}: {error:?}")),
    };
    let is_sold_out = || {
        let problem: Value = serde_json::from_str(&body).unwrap_or_default();
        problem["type"].as_str() == Some(&format!("{PROBLEMS}sold-out"))
    };
    match status {
        StatusCode::CREATED | StatusCode::PAYMENT_REQUIRED => {}
        StatusCode::CONFLICT if is_sold_out() => {}
        // In flight, unknown, overloaded, or the service is on its way down.
        StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE => return Asked::Again(format!("{status}: {body}")),
        _ => return Asked::Wrong(format!("{status}: {body}")),
    }
    Asked::Final(Final { status: status.as_u16(), body }, is_replay)
}

/// The copies of a payment stand close together, so that different clients send them at the same time; the seed shuffles
/// them among their neighbours.
fn copies(payments: usize, duplicates: u16, clients: usize, seed: u64) -> Vec<usize> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut copies: Vec<(usize, usize)> = (0..payments)
        .flat_map(|payment| std::iter::repeat_n(payment, usize::from(duplicates)))
        .enumerate()
        .map(|(place, payment)| (place + rng.usize(0..=clients), payment))
        .collect();
    copies.sort_by_key(|&(place, _)| place);
    copies.into_iter().map(|(_, payment)| payment).collect()
}
