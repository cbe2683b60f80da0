//! What is to be sent alone waits for all that is in flight, and not for ever: on a partition without a leader, say, there is no answer.

use std::time::Instant;

use super::Run;
use crate::relay::log::Log;
use crate::sink::Sink;

impl<L: Log, S: Sink> Run<'_, L, S> {
    /// Forgets what was answered of that which rounds have left behind.
    pub(super) fn look_at_left_behind(&mut self) {
        let before = self.left_behind.len();
        self.left_behind.retain(|reports| !reports.have_some());
        if self.left_behind.len() < before {
            self.silence.ends();
            self.alone_since = None;
        }
    }

    /// Has the sink forget what is in flight once it has answered nothing for the length of a lease, if something waits to be sent alone:
    /// nothing else of any key would go on either. What was to be sent alone is now first, and what had no answer is sent again behind it.
    pub(super) fn wait_no_longer_to_be_alone(&mut self, now: Instant) {
        let in_flight = self.pipeline.unanswered() + self.left_behind.len() as u64;
        let is_busy = in_flight > 0 || !self.handing_over.is_empty();
        // A round ends by itself.
        let waits = (self.pipeline.sends_alone() || self.resume_alone) && self.resuming.is_empty() && is_busy;
        if !waits {
            self.alone_since = None;
            return;
        }
        let since = *self.alone_since.get_or_insert(now);
        if now.saturating_duration_since(since) < self.relay.settings.lease {
            return;
        }
        tracing::warn!(
            in_flight,
            "an event that was refused among others is to be sent alone, and the sink does not answer for others; they are sent again"
        );
        self.alone_since = None;
        self.handing_over.clear();
        self.left_behind.clear();
        self.relay.sink.abandon();
        // What is being read of a shard that is to be another relay's may be behind what is forgotten of it.
        self.is_read_void = !self.reading.is_empty();
        self.pipeline.forget_unanswered(&mut self.gate);
    }
}
