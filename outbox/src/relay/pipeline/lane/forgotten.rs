//! Events that the sink was told to forget, since something waited to be sent alone and they had no answer: they are handed over again.

use std::collections::{BTreeSet, HashSet};
use std::time::Instant;

use super::Lane;
use crate::relay::pipeline::{Fate, Gate, Outgoing, Progress, Stop};

impl Lane {
    /// The sink has forgotten what has no answer, and answers for the lane's old number count no more. What was refused among others
    /// and follows one of its key that has no answer is handed over again as well: alone it would overtake. So is the one that was alone:
    /// it would keep everything else waiting again.
    pub(in crate::relay::pipeline) fn forget_unanswered(&mut self, id: u64) {
        self.id = id;
        self.unanswered = 0;
        let alone = self.alone.take();
        let (mut again, mut keys) = (BTreeSet::new(), HashSet::new());
        for page in &self.pages {
            for (number, event) in (page.first..self.handed_over).zip(&page.page.events) {
                if number < self.published || self.is_settled(number) {
                    continue;
                }
                let key = event.key.as_ref().map(|key| (&event.topic, key));
                let waits_to_be_alone = self.refused.contains_key(&number) && alone != Some(number);
                if !waits_to_be_alone || key.is_some_and(|key| keys.contains(&key)) {
                    again.insert(number);
                    keys.extend(key);
                }
            }
        }
        self.refused.retain(|number, _| !again.contains(number));
        self.again = again;
    }

    /// The first of these, as many as come together. Not one whose key was blocked meanwhile.
    pub(super) fn hand_over_again(
        &mut self,
        gate: &mut impl Gate,
        progress: &mut Progress,
        now: Instant,
    ) -> Result<Option<Outgoing>, Stop> {
        while let Some(&first) = self.again.first() {
            let page = self.page_of(first);
            let (start, page) = (page.index(first), page.page.clone());
            let mut sent = 0;
            for (number, event) in (first..).zip(&page.events[start..]) {
                if !self.again.contains(&number) {
                    break;
                }
                match gate.fate(event, None) {
                    Fate::Send => {
                        self.again.remove(&number);
                        sent += 1;
                    }
                    Fate::Park(cause) => {
                        self.again.remove(&number);
                        self.park_refused(number, cause, progress, now);
                        break;
                    }
                    Fate::Stop(_) if sent > 0 => break,
                    Fate::Stop(reason) => return Err(Stop { event: Box::new(event.clone()), reason }),
                }
            }
            if sent > 0 {
                self.unanswered += sent as u64;
                return Ok(Some(Outgoing { lane: self.id, first, page, range: start..start + sent }));
            }
        }
        Ok(None)
    }
}
