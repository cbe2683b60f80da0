//! Events on their way to a sink, and what the sink says of each.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{LoggedEvent, SendError};
use crate::relay::cursor::Page;

/// Events of one shard, to be sent in this order. Whatever is left of it when it is dropped counts as
/// [`SendError::Unknown`], and is sent again.
///
/// A sink that does all at once reads [`events`](Self::events) and answers with [`published`](Self::published) or
/// [`unknown`](Self::unknown). One that sends event by event takes them with [`next`](Self::next).
#[must_use = "dropped, its events are sent again"]
pub struct Batch {
    page: Arc<Page>,
    left: Range<usize>,
    /// The number of the first event that is left.
    first: u64,
    lane: u64,
    reports: Arc<Reports>,
}

impl Batch {
    /// The events `range` of a page, the first of which has the number `first` in its lane.
    pub(crate) fn new(page: Arc<Page>, range: Range<usize>, lane: u64, first: u64, reports: &Arc<Reports>) -> Self {
        Self { page, left: range, first, lane, reports: reports.clone() }
    }

    /// The shard that the events are in. Two relays never own one at a time, but a relay that lost it may still believe so.
    #[must_use]
    pub fn shard(&self) -> i64 {
        self.page.shard()
    }

    /// The epoch of the shard's ownership: a later owner has a higher one.
    #[must_use]
    pub fn epoch(&self) -> i64 {
        self.page.epoch()
    }

    /// The events that were not taken yet.
    #[must_use]
    pub fn events(&self) -> &[LoggedEvent] {
        &self.page.events[self.left.clone()]
    }

    /// Takes the next event and the receipt to answer for it with, now or later.
    #[allow(clippy::should_implement_trait, reason = "an iterator could not lend the event")]
    pub fn next(&mut self) -> Option<(&LoggedEvent, Receipt)> {
        let index = self.left.next()?;
        let number = self.first;
        self.first += 1;
        let receipt = Receipt(Some(Ticket { reports: self.reports.clone(), lane: self.lane, number }));
        Some((&self.page.events[index], receipt))
    }

    /// Says that all events that were not taken are durable at the other side.
    pub fn published(mut self) {
        self.answer(Ok(()));
    }

    /// Says that it is not known of the events that were not taken whether they were published.
    pub fn unknown(mut self, reason: impl Into<String>) {
        self.answer(Err(SendError::Unknown { reason: reason.into() }));
    }

    fn answer(&mut self, outcome: Result<(), SendError>) {
        let count = self.left.len() as u64;
        self.left = 0..0;
        if count > 0 {
            self.reports.push(Report { lane: self.lane, first: self.first, count, outcome });
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.left.is_empty() {
            self.answer(Err(SendError::Unknown { reason: "the sink did not send it".into() }));
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Batch").field("shard", &self.shard()).field("left", &self.left).finish_non_exhaustive()
    }
}

/// What a sink answers for one event. Dropped without an answer (a producer that ended before the broker's report, say) it
/// says [`SendError::Unknown`], so that nothing unreported is ever noted as published.
#[must_use = "dropped, the event is sent again"]
pub struct Receipt(Option<Ticket>);

struct Ticket {
    reports: Arc<Reports>,
    lane: u64,
    number: u64,
}

impl Receipt {
    /// The event is durable at the other side.
    pub fn published(mut self) {
        self.answer(Ok(()));
    }

    /// It was not published.
    pub fn failed(mut self, error: SendError) {
        self.answer(Err(error));
    }

    fn answer(&mut self, outcome: Result<(), SendError>) {
        if let Some(Ticket { reports, lane, number }) = self.0.take() {
            reports.push(Report { lane, first: number, count: 1, outcome });
        }
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.answer(Err(SendError::Unknown { reason: "the sink gave no report".into() }));
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Receipt").finish_non_exhaustive()
    }
}

/// An answer for consecutive events of a lane.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) lane: u64,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) outcome: Result<(), SendError>,
}

/// Answers that the relay has not looked at yet. No more than what is in flight.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queue: Mutex<Vec<Report>>,
    some: Notify,
}

impl Reports {
    /// Waits until there are some.
    pub(crate) async fn some(&self) {
        self.some.notified().await;
    }

    /// Whether there are some.
    pub(crate) fn have_some(&self) -> bool {
        !self.queue().is_empty()
    }

    /// Swaps the answers for `empty`, whose memory is used again.
    pub(crate) fn take(&self, empty: Vec<Report>) -> Vec<Report> {
        std::mem::replace(&mut *self.queue(), empty)
    }

    fn push(&self, report: Report) {
        let mut queue = self.queue();
        if let Some(last) = queue.last_mut()
            && last.lane == report.lane
            && last.first + last.count == report.first
            && last.outcome.is_ok()
            && report.outcome.is_ok()
        {
            last.count += report.count;
            return;
        }
        queue.push(report);
        if queue.len() == 1 {
            self.some.notify_one();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Vec<Report>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
