//! One run of a relay: read, publish, note, over and over.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::Relay;
use crate::error::Error;
use crate::relay::connection::within;
use crate::relay::cursor::{Cursor, Note, Page, ReadFrom};
use crate::relay::log::Log;
use crate::relay::ownership::Ownership;
use crate::sink::{LoggedEvent, SendError, Sink};

/// The most that a read may be given, however often it was cut off.
const LONGEST_READ: Duration = Duration::from_hours(1);

/// One run of a relay: the shards that it owns.
pub(super) struct Run<'a, L: Log, S: Sink> {
    relay: &'a Relay<L, S>,
    ownership: &'a Ownership,
    shards: Vec<Cursor>,
    claim_at: Instant,
    /// How long a read may take. One that was cut off gets twice as long the next time, so that a slow one comes to its end.
    read_limit: Duration,
}

/// What a step came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There was nothing to publish.
    Idle,
    /// Everything that was read is published.
    Published,
    /// The sink lost track of some of it.
    Unsure,
}

impl<'a, L: Log, S: Sink> Run<'a, L, S> {
    pub(super) fn new(relay: &'a Relay<L, S>, ownership: &'a Ownership) -> Self {
        let read_limit = relay.settings.lease;
        Self { relay, ownership, shards: Vec::new(), claim_at: Instant::now(), read_limit }
    }

    /// Reads a page of each shard, publishes it and notes it. What only asks the database is dropped at `shutdown`.
    pub(super) async fn step(&mut self, shutdown: &CancellationToken) -> Result<Step, Error> {
        let Some(owned) = shutdown.run_until_cancelled(self.own_shards()).await else { return Ok(Step::Idle) };
        owned?;
        if self.shards.is_empty() {
            return Ok(Step::Idle);
        }
        let Some(pages) = shutdown.run_until_cancelled(self.read()).await else { return Ok(Step::Idle) };
        let (pages, read_at) = (pages?, Instant::now());
        let events: Vec<_> = pages.iter().flat_map(|page| page.events.iter().cloned()).collect();
        if events.is_empty() {
            // Nothing to repeat after a crash, so the new position need not be noted.
            self.shards = pages.iter().map(|page| page.after(0)).collect();
            return Ok(Step::Idle);
        }
        let Some(results) = self.publish(&events, shutdown).await else {
            self.let_go();
            return Ok(Step::Idle);
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
                // Only a fresh start tells what an unreported event is worth.
                tracing::warn!("the sink lost track of some events; they are published again");
                self.relay.sink.abandon();
                Ok(Step::Unsure)
            }
            None => Ok(Step::Published),
        }
    }

    /// Gives all shards back.
    pub(super) async fn release(self) -> Result<(), Error> {
        let limit = self.relay.settings.lease / 3;
        within(limit, "giving the shards back", self.ownership.release(&*self.relay.log)).await
    }

    /// Drops shards whose lease may be over, and takes free ones now and then.
    async fn own_shards(&mut self) -> Result<(), Error> {
        if !self.shards.is_empty() && self.ownership.is_over() {
            tracing::warn!(shards = self.shards.len(), "the outbox shards' lease is over; another relay may own them");
            self.let_go();
        }
        if Instant::now() >= self.claim_at {
            let claimed = self.claim().await?;
            self.shards.retain(|held| claimed.iter().all(|cursor| cursor.shard != held.shard));
            self.shards.extend(claimed);
            self.claim_at = Instant::now() + self.relay.settings.lease / 10;
        }
        Ok(())
    }

    async fn claim(&mut self) -> Result<Vec<Cursor>, Error> {
        within(self.relay.settings.lease / 3, "a claim", self.ownership.claim(&*self.relay.log)).await
    }

    /// Owns nothing any more, as far as this relay knows. Other owners may publish from here on; this one may claim again.
    fn let_go(&mut self) {
        self.relay.sink.abandon();
        self.shards.clear();
        self.ownership.keep_only(&[]);
        self.claim_at = Instant::now();
    }

    /// Reads the next page of each shard.
    async fn read(&mut self) -> Result<Vec<Page>, Error> {
        let from: Vec<_> =
            self.shards.iter().map(|cursor| ReadFrom { cursor: cursor.clone(), unnoted: Vec::new() }).collect();
        let read = self.relay.log.read(&from, i64::from(self.relay.settings.page));
        let pages = within(self.read_limit, "a read", read).await;
        self.read_limit = match &pages {
            Err(Error::NoAnswer { .. }) => (self.read_limit * 2).min(LONGEST_READ),
            _ => self.relay.settings.lease,
        };
        pages
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

    /// Notes how far each shard was published, and lets go of those that are another relay's now; of all if it got no
    /// answer. A note that arrives late finds another epoch then, and cannot turn a cursor back.
    async fn note(&mut self, pages: &[Page], prefixes: &[usize]) -> Result<(), Error> {
        let moved: Vec<Cursor> = pages.iter().zip(prefixes).map(|(page, &published)| page.after(published)).collect();
        let with_events: Vec<Cursor> = moved
            .iter()
            .zip(prefixes)
            .filter(|(_, published)| **published > 0)
            .map(|(cursor, _)| cursor.clone())
            .collect();
        let notes: Vec<_> =
            with_events.iter().map(|cursor| Note { cursor: cursor.clone(), published: Vec::new() }).collect();
        let noted = within(self.relay.settings.lease, "noting what was published", self.relay.log.note(&notes)).await;
        if noted.is_err() {
            self.let_go();
        }
        let own = noted?;
        let fenced = |cursor: &Cursor| {
            with_events.iter().any(|noted| noted.shard == cursor.shard) && !own.contains(&cursor.shard)
        };
        if moved.iter().any(fenced) {
            tracing::warn!("another relay owns some of the outbox shards now");
            self.relay.sink.abandon();
        }
        self.shards = moved.into_iter().filter(|cursor| !fenced(cursor)).collect();
        self.ownership.keep_only(&self.shards);
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
