//! What has waited in vain, until others have had their turn.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::error::CombineError;
use super::group::Group;

/// Operations that were tried alone and waited in vain for somebody else's lock, or took too long. They are tried again
/// together, in the order of their arrival, after what has arrived since.
pub(super) struct Aside<O, A> {
    groups: VecDeque<Group<O, A>>,
    due: Option<Instant>,
    limit: usize,
}

impl<O, A> Aside<O, A> {
    pub(super) const fn new(limit: usize) -> Self {
        Self { groups: VecDeque::new(), due: None, limit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.groups.len() >= self.limit
    }

    /// When the next ones are to be tried again.
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(super) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| due <= Instant::now())
    }

    /// Keeps an operation for at least `pause`, or until those that were here before are due.
    pub(super) fn put(&mut self, alone: Group<O, A>, pause: Duration) {
        self.due.get_or_insert_with(|| Instant::now() + pause);
        self.groups.push_back(alone.set_aside());
    }

    /// Those that have been here longest, up to a batch. What is left is due at once, after what arrives meanwhile.
    pub(super) fn take(&mut self, max_batch: usize) -> Group<O, A> {
        let batch = Group::joined(self.groups.drain(..self.groups.len().min(max_batch)));
        self.due = (!self.groups.is_empty()).then(Instant::now);
        batch
    }

    pub(super) fn fail(&mut self, error: &CombineError) {
        self.due = None;
        self.groups.drain(..).for_each(|group| group.fail(error));
    }
}
