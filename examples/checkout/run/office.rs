//! Relay and worker: what happens behind the shop.

use std::time::{Duration, Instant};

use leastlock::core::Statement;
use leastlock::outbox::{self, KafkaSink, Outbox, Relay, Stats};
use leastlock::partition_worker::{self, Effect, Worker};
use rdkafka::ClientConfig;
use sqlx::Pool;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ended::Ended;
use crate::engine::Engine;
use crate::ledger::{Ledger, OutOfOrder};
use crate::report::Bars;
use crate::storm::Storm;

/// How long the ledger may stand still before the run counts as stuck. A killed predecessor keeps its partitions for the
/// session time-out and its shards for the lease.
const STANDSTILL: Duration = Duration::from_mins(2);
/// How often the books are looked at while they fill.
const LOOK: Duration = Duration::from_millis(200);
/// Short, so that a run that was killed goes on soon after it is started again.
const RELAY_LEASE: Duration = Duration::from_secs(3);
const SESSION_TIMEOUT_MS: &str = "6000";
const HEARTBEAT_MS: &str = "1000";

const APPENDED: &str = "SELECT CAST(COALESCE(SUM(moves), 0) AS BIGINT) FROM shop_stock";
const IN_LEDGER: &str = "SELECT CAST(COALESCE(SUM(last_sequence), 0) AS BIGINT) FROM ledger";

/// The relay and the worker, at work.
pub(super) struct BackOffice {
    relay: Option<JoinHandle<Result<outbox::Summary, outbox::Error>>>,
    worker: Option<JoinHandle<Result<partition_worker::Summary, partition_worker::Error>>>,
    pub(super) relay_stats: Stats,
    pub(super) ledger: Ledger,
    shutdown: CancellationToken,
}

impl BackOffice {
    pub(super) fn open<DB: Engine>(
        pool: &Pool<DB>,
        outbox: &Outbox,
        brokers: &str,
        topic: &str,
    ) -> Result<Self, Ended> {
        let shutdown = CancellationToken::new();
        let mut producer = ClientConfig::new();
        producer.set("bootstrap.servers", brokers);
        let sink = KafkaSink::new(producer).map_err(|error| Ended::refused("the relay's sink", &error))?;
        let relay = Relay::builder(pool, sink).lease(RELAY_LEASE).woken_by(outbox.wake()).build();
        let relay = relay.map_err(|error| Ended::refused("the relay", &error))?;
        let mut consumer = ClientConfig::new();
        consumer
            .set("bootstrap.servers", brokers)
            .set("group.id", topic)
            .set("session.timeout.ms", SESSION_TIMEOUT_MS)
            .set("heartbeat.interval.ms", HEARTBEAT_MS);
        let worker = Worker::builder(consumer).topic(topic).effect(Effect::in_database(pool)).concurrency(DB::HANDLERS);
        let worker = worker.build().map_err(|error| Ended::refused("the worker", &error))?;
        let (relay_stats, ledger) = (relay.stats(), Ledger::default());
        Ok(Self {
            relay: Some(tokio::spawn(relay.run(shutdown.clone()))),
            worker: Some(tokio::spawn(worker.run(ledger.clone(), shutdown.clone()))),
            relay_stats,
            ledger,
            shutdown,
        })
    }

    /// Waits until the clients are answered and every event that they caused is in the ledger.
    pub(super) async fn watch<DB: Engine>(
        &mut self,
        pool: &Pool<DB>,
        storm: &Storm,
        bars: &Bars,
        clients: impl Future<Output = Result<Duration, Ended>>,
    ) -> Result<Duration, Ended> {
        tokio::pin!(clients);
        let (mut clients_took, mut books, mut moved_at) = (None, [0, 0], Instant::now());
        loop {
            tokio::select! {
                took = &mut clients, if clients_took.is_none() => clients_took = Some(took?),
                ended = self.ended() => return Err(ended),
                () = tokio::time::sleep(LOOK) => {}
            }
            let seen = sums(pool).await.map_err(|error| Ended::refused("the books cannot be read", &error))?;
            bars.show(storm, &self.relay_stats, seen);
            if seen != books || clients_took.is_none() {
                (books, moved_at) = (seen, Instant::now());
            }
            match clients_took {
                Some(took) if seen[0] == seen[1] => return Ok(took),
                _ if moved_at.elapsed() > STANDSTILL => {
                    let [appended, in_ledger] = seen;
                    let breach = format!("the ledger stands still at {in_ledger} of {appended} events");
                    return Err(Ended::Breach(vec![breach]));
                }
                _ => {}
            }
        }
    }

    /// Resolves if the relay or the worker ends before it was told to; then why.
    async fn ended(&mut self) -> Ended {
        let (Some(relay), Some(worker)) = (&mut self.relay, &mut self.worker) else {
            return std::future::pending().await;
        };
        tokio::select! {
            relay = relay => match relay {
                Ok(Ok(_)) => Ended::Breach(vec!["the relay ended before the day did".to_owned()]),
                Ok(Err(error)) => Ended::refused("the relay stopped", &error),
                Err(panic) => Ended::Breach(vec![format!("the relay panicked: {panic}")]),
            },
            worker = worker => match worker {
                Ok(Ok(_)) => Ended::Breach(vec!["the worker ended before the day did".to_owned()]),
                Ok(Err(error)) => worker_ended(&error),
                Err(panic) => Ended::Breach(vec![format!("the worker panicked: {panic}")]),
            },
        }
    }

    /// Ends both in good order.
    pub(super) async fn close(&mut self) -> Result<(), Ended> {
        self.shutdown.cancel();
        if let Some(relay) = self.relay.take() {
            let relay = relay.await.map_err(|panic| Ended::Breach(vec![format!("the relay panicked: {panic}")]))?;
            relay.map_err(|error| Ended::refused("the relay stopped", &error))?;
        }
        if let Some(worker) = self.worker.take() {
            let worker = worker.await.map_err(|panic| Ended::Breach(vec![format!("the worker panicked: {panic}")]))?;
            worker.map_err(|error| worker_ended(&error))?;
        }
        Ok(())
    }
}

fn worker_ended(error: &partition_worker::Error) -> Ended {
    if let partition_worker::Error::HandlerFailed { source, .. } = error
        && source.is::<OutOfOrder>()
    {
        return Ended::Breach(vec![source.to_string()]);
    }
    Ended::refused("the worker stopped", error)
}

/// Events appended by the shop, and in the ledger.
async fn sums<DB: Engine>(pool: &Pool<DB>) -> Result<[u64; 2], sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let mut sums = [0; 2];
    for (sum, sql) in sums.iter_mut().zip([APPENDED, IN_LEDGER]) {
        *sum = Statement::new(sql).fetch_one::<DB>(&mut connection).await?.int(0)?.cast_unsigned();
    }
    Ok(sums)
}
