//! Clients that pay, and pay again until they have an answer; and what a service does for payments whose client has given up.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_testkit::database::Postgres;
use tokio::sync::Semaphore;

use super::service::{Payment, Receipt, Service, Told};
use super::{ITEMS, OF_ITEM};
use crate::part::Part;
use crate::record::now;

/// What a client calls.
pub(super) const PAY: &str = "pay";

/// So long it is a payment's turn.
const TURN_MS: u64 = 120;
/// The most payments of a client that are under way.
const AT_ONCE: usize = 12;
/// How long a client waits for an answer before it takes the outcome for unknown and asks again.
const PATIENCE: Duration = Duration::from_secs(10);
const ASK_AGAIN_MS: std::ops::Range<u64> = 100..600;
/// How often a service looks for what was left behind.
const SWEEP: Duration = Duration::from_millis(700);

pub(super) async fn play(part: Part) -> anyhow::Result<()> {
    let service = Arc::new(Service::open(part.clone())?);
    tokio::spawn(sweep(Arc::clone(&service)));
    let (places, mut last) = (Arc::new(Semaphore::new(AT_ONCE)), 0);
    while !part.draining.is_cancelled() {
        let turn = u64::try_from(now().as_millis())? / TURN_MS;
        if turn == last {
            part.pause(Duration::from_millis(10)).await;
            continue;
        }
        last = turn;
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (service, payment) = (Arc::clone(&service), payment(i64::try_from(turn)?));
        tokio::spawn(async move {
            let _place = place;
            insist(&service, &payment).await;
        });
    }
    part.shutdown.cancelled().await;
    Ok(())
}

/// The payment of a turn; it follows from the number alone, so that every client asks for the same.
fn payment(turn: i64) -> Payment {
    let (item, units) = (turn / OF_ITEM % ITEMS, 1 + turn % 3);
    Payment { key: format!("payment-{turn}"), item, units, cents: 100 + turn % 97 }
}

/// Asks until there is an answer.
async fn insist(service: &Service, payment: &Payment) {
    let part = &service.part;
    while !part.shutdown.is_cancelled() {
        let pending = part.recorder.call(PAY, payment);
        match tokio::time::timeout(PATIENCE, service.pay(payment)).await {
            Ok(Ok(Some(told))) if matches!(told.receipt, Receipt::Paid { .. }) => return pending.done(&Some(told)),
            Ok(Ok(Some(told))) => return pending.refused(&Some(told)),
            Ok(Ok(None)) => pending.refused(&None::<Told>),
            Ok(Err(_)) | Err(_) => drop(pending),
        }
        part.pause(Duration::from_millis(fastrand::u64(ASK_AGAIN_MS))).await;
    }
}

/// Goes on with payments that nobody is at work on.
async fn sweep(service: Arc<Service>) {
    while !service.part.shutdown.is_cancelled() {
        for turn in left_behind(&service).await.unwrap_or_default() {
            let service = Arc::clone(&service);
            tokio::spawn(async move { insist(&service, &payment(turn)).await });
        }
        service.part.pause(SWEEP).await;
    }
}

async fn left_behind(service: &Service) -> Result<Vec<i64>, sqlx::Error> {
    let mut connection = service.pool.acquire().await?;
    let open = Statement::new(include_str!("../../sql/payments/open_keys.sql"));
    let open = open.fetch_all::<Postgres>(&mut connection).await?;
    let turn = |key: String| key.rsplit_once('-').and_then(|(_, turn)| turn.parse().ok());
    let turns = open.iter().map(|row| row.text(0).map(turn)).collect::<Result<Vec<_>, _>>()?;
    Ok(turns.into_iter().flatten().collect())
}
