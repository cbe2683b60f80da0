//! One run of a relay: read, publish, note, over and over.

use std::time::Instant;

use leastlock_core::Statement;
use sqlx::pool::PoolConnection;
use tokio_util::sync::CancellationToken;

use super::Relay;
use crate::error::Error;
use crate::relay::cursor::{Cursor, Page};
use crate::relay::ownership::Ownership;
use crate::sink::{LoggedEvent, SendError, Sink};
use crate::sql::OutboxSql;

/// One run of a relay: the shards that it owns.
pub(super) struct Run<'a, DB: OutboxSql, S: Sink> {
    relay: &'a Relay<DB, S>,
    ownership: &'a Ownership,
    shards: Vec<Cursor>,
    claim_at: Instant,
    /// A connection with settings for reading, where the engine needs some. It is closed rather than given back.
    reader: Option<PoolConnection<DB>>,
}

impl<'a, DB: OutboxSql, S: Sink> Run<'a, DB, S> {
    pub(super) fn new(relay: &'a Relay<DB, S>, ownership: &'a Ownership) -> Self {
        Self { relay, ownership, shards: Vec::new(), claim_at: Instant::now(), reader: None }
    }

    /// Reads a page of each shard, publishes it and notes it. Answers how many events were published.
    pub(super) async fn step(&mut self, shutdown: &CancellationToken) -> Result<usize, Error> {
        self.own_shards().await?;
        if self.shards.is_empty() {
            return Ok(0);
        }
        let (pages, read_at) = (self.read().await?, Instant::now());
        let events: Vec<_> = pages.iter().flat_map(|page| page.events.iter().cloned()).collect();
        if events.is_empty() {
            // Nothing to repeat after a crash, so the new position need not be noted.
            self.shards = pages.iter().map(|page| page.after(0)).collect();
            return Ok(0);
        }
        let Some(results) = self.publish(&events, shutdown).await else {
            self.relay.sink.abandon();
            self.shards.clear();
            return Ok(0);
        };
        let unknown = results.iter().any(|result| matches!(result, Err(SendError::Unknown { .. })));
        let (prefixes, refusal) = prefixes(&pages, results);
        self.note(&pages, &prefixes).await?;
        for (page, &published) in pages.iter().zip(&prefixes) {
            for event in &page.events[..published] {
                self.relay.stats.count(event.age_ms, read_at.elapsed());
            }
        }
        match refusal {
            Some(error) => Err(error),
            None if unknown => {
                // Only a fresh start tells what an unreported event is worth; the pause of an empty poll spaces them out.
                tracing::warn!("the sink lost track of some events; they are published again");
                self.relay.sink.abandon();
                Ok(0)
            }
            None => Ok(prefixes.iter().sum()),
        }
    }

    /// Drops shards whose lease may be over, and takes free ones now and then.
    async fn own_shards(&mut self) -> Result<(), Error> {
        if !self.shards.is_empty() && self.ownership.is_over() {
            tracing::warn!(shards = self.shards.len(), "the outbox shards' lease is over; another relay may own them");
            self.relay.sink.abandon();
            self.shards.clear();
        }
        if Instant::now() >= self.claim_at {
            let claimed = self.ownership.claim(&self.relay.pool).await?;
            self.shards.retain(|held| claimed.iter().all(|cursor| cursor.shard != held.shard));
            self.shards.extend(claimed);
            self.claim_at = Instant::now() + self.relay.settings.lease / 10;
        }
        Ok(())
    }

    /// Reads the next page of each shard. After an error the reader is closed, and the next read opens another.
    async fn read(&mut self) -> Result<Vec<Page>, Error> {
        let mut connection = match self.reader.take() {
            Some(reader) => reader,
            None => self.connect().await.map_err(Error::database::<DB>)?,
        };
        let pages = DB::read(&mut connection, &self.shards, i64::from(self.relay.settings.page)).await?;
        if DB::READER.is_some() {
            self.reader = Some(connection);
        }
        Ok(pages)
    }

    async fn connect(&mut self) -> Result<PoolConnection<DB>, sqlx::Error> {
        let mut connection = self.relay.pool.acquire().await?;
        if let Some(setting) = DB::READER {
            connection.close_on_drop();
            Statement::new(setting).execute::<DB>(&mut connection).await?;
        }
        Ok(connection)
    }

    /// Publishes within the lease, which the heartbeat prolongs meanwhile. `None`: the lease ended, or the drain did.
    async fn publish(
        &mut self,
        events: &[LoggedEvent],
        shutdown: &CancellationToken,
    ) -> Option<Vec<Result<(), SendError>>> {
        let lease_over = async {
            while !self.ownership.is_over() {
                tokio::time::sleep_until(self.ownership.deadline().into()).await;
            }
        };
        let drained = async {
            shutdown.cancelled().await;
            tokio::time::sleep(self.relay.settings.drain).await;
        };
        tokio::select! {
            results = self.relay.sink.publish(events) => Some(results),
            () = lease_over => None,
            () = drained => None,
        }
    }

    /// Notes how far each shard was published, and lets go of those that are another relay's now.
    async fn note(&mut self, pages: &[Page], prefixes: &[usize]) -> Result<(), Error> {
        let moved: Vec<Cursor> = pages.iter().zip(prefixes).map(|(page, &published)| page.after(published)).collect();
        let with_events: Vec<Cursor> = moved
            .iter()
            .zip(prefixes)
            .filter(|(_, published)| **published > 0)
            .map(|(cursor, _)| cursor.clone())
            .collect();
        let mut connection = self.relay.pool.acquire().await.map_err(Error::database::<DB>)?;
        let own = DB::advance(&mut connection, &with_events).await.map_err(Error::database::<DB>)?;
        let fenced = |cursor: &Cursor| {
            with_events.iter().any(|noted| noted.shard == cursor.shard) && !own.contains(&cursor.shard)
        };
        if moved.iter().any(fenced) {
            tracing::warn!("another relay owns some of the outbox shards now");
            self.relay.sink.abandon();
        }
        self.shards = moved.into_iter().filter(|cursor| !fenced(cursor)).collect();
        Ok(())
    }
}

/// How many events of each page were published without a gap, and the refusal that ends the relay, if there was one.
fn prefixes(pages: &[Page], results: Vec<Result<(), SendError>>) -> (Vec<usize>, Option<Error>) {
    let (mut results, mut refusal) = (results.into_iter(), None);
    let mut prefixes = Vec::with_capacity(pages.len());
    for page in pages {
        let (mut published, mut gap) = (0, false);
        for (event, result) in page.events.iter().zip(results.by_ref()) {
            match result {
                Ok(()) if !gap => published += 1,
                Ok(()) => {}
                Err(source) => {
                    gap = true;
                    if refusal.is_none() && matches!(source, SendError::Permanent { .. }) {
                        let (event_id, topic) = (event.event_id, event.topic.clone());
                        refusal = Some(Error::Refused { event_id, topic, source });
                    }
                }
            }
        }
        prefixes.push(published);
    }
    (prefixes, refusal)
}
