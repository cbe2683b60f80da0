//! One day: the shop, the clients, relay and worker, and the reconciliation.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use leastlock::outbox::Outbox;
use tokio::runtime::Runtime;

use super::Form;
use super::office::BackOffice;
use crate::args::Args;
use crate::broker::Broker;
use crate::combined::CombinedShop;
use crate::ended::Ended;
use crate::engine::{Engine, Pools};
use crate::orders::OrderBook;
use crate::reconciliation::Books;
use crate::report::{Bars, Report};
use crate::shop::{Places, Shop};
use crate::storm::{self, Storm};

/// What a day is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Day<'a> {
    pub(super) args: &'a Args,
    pub(super) orders: &'a Arc<OrderBook>,
    pub(super) seed: u64,
    pub(super) form: Form,
}

/// What it came to.
pub(super) struct Finished {
    pub(super) books: Books,
    pub(super) breaches: Vec<String>,
    pub(super) report: Report,
}

/// The topic of a run; its consumers' group bears the same name.
pub(super) fn topic(run_id: &str) -> String {
    format!("checkout-{run_id}")
}

impl Day<'_> {
    /// From the first request to the reconciliation.
    pub(super) fn run<DB: Engine>(
        &self,
        pools: &Pools<DB>,
        broker: &Broker,
        run_id: &str,
        runtime: &Runtime,
    ) -> Result<Finished, Ended> {
        let topic = topic(run_id);
        broker.make_topic(&topic, runtime)?;
        let brokers = broker.bootstrap();
        runtime.block_on(async {
            let outbox =
                Outbox::open(&pools.back_office).await.map_err(|error| Ended::refused("the outbox", &error))?;
            let clients = pools.clients.clone();
            match self.form {
                Form::Plain => {
                    let shop = Shop::open(clients, outbox.clone(), &topic)?;
                    self.run_with(shop, pools, &outbox, (&brokers, &topic)).await
                }
                Form::Combined => {
                    let shop = CombinedShop::open(clients, outbox.clone(), &topic)?;
                    self.run_with(shop, pools, &outbox, (&brokers, &topic)).await
                }
            }
        })
    }

    async fn run_with<S: Places>(
        &self,
        shop: S,
        pools: &Pools<S::DB>,
        outbox: &Outbox,
        (brokers, topic): (&str, &str),
    ) -> Result<Finished, Ended> {
        let unread = |error: sqlx::Error| Ended::refused("the books", &error);
        let (Self { args, orders, seed, form }, shop) = (*self, Arc::new(shop));
        pools.warm().await.map_err(|error| Ended::refused("the clients' connections", &error))?;
        let remembered = shop.remembered().await.map_err(unread)?;
        let mut office = BackOffice::open(&pools.back_office, outbox, brokers, topic)?;
        let storm = Arc::new(Storm::default());
        let bars = Bars::new(form.name(), orders.orders.len() as u64 * u64::from(args.duplicates));

        let begun = Instant::now();
        let clients = storm::rage(&shop, orders, &storm, (args.clients, args.duplicates, seed));
        let placed = async { clients.await.map(|()| begun.elapsed()) };
        let clients_took = office.watch(&pools.back_office, &storm, &bars, placed).await;
        bars.clear();
        let clients_took = clients_took?;
        office.close().await?;
        let took = begun.elapsed();

        let first_answers = shop.remembered().await.map_err(unread)? - remembered;
        let books = Books::read(&pools.back_office).await.map_err(unread)?;
        let receipts = storm.receipts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut breaches = storm.breaches();
        breaches.extend(books.breaches(orders, &receipts));
        let report = Report {
            orders: Arc::clone(orders),
            placed: receipts.iter().flatten().filter(|receipt| receipt.is_placed()).count(),
            refused: receipts.iter().flatten().filter(|receipt| !receipt.is_placed()).count(),
            answered: storm.answered.load(Relaxed),
            first_answers,
            retried: storm.retried.load(Relaxed),
            units: books.units(),
            events: books.events(),
            relay: office.relay_stats,
            ledger: office.ledger,
            clients_took,
            took,
            seed,
        };
        drop(receipts);
        Ok(Finished { books, breaches, report })
    }
}
