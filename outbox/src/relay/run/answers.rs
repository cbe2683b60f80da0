//! What the database and the sink have answered.

use std::time::Instant;

use super::{Handed, LONGEST_READ, Run};
use crate::error::Error;
use crate::relay::REPORTS_EVERY;
use crate::relay::cursor::Page;
use crate::relay::log::Log;
use crate::relay::run::polling;
use crate::sink::Sink;

impl<L: Log, S: Sink> Run<'_, L, S> {
    pub(super) fn have_read(&mut self, pages: Result<Vec<Page>, Error>) -> Result<(), Error> {
        self.read_limit = match &pages {
            Err(Error::NoAnswer { .. }) => (self.read_limit * 2).min(LONGEST_READ),
            _ => self.relay.settings.lease,
        };
        let pages = match pages {
            Ok(pages) => pages,
            Err(error) => {
                // The next read is on another connection, perhaps to another server, or to this one after a crash: what was read so far
                // may never have been there, and its ids and transaction ids are given again. Only the table's positions count.
                self.let_go();
                return self.fail(error);
            }
        };
        let now = Instant::now();
        if std::mem::take(&mut self.is_read_void) {
            self.read_at = now;
            return Ok(());
        }
        if self.pipeline.read(pages, now) > 0 {
            self.look_for_events();
        } else {
            self.read_at = now + polling::pause(now.saturating_duration_since(self.quiet_since));
        }
        Ok(())
    }

    /// Reads at once, and soon again if nothing is there: some may have come, or be about to.
    pub(super) fn look_for_events(&mut self) {
        let now = Instant::now();
        (self.read_at, self.quiet_since) = (now, now);
    }

    pub(super) fn handed_over(&mut self, handed: Handed) -> Result<(), Error> {
        match handed {
            Handed::Checked(lane, refusals, Ok(found)) => {
                if let Some(shard) = self.pipeline.checked(lane, refusals) {
                    self.gate.found(shard, found);
                }
                Ok(())
            }
            Handed::Checked(_, _, Err(error)) => self.fail(error),
            Handed::Sent => Ok(()),
        }
    }

    pub(super) fn take_reports(&mut self) {
        let mut reports = self.reports.take(std::mem::take(&mut self.spare));
        let now = Instant::now();
        self.reports_at = now + REPORTS_EVERY;
        self.silence.ends();
        self.alone_since = None;
        for report in reports.drain(..) {
            self.pipeline.report(report, &mut self.gate, now);
        }
        self.spare = reports;
        let progress = self.pipeline.progress();
        if progress.overtaking > 0 {
            tracing::warn!(
                events = progress.overtaking,
                "events were acknowledged before earlier ones of their key, which were refused among others"
            );
        }
        if progress.events > 0 {
            self.failures = 0;
            self.relay.stats.acknowledged(progress);
        }
        if let Some(reason) = self.pipeline.lost_track() {
            tracing::warn!(reason, "the sink lost track of some events; they are published again");
            // Only a fresh start tells what an event without an answer is worth.
            self.abandon();
            self.back_off();
        }
    }

    /// A note that got no answer may still arrive: by then the shards are claimed anew, so it finds another epoch and cannot
    /// turn a position back.
    pub(super) fn have_noted(&mut self, own: Result<Vec<i64>, Error>) -> Result<(), Error> {
        let own = match own {
            Ok(own) => own,
            Err(error) => {
                self.let_go();
                return self.fail(error);
            }
        };
        let (events, lost) = self.pipeline.noted(&own);
        self.relay.stats.noted(events);
        self.have_parked(&own);
        if self.gate.overfull().is_some() {
            tracing::warn!("so many keys are blocked that the shards are claimed anew, to look keys up in the tables");
            self.let_go();
            return Ok(());
        }
        if !lost.is_empty() {
            tracing::warn!("another relay owns some of the outbox shards now");
            self.relay.stats.hold(self.pipeline.lanes(), 0);
            let cursors: Vec<_> = self.pipeline.cursors().cloned().collect();
            self.ownership.keep_only(&cursors);
            self.gate.keep_only(&cursors);
            self.abandon();
        }
        Ok(())
    }
}
