//! What the sink answers, and what becomes of that which has no answer.

use std::time::{Duration, Instant};

use super::{Gate, Pipeline, Stop};
use crate::sink::{Report, SendError};

/// What was published since it was last asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) events: u64,
    /// From append to answer, in milliseconds: the sum, and the longest.
    pub(crate) lag_sum_ms: u64,
    pub(crate) lag_max_ms: u64,
    /// Events that were acknowledged before an earlier one of their key, because that one was refused among others.
    pub(crate) overtaking: u64,
}

impl Progress {
    pub(super) fn count(&mut self, age_at_read_ms: i64, since_read: Duration) {
        let since_read = u64::try_from(since_read.as_millis()).unwrap_or(u64::MAX);
        // An age below zero is a database clock that was stepped back.
        let lag = u64::try_from(age_at_read_ms).unwrap_or(0).saturating_add(since_read);
        self.events += 1;
        self.lag_sum_ms = self.lag_sum_ms.saturating_add(lag);
        self.lag_max_ms = self.lag_max_ms.max(lag);
    }
}

impl Pipeline {
    /// Takes an answer that came at `now`. One for a lane that is no more says nothing of the present.
    pub(crate) fn report(&mut self, report: Report, gate: &mut impl Gate, now: Instant) {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id() == report.lane) else { return };
        let numbers = report.first..report.first + report.count;
        match report.outcome {
            Ok(()) => lane.published(numbers, &mut self.progress, now),
            Err(SendError::Permanent { reason }) => {
                if let Err(stop) = lane.refused(numbers, &reason, gate, &mut self.progress, now) {
                    self.stop = Some(stop);
                }
            }
            Err(SendError::NotSent { reason }) => lane.not_sent(numbers, &reason),
            Err(SendError::Unknown { reason }) => {
                lane.unknown(numbers);
                self.lost_track = Some(reason);
            }
        }
    }

    /// Why the sink lost track of some event, if it did. Everything has to be [rewound](Self::rewind) then.
    pub(crate) fn lost_track(&self) -> Option<&str> {
        self.lost_track.as_deref()
    }

    /// The sink has forgotten everything: every lane goes back to what is published.
    pub(crate) fn rewind(&mut self, gate: &mut impl Gate) {
        self.lost_track = None;
        for lane in &mut self.lanes {
            self.last_lane += 1;
            lane.rewind(self.last_lane);
            gate.rewound(lane.shard(), &lane.to_park());
        }
    }

    /// Why the relay is to end, if it is.
    pub(crate) fn stop(&self) -> Option<&Stop> {
        self.stop.as_ref()
    }

    /// The sink has forgotten what has no answer. That is handed over again, behind what is to be sent alone; of shards that are to be
    /// another relay's nothing is.
    pub(crate) fn forget_unanswered(&mut self, gate: &mut impl Gate) {
        for lane in &mut self.lanes {
            self.last_lane += 1;
            if lane.is_draining() {
                lane.rewind(self.last_lane);
                gate.rewound(lane.shard(), &lane.to_park());
            } else {
                lane.forget_unanswered(self.last_lane);
            }
        }
    }

    /// What was published since this was last asked.
    pub(crate) fn progress(&mut self) -> Progress {
        std::mem::take(&mut self.progress)
    }
}
