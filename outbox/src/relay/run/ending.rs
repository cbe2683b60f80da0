//! The end of a run: what is under way is finished and noted, and the shards are given back.

use std::time::Instant;

use super::Run;
use crate::error::Error;
use crate::relay::connection::within;
use crate::relay::log::Log;
use crate::sink::{SendError, Sink};

impl<L: Log, S: Sink> Run<'_, L, S> {
    /// Waits for what is in flight and notes it. What only asks the database is dropped, but for a read, whose
    /// session says that the positions are of this server; what it brings is.
    pub(in crate::relay) async fn drain(&mut self) -> Result<(), Error> {
        self.claiming.clear();
        self.ending.cancel();
        let until = Instant::now() + self.relay.settings.drain;
        while !(self.handing_over.is_empty() && self.pipeline.unanswered() == 0 && self.resuming.is_empty()) {
            let until = until.min(self.ownership.deadline());
            if Instant::now() >= until {
                self.handing_over.clear();
                self.resuming.clear();
                self.relay.sink.abandon();
                self.take_reports();
                break;
            }
            tokio::select! {
                () = self.reports.some() => self.take_reports(),
                handed = self.handing_over.done() => self.handed_over(handed)?,
                own = self.noting.done() => self.have_noted(own)?,
                round = self.resuming.done() => self.have_resumed(round)?,
                _ = self.reading.done() => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
        let limit = self.relay.settings.lease;
        within(limit, "noting what was published", self.note_the_rest()).await
    }

    async fn note_the_rest(&mut self) -> Result<(), Error> {
        for _ in 0..2 {
            if self.noting.is_empty() {
                self.start_note();
            }
            while !self.noting.is_empty() {
                tokio::select! {
                    own = self.noting.done() => self.have_noted(own)?,
                    _ = self.reading.done() => {}
                }
            }
        }
        Ok(())
    }

    /// Why the relay is to end by itself.
    pub(in crate::relay) fn refusal(&self) -> Result<(), Error> {
        let Some(stop) = self.pipeline.stop() else { return Ok(()) };
        let source = SendError::Permanent { reason: stop.reason.clone() };
        Err(Error::Refused { event_id: stop.event.event_id, topic: stop.event.topic.clone(), source })
    }

    /// Gives all shards back.
    pub(in crate::relay) async fn release(mut self) -> Result<(), Error> {
        self.reading.clear();
        let limit = self.relay.settings.lease / 3;
        self.relay.stats.hold(0, 0);
        within(limit, "giving the shards back", self.ownership.release(&*self.relay.log)).await
    }
}
