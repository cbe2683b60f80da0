//! What a run has to do with parked events.

use std::sync::Arc;
use std::time::Instant;

use super::{Handed, Run};
use crate::error::Error;
use crate::parked::{Cause, Queue};
use crate::relay::Relay;
use crate::relay::connection::within;
use crate::relay::cursor::{Cursor, Note, Page};
use crate::relay::log::Log;
use crate::relay::pipeline::Parked;
use crate::relay::resume::{self, LOOK_EVERY, Round, known_refusals};
use crate::sink::Sink;

impl<L: Log, S: Sink> Run<'_, L, S> {
    /// Looks for what operators have asked for, if it is time.
    pub(super) fn start_resuming(&mut self, now: Instant) {
        if self.can_resume() && now >= self.look_at {
            let cursors: Vec<Cursor> = self.pipeline.staying().cloned().collect();
            self.gate.round_begins();
            let (relay, after, alone, ending) = (self.relay, self.resume_after, self.resume_alone, self.ending.clone());
            self.resuming.start(async move { resume::round(relay, &cursors, after, alone, ending).await });
        }
    }

    /// Whether a round may begin: not beside an event that is sent alone, and if it is to send alone, beside nothing.
    pub(super) fn can_resume(&self) -> bool {
        let quiet = || self.pipeline.unanswered() == 0 && self.handing_over.is_empty() && self.left_behind.is_empty();
        let may = !self.pipeline.is_empty() && !self.pipeline.sends_alone() && (!self.resume_alone || quiet());
        may && self.resuming.is_empty()
    }

    pub(super) fn have_resumed(&mut self, mut round: Round) -> Result<(), Error> {
        let from_the_front = round.idle && self.resume_after.is_some();
        self.resume_alone = false;
        self.look_at = Instant::now() + LOOK_EVERY;
        if round.failed.is_none() {
            self.look_pause = round.pause(self.look_pause, self.resume_after.is_some());
            self.look_at = Instant::now() + self.look_pause;
            // What was refused among others is now the first of its queue.
            self.resume_alone = round.suspects;
            if !round.suspects {
                self.resume_after = round.last;
            }
        }
        round.gone.iter().for_each(|&(shard, queue)| self.gate.opened(shard, queue));
        self.relay.stats.noted(round.sent);
        if round.sent + round.refused > 0 {
            tracing::info!(round.sent, round.refused, "parked events were tried again");
        }
        // It is on its way, whatever else the round came to.
        self.left_behind.append(&mut round.left_behind);
        // At once, if there is more to do: behind these queues, or from the front again.
        let is_more = from_the_front || round.sent + round.refused > 0 || !round.gone.is_empty() || round.suspects;
        if is_more && round.failed.is_none() {
            self.look_at = Instant::now();
        }
        if let Some(reason) = round.lost_track {
            tracing::warn!(reason, "the sink lost track of a parked event; it is sent again");
            self.abandon();
            self.back_off();
        }
        round.failed.map_or(Ok(()), |error| self.fail(error))
    }

    /// Keeps what a note is about to park, and tells of what was refused.
    pub(super) fn park_with(&mut self, notes: &[Note]) {
        let parked = notes.iter().filter(|note| !note.parked.is_empty());
        let ids = |note: &Note| note.parked.iter().map(|park| park.event.id).collect();
        self.parking = parked.map(|note| (note.cursor.shard, ids(note))).collect();
        notes.iter().flat_map(|note| &note.parked).for_each(tell);
    }

    /// The note was taken for the shards in `own`.
    pub(super) fn have_parked(&mut self, own: &[i64]) {
        for (shard, ids) in self.parking.drain(..).filter(|(shard, _)| own.contains(shard)) {
            self.relay.stats.count_parked(ids.len() as u64);
            self.gate.noted(shard, ids);
        }
    }
}

/// Asks the sink what of a page it cannot take, and the tables which of these keys are blocked.
pub(super) async fn check<L: Log, S: Sink>(
    relay: &Relay<L, S>,
    lane: u64,
    page: Arc<Page>,
    keys: Vec<Queue>,
) -> Handed {
    let found = if keys.is_empty() {
        Ok(Vec::new())
    } else {
        within(relay.settings.lease, "looking blocked keys up", relay.log.blocked_among(&keys)).await
    };
    Handed::Checked(lane, known_refusals(relay, &page.events).await, found)
}

/// Once for each event that the sink refused: what is parked behind it is only counted.
fn tell(parked: &Parked) {
    let (event, overtaking) = (&parked.event, parked.overtaken_by.len());
    match &parked.cause {
        Cause::Refused { reason } => tracing::warn!(
            shard = event.shard, event_id = %event.event_id, event.topic, reason, overtaking,
            "an event can never be sent; it is parked, and its key is blocked until somebody retries, skips or releases it"
        ),
        Cause::Alone { reason } => tracing::warn!(
            shard = event.shard, event_id = %event.event_id, event.topic, reason, overtaking,
            "an event can never be sent; it is parked alone until somebody retries or skips it"
        ),
        Cause::Behind => {}
    }
}
