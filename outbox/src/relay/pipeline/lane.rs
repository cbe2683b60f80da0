//! One shard of a relay.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Fate, Gate, Outgoing, Parked, Progress, Stop};
use crate::parked::Cause;
use crate::relay::cursor::{Cursor, Page, ReadFrom};
use crate::sink::{LoggedEvent, Refusal};

mod forgotten;
mod noting;
mod refusals;

/// The events of a shard by number: see [the module](super) for what the numbers mean.
#[derive(Debug)]
pub(super) struct Lane {
    id: u64,
    /// Behind the last event read.
    read: Cursor,
    /// Behind the last page that is published whole.
    passed: Cursor,
    pages: VecDeque<InMemory>,
    noted: u64,
    published: u64,
    handed_over: u64,
    next: u64,
    /// Whether an event is settled: from `published` to `handed_over`.
    settled: VecDeque<bool>,
    unanswered: u64,
    /// Refused in the middle of others. Nothing else is sent until each was sent again alone.
    refused: BTreeMap<u64, String>,
    alone: Option<u64>,
    /// Forgotten by the sink, and to be handed over again before anything new is.
    again: BTreeSet<u64>,
    /// To be noted, with their numbers.
    parks: VecDeque<(u64, Parked)>,
    /// Whether positions say what was published.
    positions: bool,
    /// The ids of what is published and not noted, where they do not.
    ids: VecDeque<i64>,
    /// Up to where the note that is under way goes.
    noting: Option<u64>,
    /// Since when it is to be another relay's.
    draining: Option<Instant>,
}

/// A page of which some event is not published.
#[derive(Debug)]
struct InMemory {
    page: Arc<Page>,
    first: u64,
    bytes: usize,
    read_at: Instant,
    /// What the sink refuses beforehand; `None` until it was asked.
    refusals: Option<Vec<Refusal>>,
}

impl InMemory {
    fn end(&self) -> u64 {
        self.first + self.page.events.len() as u64
    }

    fn index(&self, number: u64) -> usize {
        usize::try_from(number - self.first).unwrap_or_else(|_| unreachable!("a page is in memory"))
    }
}

impl Lane {
    pub(super) fn new(id: u64, cursor: Cursor, positions: bool) -> Self {
        Self {
            id,
            read: cursor.clone(),
            passed: cursor,
            pages: VecDeque::new(),
            noted: 0,
            published: 0,
            handed_over: 0,
            next: 0,
            settled: VecDeque::new(),
            unanswered: 0,
            refused: BTreeMap::new(),
            alone: None,
            again: BTreeSet::new(),
            parks: VecDeque::new(),
            positions,
            ids: VecDeque::new(),
            noting: None,
            draining: None,
        }
    }

    /// Nothing more is read or sent, but what was refused among others, which others of its key may have overtaken.
    pub(super) fn drain(&mut self, now: Instant) {
        self.draining.get_or_insert(now);
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.is_some()
    }

    fn is_on_its_way(&self) -> bool {
        self.unanswered > 0 || !self.refused.is_empty()
    }

    /// Whether it can be handed over: nothing is on its way, and a relay that takes it up repeats nothing.
    pub(super) fn is_drained(&self) -> bool {
        self.is_draining() && !self.is_on_its_way() && self.unnoted() == 0 && self.noting.is_none()
    }

    /// Whether something has been on its way for so long since it was to be handed over.
    pub(super) fn is_overdue(&self, limit: Duration, now: Instant) -> bool {
        self.is_on_its_way() && self.draining.is_some_and(|since| now.saturating_duration_since(since) >= limit)
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn shard(&self) -> i64 {
        self.read.shard
    }

    /// Behind the last event read.
    pub(super) fn cursor(&self) -> &Cursor {
        &self.read
    }

    /// Events read beyond the published prefix.
    pub(super) fn ahead(&self) -> u64 {
        self.next - self.published
    }

    /// Whether events of it are to be sent again alone.
    pub(super) fn sends_alone(&self) -> bool {
        !self.refused.is_empty()
    }

    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Those that were answered behind a gap too.
    pub(super) fn under_way(&self) -> u64 {
        self.handed_over - self.noted
    }

    pub(super) fn unnoted(&self) -> u64 {
        self.published - self.noted
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.iter().map(|page| page.bytes).sum()
    }

    pub(super) fn noting(&self) -> Option<u64> {
        self.noting
    }

    pub(super) fn place(&self) -> ReadFrom {
        let mut unnoted = Vec::new();
        if !self.positions {
            unnoted.extend(&self.ids);
            for page in &self.pages {
                let published = self.published.max(page.first);
                unnoted.extend(page.page.events[page.index(published)..].iter().map(|event| event.id));
            }
        }
        ReadFrom { cursor: self.read.clone(), unnoted }
    }

    pub(super) fn read(&mut self, page: Page, read_at: Instant) {
        let events = page.events.len();
        self.read = page.after(events);
        if events == 0 {
            // Nothing to repeat after a crash, so the new position need not be noted by itself.
            if self.pages.is_empty() {
                self.passed = self.read.clone();
            }
            return;
        }
        let (first, bytes) = (self.next, page.events.iter().map(LoggedEvent::bytes).sum());
        self.next += events as u64;
        self.pages.push_back(InMemory { page: Arc::new(page), first, bytes, read_at, refusals: None });
    }

    pub(super) fn unchecked(&self) -> Option<Arc<Page>> {
        self.pages.iter().find(|page| page.refusals.is_none()).map(|page| page.page.clone())
    }

    pub(super) fn checked(&mut self, refusals: Vec<Refusal>) {
        if let Some(page) = self.pages.iter_mut().find(|page| page.refusals.is_none()) {
            page.refusals = Some(refusals);
        }
    }

    /// The next events to send, at most `room`.
    pub(super) fn hand_over(
        &mut self,
        room: u64,
        gate: &mut impl Gate,
        progress: &mut Progress,
        now: Instant,
    ) -> Result<Option<Outgoing>, Stop> {
        if !self.refused.is_empty() {
            return self.hand_over_alone(gate, progress, now);
        }
        if self.is_draining() {
            return Ok(None);
        }
        if !self.again.is_empty() {
            return self.hand_over_again(gate, progress, now);
        }
        while let Some(place) = self.pages.iter().position(|page| page.end() > self.handed_over) {
            let InMemory { page, refusals: Some(_), .. } = &self.pages[place] else { return Ok(None) };
            let page = page.clone();
            let start = self.pages[place].index(self.handed_over);
            let most = usize::try_from(room).unwrap_or(usize::MAX).min(page.events.len() - start);
            let (first, mut sent) = (self.handed_over, 0);
            let mut decided = Ok(());
            for index in start..start + most {
                let refusals = self.pages[place].refusals.as_deref().unwrap_or_default();
                let refused = refusals.iter().find(|refusal| refusal.index == index);
                match gate.fate(&page.events[index], refused.map(|refusal| refusal.reason.as_str())) {
                    Fate::Send => sent += 1,
                    Fate::Park(cause) => {
                        decided = Err(Ok((index, cause)));
                        break;
                    }
                    Fate::Stop(reason) => {
                        decided = Err(Err((index, reason)));
                        break;
                    }
                }
            }
            self.settled.extend(std::iter::repeat_n(false, sent));
            self.handed_over += sent as u64;
            self.unanswered += sent as u64;
            match decided {
                Err(Ok((index, cause))) => {
                    self.park(page.events[index].clone(), cause);
                    self.advance(progress, now);
                }
                Err(Err((index, reason))) if sent == 0 => {
                    return Err(Stop { event: Box::new(page.events[index].clone()), reason });
                }
                _ => {}
            }
            if sent > 0 {
                return Ok(Some(Outgoing { lane: self.id, first, page, range: start..start + sent }));
            }
            if most == 0 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Settles the next event without sending it.
    fn park(&mut self, event: LoggedEvent, cause: Cause) {
        self.parks.push_back((self.handed_over, Parked { event, cause, overtaken_by: Vec::new() }));
        self.settled.push_back(true);
        self.handed_over += 1;
    }

    /// Answers of the sink: these events are durable.
    pub(super) fn published(&mut self, numbers: Range<u64>, progress: &mut Progress, now: Instant) {
        self.unanswered -= numbers.end - numbers.start;
        if let Some(number) = self.alone.take_if(|alone| numbers.contains(alone)) {
            self.refused.remove(&number);
            let page = self.page_of(number);
            let overtaken_by = self.settled_after(number, &page.page.events[page.index(number)]);
            progress.overtaking += overtaken_by.len() as u64;
        }
        numbers.for_each(|number| self.settle(number));
        self.advance(progress, now);
    }

    /// Answers of the sink: it lost track of these.
    pub(super) fn unknown(&mut self, numbers: Range<u64>) {
        self.unanswered -= numbers.end - numbers.start;
        self.alone = None;
    }

    fn settle(&mut self, number: u64) {
        let place = self.place_of(number);
        self.settled[place] = true;
    }

    fn is_settled(&self, number: u64) -> bool {
        number < self.published || self.settled.get(self.place_of(number)).copied().unwrap_or(false)
    }

    fn place_of(&self, number: u64) -> usize {
        usize::try_from(number - self.published).unwrap_or_else(|_| unreachable!("it is in memory"))
    }

    fn page_of(&self, number: u64) -> &InMemory {
        let page = self.pages.iter().find(|page| page.end() > number);
        page.unwrap_or_else(|| unreachable!("an event that is not settled keeps its page"))
    }

    /// Moves the published prefix over what is settled.
    fn advance(&mut self, progress: &mut Progress, now: Instant) {
        while self.settled.front() == Some(&true) {
            self.settled.pop_front();
            let Some(page) = self.pages.front() else { unreachable!("an event that is not published keeps its page") };
            let event = &page.page.events[page.index(self.published)];
            if !self.positions {
                self.ids.push_back(event.id);
            }
            let parked = self.parks.iter().any(|(number, _)| *number == self.published);
            if !parked {
                progress.count(event.age_ms, now - page.read_at);
            }
            self.published += 1;
            if self.published == page.end() {
                self.passed = page.page.after(page.page.events.len());
                self.pages.pop_front();
            }
        }
        if self.pages.is_empty() {
            self.passed = self.read.clone();
        }
    }
}
