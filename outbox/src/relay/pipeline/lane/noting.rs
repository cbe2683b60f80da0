//! How far a shard may be noted as published, and back to there.

use super::Lane;
use crate::relay::cursor::{Cursor, Note};

impl Lane {
    /// Behind the published prefix.
    fn position(&self) -> Cursor {
        match self.pages.front() {
            Some(page) if self.published > page.first => page.page.after(page.index(self.published)),
            _ => self.passed.clone(),
        }
    }

    /// Back to what is published, under a new number: answers for the old one count no more.
    pub(in crate::relay::pipeline) fn rewind(&mut self, id: u64) {
        let position = self.position();
        self.id = id;
        self.read = position.clone();
        self.passed = position;
        self.pages.clear();
        self.settled.clear();
        self.refused.clear();
        self.again.clear();
        self.parks.retain(|(number, _)| *number < self.published);
        (self.unanswered, self.alone) = (0, None);
        (self.handed_over, self.next) = (self.published, self.published);
    }

    /// The ids of the events that are to be parked and are in no note yet.
    pub(in crate::relay::pipeline) fn to_park(&self) -> Vec<i64> {
        self.parks.iter().map(|(_, park)| park.event.id).collect()
    }

    /// What to note, if anything was published since.
    pub(in crate::relay::pipeline) fn note(&mut self) -> Option<Note> {
        if self.published == self.noted {
            return None;
        }
        self.noting = Some(self.published);
        let published = if self.positions { Vec::new() } else { self.ids.iter().copied().collect() };
        let parked = self.parks.iter().take_while(|(number, _)| *number < self.published);
        let parked = parked.map(|(_, park)| park.clone()).collect();
        Some(Note { cursor: self.position(), published, parked })
    }

    /// The note was taken; answers how many events it noted as published.
    pub(in crate::relay::pipeline) fn noted(&mut self) -> u64 {
        let Some(up_to) = self.noting.take() else { return 0 };
        let events = up_to - self.noted;
        self.noted = up_to;
        self.ids.drain(..usize::try_from(events).map_or(self.ids.len(), |events| events.min(self.ids.len())));
        let parked = self.parks.partition_point(|(number, _)| *number < up_to);
        self.parks.drain(..parked);
        events - parked as u64
    }
}
