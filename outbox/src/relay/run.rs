//! One run of a relay: reads ahead, hands over, notes, each while the others are waited for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leastlock_core::Backoff;
use tokio_util::sync::CancellationToken;

use super::{NOTE_EVERY, Relay};
use crate::error::Error;
use crate::parked::Queue;
use crate::relay::blocking::Blocking;
use crate::relay::connection::within;
use crate::relay::cursor::{Cursor, Page};
use crate::relay::log::Log;
use crate::relay::ownership::Ownership;
use crate::relay::pipeline::{Outgoing, Pipeline};
use crate::relay::resume::{LOOK_EVERY, Round};
use crate::relay::run::parked::check;
use crate::relay::run::shards::{Look, look};
use crate::relay::run::silence::Silence;
use crate::relay::slot::Slot;
use crate::sink::{Batch, Refusal, Report, Reports, Sink};
use crate::sql::found::ReadLimit;

#[cfg(all(test, feature = "sqlite"))]
mod alone;
mod answers;
mod ending;
mod lone;
mod parked;
mod polling;
mod shards;
mod silence;

/// The shortest and the longest pause before something that failed is tried again.
const RETRY: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));
/// The most that a read or a claim may be given, however often it was cut off.
const LONGEST_READ: Duration = Duration::from_hours(1);

/// One run of a relay: the shards that it owns, and what is under way. The slots hold one statement, or one batch, each.
pub(super) struct Run<'a, L: Log, S: Sink> {
    relay: &'a Relay<L, S>,
    ownership: &'a Ownership,
    pipeline: Pipeline,
    gate: Blocking,
    reports: Arc<Reports>,
    /// Memory for reports, used again and again.
    spare: Vec<Report>,
    claiming: Slot<'a, Result<Look, Error>>,
    giving_up: Slot<'a, Result<(), Error>>,
    reading: Slot<'a, Result<Vec<Page>, Error>>,
    /// Whether what is being read is read from places that are void now.
    is_read_void: bool,
    handing_over: Slot<'a, Handed>,
    noting: Slot<'a, Result<Vec<i64>, Error>>,
    /// The ids of the events that the note under way parks, by shard.
    parking: Vec<(i64, Vec<i64>)>,
    resuming: Slot<'a, Round>,
    /// Where the next look for queues that operators asked for begins.
    resume_after: Option<Queue>,
    /// The next round is to send with nothing else in flight: an event was refused among others.
    resume_alone: bool,
    /// What a round has sent and waits for no more.
    left_behind: Vec<Arc<Reports>>,
    /// Since when something waits to be sent alone and nothing was answered.
    alone_since: Option<Instant>,
    /// Ends the round under way after the event that it is at.
    ending: CancellationToken,
    look_at: Instant,
    /// How long to wait after a round of parked events.
    look_pause: Duration,
    claim_at: Instant,
    reports_at: Instant,
    read_at: Instant,
    note_at: Instant,
    /// Nothing is read or handed over before: something failed.
    resume_at: Instant,
    failures: u32,
    silence: Silence,
    /// When events came last, or it was said that some do.
    quiet_since: Instant,
    /// How long a read may take. One that was cut off gets twice as long the next time, so that a slow one comes to its end.
    read_limit: Duration,
    /// How long a claim may take, blocked keys included: likewise.
    claim_limit: Duration,
}

/// What handing over came to.
enum Handed {
    /// The sink looked at a page of a lane, and its keys were looked up where not all are in memory.
    Checked(u64, Vec<Refusal>, Result<Vec<Queue>, Error>),
    /// It took a batch.
    Sent,
}

/// A shard that was claimed, and the blocked keys in it.
type Claimed = (Cursor, Vec<Queue>);

impl<'a, L: Log, S: Sink> Run<'a, L, S> {
    pub(super) fn new(relay: &'a Relay<L, S>, ownership: &'a Ownership) -> Self {
        let now = Instant::now();
        Self {
            relay,
            ownership,
            pipeline: Pipeline::new(relay.settings.limits(), L::POSITIONS),
            gate: Blocking::new(relay.policies.clone(), relay.settings.keys_in_memory as usize),
            reports: Arc::default(),
            spare: Vec::new(),
            claiming: Slot::empty(),
            giving_up: Slot::empty(),
            reading: Slot::empty(),
            is_read_void: false,
            handing_over: Slot::empty(),
            noting: Slot::empty(),
            parking: Vec::new(),
            resuming: Slot::empty(),
            resume_after: None,
            resume_alone: false,
            left_behind: Vec::new(),
            alone_since: None,
            ending: CancellationToken::new(),
            look_at: now,
            look_pause: LOOK_EVERY,
            claim_at: now,
            reports_at: now,
            read_at: now,
            note_at: now,
            resume_at: now,
            failures: 0,
            silence: Silence::default(),
            quiet_since: now,
            read_limit: relay.settings.lease,
            claim_limit: relay.settings.lease / 3,
        }
    }

    /// Publishes until `shutdown`, or until an error that a retry cannot help or an event that can never be sent.
    pub(super) async fn publish(&mut self, shutdown: &CancellationToken) -> Result<(), Error> {
        while !shutdown.is_cancelled() && self.pipeline.stop().is_none() {
            self.start();
            let next = self.next_moment();
            let takes_reports = Instant::now() >= self.reports_at;
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = self.reports.some(), if takes_reports => self.take_reports(),
                handed = self.handing_over.done() => self.handed_over(handed)?,
                pages = self.reading.done() => self.have_read(pages)?,
                own = self.noting.done() => self.have_noted(own)?,
                claimed = self.claiming.done() => self.have_claimed(claimed)?,
                round = self.resuming.done() => self.have_resumed(round)?,
                given_up = self.giving_up.done() => self.have_given_up(given_up)?,
                () = self.relay.wake.notified() => self.look_for_events(),
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
        Ok(())
    }

    /// Starts whatever can go on.
    fn start(&mut self) {
        let now = Instant::now();
        self.look_at_left_behind();
        let in_flight = self.pipeline.unanswered() + self.left_behind.len() as u64;
        if let Some(silent) = self.silence.due(in_flight, now) {
            tracing::warn!(in_flight, seconds = silent.as_secs(), "waiting for the sink, which answers nothing");
        }
        if !self.pipeline.is_empty() && now >= self.ownership.deadline() {
            tracing::warn!("the outbox shards' lease is over; another relay may own them");
            self.let_go();
        }
        if self.claiming.is_empty() && now >= self.claim_at {
            let (relay, ownership) = (self.relay, self.ownership);
            let limit = self.claim_limit;
            let to_load = i64::try_from(self.gate.to_load()).unwrap_or(i64::MAX);
            self.claiming.start(within(limit, "a claim", look(ownership, &*relay.log, to_load)));
        }
        self.give_up_what_is_overdue(now);
        self.wait_no_longer_to_be_alone(now);
        // What an operator asked for may be on its way too.
        if self.giving_up.is_empty() && self.resuming.is_empty() {
            self.start_giving_up();
        }
        if self.noting.is_empty() && self.is_note_due(now) {
            self.start_note();
        }
        if now >= self.resume_at {
            self.start_handing_over(now);
            if self.reading.is_empty() && now >= self.read_at {
                self.start_read();
            }
            self.start_resuming(now);
        }
    }

    /// When something is to be looked at even if nothing happens.
    fn next_moment(&self) -> Instant {
        let now = Instant::now();
        let mut next = now + polling::PAUSE.1;
        let mut at = |condition: bool, moment: Instant| {
            if condition {
                next = next.min(moment);
            }
        };
        at(!self.pipeline.is_empty(), self.ownership.deadline());
        at(self.claiming.is_empty(), self.claim_at);
        at(self.can_resume(), self.look_at.max(self.resume_at));
        at(self.noting.is_empty() && self.pipeline.unnoted() > 0, self.note_at);
        // Where there is no room to read, an answer or a note makes some.
        let can_read = self.reading.is_empty() && self.pipeline.has_room();
        at(can_read, self.read_at.max(self.resume_at));
        at(self.handing_over.is_empty() && now < self.resume_at, self.resume_at);
        at(now < self.reports_at && self.pipeline.unanswered() > 0, self.reports_at);
        next
    }

    fn is_note_due(&self, now: Instant) -> bool {
        let unnoted = self.pipeline.unnoted();
        // Before the limit of what is in flight, so that it is never waited for.
        unnoted > 0 && (now >= self.note_at || unnoted >= self.relay.settings.limits().in_flight / 2)
    }

    fn start_note(&mut self) {
        let notes = self.pipeline.note();
        if notes.is_empty() {
            return;
        }
        self.note_at = Instant::now() + NOTE_EVERY;
        self.park_with(&notes);
        let (relay, lease) = (self.relay, self.relay.settings.lease);
        self.noting.start(async move { within(lease, "noting what was published", relay.log.note(&notes)).await });
    }

    fn start_handing_over(&mut self, now: Instant) {
        if !self.handing_over.is_empty() {
            return;
        }
        let sink = &self.relay.sink;
        let quiet = self.resuming.is_empty() && self.left_behind.is_empty();
        if let Some((lane, page)) = self.pipeline.unchecked() {
            let checking = check(self.relay, lane, page.clone(), self.gate.to_look_up(page.shard(), &page.events));
            self.handing_over.start(checking);
        } else if self.resume_alone && !self.pipeline.sends_alone() {
            // Nothing may be in flight with what the round sends.
        } else if let Some(outgoing) = self.pipeline.hand_over(quiet, &mut self.gate, now) {
            let Outgoing { lane, first, page, range } = outgoing;
            let batch = Batch::new(page, range, lane, first, &self.reports);
            let turn = &self.relay.turn;
            self.handing_over.start(async move {
                let _turn = turn.lock().await;
                sink.send(batch).await;
                Handed::Sent
            });
        }
    }

    fn start_read(&mut self) {
        let from = self.pipeline.places();
        if from.is_empty() {
            return;
        }
        let (relay, limit) = (self.relay, self.read_limit);
        let most = ReadLimit { events: i64::from(relay.settings.page), bytes: self.pipeline.room() };
        self.reading.start(async move { within(limit, "a read", relay.log.read(&from, most)).await });
    }

    /// Owns nothing any more, as far as this relay knows. Other owners may publish from here on; this one may claim again.
    fn let_go(&mut self) {
        self.abandon();
        self.reading.clear();
        self.is_read_void = false;
        self.noting.clear();
        self.parking.clear();
        self.claiming.clear();
        self.pipeline.clear();
        self.gate.keep_only(&[]);
        self.relay.stats.hold(0, 0);
        self.ownership.keep_only(&[]);
        self.claim_at = Instant::now();
    }

    /// Forgets what is in flight: it is read and sent again.
    fn abandon(&mut self) {
        self.handing_over.clear();
        // It is not cut off: positions hold only as long as the connection that they were read on.
        self.is_read_void = !self.reading.is_empty();
        self.resuming.clear();
        (self.resume_alone, self.left_behind, self.alone_since) = (false, Vec::new(), None);
        self.relay.sink.abandon();
        self.pipeline.rewind(&mut self.gate);
    }

    fn fail(&mut self, error: Error) -> Result<(), Error> {
        if !error.is_retryable() {
            return Err(error);
        }
        tracing::warn!(%error, failures = self.failures, "the outbox relay tries again");
        self.back_off();
        Ok(())
    }

    /// No wake-up cuts this short: it says nothing of what failed.
    fn back_off(&mut self) {
        self.resume_at = Instant::now() + Backoff::new(RETRY.0, RETRY.1).delay(self.failures);
        self.failures = self.failures.saturating_add(1);
    }
}
