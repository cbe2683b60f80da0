//! The database of all turns: leastlock's log, and the table of the hand-written loop.

use std::str::FromStr;
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_outbox::relay::SqlLog;
use leastlock_outbox::{Event, KafkaSink, MIGRATIONS, Outbox, Relay, RelayBuilder};
use leastlock_testkit::TestDatabase;
use rdkafka::ClientConfig;
use sqlx::{AssertSqlSafe, Connection, Pool};

use super::OutboxEngine;
use super::by_hand;
use super::events::Events;
use crate::cpu::Cpu;
use crate::options::OutboxOptions;

/// Events of a transaction that fills the log: as many as a busy service commits together.
const EVENTS_A_TRANSACTION: u64 = 100;
/// The relay's, the heartbeat's, and one to spare.
pub(super) const RELAY_CONNECTIONS: u32 = 4;

/// Where the turns take place.
#[derive(Debug)]
pub(super) struct Site<DB: OutboxEngine> {
    pub(super) database: TestDatabase<DB>,
    pub(super) outbox: Outbox,
    pub(super) cpu: Cpu,
    pub(super) brokers: String,
}

impl<DB: OutboxEngine> Site<DB> {
    /// A database with all tables.
    pub(super) async fn create(brokers: String) -> anyhow::Result<Self> {
        let database = TestDatabase::<DB>::create().await.with(&MIGRATIONS).await;
        database.execute(DB::PLAIN_TABLE).await;
        let outbox = Outbox::open(&database.pool).await?;
        let cpu = DB::cpu(&database).await?;
        Ok(Self { database, outbox, cpu, brokers })
    }

    /// No events, in either table.
    pub(super) async fn empty(&self) {
        for sql in DB::EMPTY {
            self.database.execute(sql).await;
        }
    }

    /// The events, committed, in the table of the loop.
    pub(super) async fn fill_table(&self, topic: &str, events: Events) -> anyhow::Result<()> {
        let mut connection = self.hasty().await?;
        by_hand::fill::<DB>(&mut connection, topic, events).await?;
        self.filled(connection).await
    }

    /// The events, committed, in the log.
    pub(super) async fn fill_log(&self, topic: &str, events: Events) -> anyhow::Result<()> {
        let mut connection = self.hasty().await?;
        let mut next = 0;
        while next < events.count {
            let end = (next + EVENTS_A_TRANSACTION).min(events.count);
            let batch: Vec<_> =
                (next..end).map(|number| Event::new(topic, events.key(number)).bytes(events.value(number))).collect();
            let mut tx = connection.begin_with(DB::BEGIN_WRITE).await?;
            self.outbox.append_all(&mut tx, &batch).await?;
            tx.commit().await?;
            next = end;
        }
        self.filled(connection).await
    }

    /// A connection whose commits need not last, where there is such a thing.
    async fn hasty(&self) -> anyhow::Result<DB::Connection> {
        let options = <<DB::Connection as Connection>::Options as FromStr>::from_str(&self.database.url)?;
        let mut connection = DB::Connection::connect_with(&options).await?;
        if let Some(haste) = DB::HASTE {
            Statement::new(haste).execute::<DB>(&mut connection).await?;
        }
        Ok(connection)
    }

    async fn filled(&self, mut connection: DB::Connection) -> anyhow::Result<()> {
        if let Some(analyze) = DB::ANALYZE {
            Statement::new(AssertSqlSafe(analyze)).execute::<DB>(&mut connection).await?;
        }
        Ok(connection.close().await?)
    }

    /// A pool for a relay, as a service would have it.
    pub(super) async fn relay_pool(&self) -> anyhow::Result<Pool<DB>> {
        relay_pool(&self.database.url).await
    }
}

/// A pool for a relay.
pub(super) async fn relay_pool<DB: OutboxEngine>(url: &str) -> anyhow::Result<Pool<DB>> {
    Ok(DB::pool(url, RELAY_CONNECTIONS).await?)
}

/// A connection of one's own, with the settings of that pool.
pub(super) async fn connection<DB: OutboxEngine>(pool: &Pool<DB>) -> anyhow::Result<sqlx::pool::PoolConnection<DB>> {
    Ok(pool.acquire().await?)
}

/// What a relay is told; what it is not told is the library's default.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Settings {
    pub(super) lease: Option<Duration>,
    pub(super) page: Option<u32>,
    pub(super) in_flight: Option<u32>,
}

impl Settings {
    pub(super) fn of(options: &OutboxOptions) -> Self {
        Self { lease: None, page: options.page, in_flight: options.in_flight }
    }

    /// A relay to a Kafka sink with the library's own settings.
    pub(super) fn relay<DB: OutboxEngine>(
        self,
        pool: &Pool<DB>,
        brokers: &str,
    ) -> anyhow::Result<RelayBuilder<SqlLog<DB>, KafkaSink>> {
        let mut relay = Relay::builder(pool, sink(brokers)?);
        if let Some(lease) = self.lease {
            relay = relay.lease(lease);
        }
        if let Some(page) = self.page {
            relay = relay.page(page);
        }
        if let Some(in_flight) = self.in_flight {
            relay = relay.in_flight(in_flight);
        }
        Ok(relay)
    }
}

fn sink(brokers: &str) -> anyhow::Result<KafkaSink> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    Ok(KafkaSink::new(config)?)
}
