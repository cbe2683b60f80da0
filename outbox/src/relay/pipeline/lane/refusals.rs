//! Events that the sink refused in the middle of others: each is sent again alone, and what fails then is parked.

use std::ops::Range;
use std::time::Instant;

use super::Lane;
use crate::event::EventId;
use crate::parked::Cause;
use crate::relay::pipeline::{Fate, Gate, Outgoing, Parked, Progress, Stop};
use crate::sink::LoggedEvent;

impl Lane {
    /// Answers of the sink: these events were refused. What fails alone is parked, or ends the relay.
    pub(in crate::relay::pipeline) fn refused(
        &mut self,
        numbers: Range<u64>,
        reason: &str,
        gate: &mut impl Gate,
        progress: &mut Progress,
        now: Instant,
    ) -> Result<(), Stop> {
        self.unanswered -= numbers.end - numbers.start;
        let Some(number) = self.alone.take_if(|alone| numbers.contains(alone)) else {
            self.refused.extend(numbers.map(|number| (number, reason.to_owned())));
            return Ok(());
        };
        let page = self.page_of(number);
        let event = page.page.events[page.index(number)].clone();
        match gate.fate(&event, Some(reason)) {
            // Its fate is to be sent: it is, alone again.
            Fate::Send => {}
            Fate::Stop(reason) => return Err(Stop { event: Box::new(event), reason }),
            Fate::Park(cause) => self.park_refused(number, cause, progress, now),
        }
        Ok(())
    }

    /// Answers of the sink: another event was refused instead of these. Each is sent alone, if it already was: again.
    pub(in crate::relay::pipeline) fn not_sent(&mut self, numbers: Range<u64>, reason: &str) {
        self.unanswered -= numbers.end - numbers.start;
        self.alone.take_if(|alone| numbers.contains(alone));
        self.refused.extend(numbers.map(|number| (number, reason.to_owned())));
    }

    /// The first event that was refused among others. The pipeline asks once nothing at all is in flight. Not one whose key was blocked by another of
    /// them.
    pub(super) fn hand_over_alone(
        &mut self,
        gate: &mut impl Gate,
        progress: &mut Progress,
        now: Instant,
    ) -> Result<Option<Outgoing>, Stop> {
        while let Some((&number, _)) = self.refused.first_key_value() {
            let page = self.page_of(number);
            let (index, page) = (page.index(number), page.page.clone());
            match gate.fate(&page.events[index], None) {
                Fate::Send => {
                    self.alone = Some(number);
                    self.unanswered = 1;
                    return Ok(Some(Outgoing { lane: self.id, first: number, page, range: index..index + 1 }));
                }
                Fate::Park(cause) => self.park_refused(number, cause, progress, now),
                Fate::Stop(reason) => return Err(Stop { event: Box::new(page.events[index].clone()), reason }),
            }
        }
        Ok(None)
    }

    /// Settles an event that was handed over and is to be parked.
    pub(super) fn park_refused(&mut self, number: u64, cause: Cause, progress: &mut Progress, now: Instant) {
        let page = self.page_of(number);
        let event = page.page.events[page.index(number)].clone();
        let overtaken_by = self.settled_after(number, &event);
        progress.overtaking += overtaken_by.len() as u64;
        let place = self.parks.partition_point(|(parked, _)| *parked < number);
        self.parks.insert(place, (number, Parked { event, cause, overtaken_by }));
        self.refused.remove(&number);
        self.settle(number);
        self.advance(progress, now);
    }

    /// Later events of the same key that were published though this one was not.
    pub(super) fn settled_after(&self, number: u64, event: &LoggedEvent) -> Vec<EventId> {
        let mut overtaking = Vec::new();
        if event.key.is_none() {
            return overtaking;
        }
        for page in &self.pages {
            for (number_there, other) in (page.first..).zip(&page.page.events) {
                let parked = || self.parks.iter().any(|(parked, _)| *parked == number_there);
                let same_key = (&other.topic, &other.key) == (&event.topic, &event.key);
                if number_there > number && same_key && self.is_settled(number_there) && !parked() {
                    overtaking.push(other.event_id);
                }
            }
        }
        overtaking
    }
}
