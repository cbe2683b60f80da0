//! The operations of one transaction, with the callers that wait for them.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::batch::Batch;
use super::error::{BatchError, CombineError};
use super::queue::{Queued, Reply};
use crate::measure::{self, Waiting};

/// A batch and where its answers go.
pub(super) struct Group<O, A> {
    pub(super) batch: Batch<O, A>,
    replies: Vec<oneshot::Sender<Reply<A>>>,
    /// Attempts that were rolled back since the group was made or split.
    pub(super) failed: u32,
    /// How many of these, the last ones, were raced.
    pub(super) raced: u32,
    /// An earlier commit of these operations may have taken effect: they are applied again because repeats are absorbed, and
    /// no later failure proves that they were not applied.
    is_doubtful: bool,
}

impl<O, A> Group<O, A> {
    pub(super) fn of(queued: impl IntoIterator<Item = Queued<O, A>>) -> Self {
        let parts = |queued: Queued<O, A>| {
            queued.waiting.end();
            (queued.operation, queued.reply)
        };
        let (operations, replies) = queued.into_iter().map(parts).unzip();
        Self { batch: Batch::of(operations), replies, failed: 0, raced: 0, is_doubtful: false }
    }

    pub(super) fn len(&self) -> usize {
        self.replies.len()
    }

    /// Makes ready for an attempt; callers that have gone away are left out. Answers whether anybody is left.
    pub(super) fn prepare(&mut self) -> bool {
        if self.replies.iter().any(oneshot::Sender::is_closed) {
            let (failed, raced, is_doubtful) = (self.failed, self.raced, self.is_doubtful);
            *self = Self::of(self.take().filter(|queued| !queued.reply.is_closed()));
            (self.failed, self.raced, self.is_doubtful) = (failed, raced, is_doubtful);
        }
        self.batch.forget(self.failed + 1);
        !self.replies.is_empty()
    }

    /// Learns of an attempt that was rolled back.
    pub(super) const fn failed_because(&mut self, error: &BatchError) {
        self.failed += 1;
        self.raced = if matches!(error, BatchError::Raced) { self.raced + 1 } else { 0 };
    }

    /// The earlier half and the later half.
    pub(super) fn split(mut self) -> [Self; 2] {
        let mut earlier: Vec<_> = self.take().collect();
        let later = earlier.split_off(earlier.len() / 2);
        [earlier, later].map(|half| Self { is_doubtful: self.is_doubtful, ..Self::of(half) })
    }

    /// After a commit of unknown fate: the operations that absorb repeats, to be applied again. The others are told that
    /// nothing is known.
    pub(super) fn doubt(mut self, absorbs_repeats: impl Fn(&O) -> bool) -> Self {
        let failed = self.failed;
        let (kept, others): (Vec<_>, Vec<_>) = self.take().partition(|queued| absorbs_repeats(&queued.operation));
        Self::of(others).fail(&CombineError::Unknown);
        Self { failed: failed + 1, is_doubtful: true, ..Self::of(kept) }
    }

    /// Tells every caller its answer.
    pub(super) fn answer(self) {
        for (reply, answer) in self.replies.into_iter().zip(self.batch.into_answers()) {
            // That every operation is answered was checked before the commit; the caller may have gone away.
            let _ = reply.send(answer.ok_or(CombineError::Unknown));
        }
    }

    /// Tells every caller that it has none.
    pub(super) fn fail(self, error: &CombineError) {
        let error = if self.is_doubtful { &CombineError::Unknown } else { error };
        measure::unanswered(self.len(), error);
        for reply in self.replies {
            let _ = reply.send(Err(error.clone()));
        }
    }

    pub(super) fn fail_because(self, error: BatchError) {
        let attempts = self.failed;
        self.fail(&CombineError::Failed { attempts, source: Arc::new(error) });
    }

    fn take(&mut self) -> impl Iterator<Item = Queued<O, A>> + use<O, A> {
        let batch = std::mem::replace(&mut self.batch, Batch::of(Vec::new()));
        let replies = std::mem::take(&mut self.replies);
        let queued = |(operation, reply)| Queued { operation, reply, waiting: Waiting::over() };
        batch.into_operations().into_iter().zip(replies).map(queued)
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::Pending;
    use super::*;

    fn group(operations: impl IntoIterator<Item = u32>) -> (Group<u32, u32>, Vec<Pending<u32>>) {
        let (queued, pending): (Vec<_>, Vec<_>) = operations.into_iter().map(Queued::new).unzip();
        (Group::of(queued), pending)
    }

    #[tokio::test]
    async fn split_groups_keep_the_order_and_each_caller_its_own_answer() {
        let (group, pending) = group(1..=5);
        for mut half in group.split() {
            assert!(half.prepare());
            let answers: Vec<_> = half.batch.operations().iter().map(|operation| operation * 10).collect();
            half.batch.answer_all(answers);
            half.answer();
        }
        for (pending, expected) in pending.into_iter().zip([10, 20, 30, 40, 50]) {
            assert_eq!(pending.await.expect("an answer"), expected);
        }
    }

    #[tokio::test]
    async fn whoever_has_gone_away_is_left_out_of_the_next_attempt() {
        let (mut group, mut pending) = group(1..=3);
        drop(pending.remove(1));
        assert!(group.prepare());
        assert_eq!(group.batch.operations(), [1, 3]);
        pending.clear();
        assert!(!group.prepare());
    }

    #[tokio::test]
    async fn a_commit_in_doubt_is_never_reported_as_not_applied() {
        let (group, mut pending) = group(1..=3);
        let again = group.doubt(|operation| *operation >= 2);
        assert_eq!((again.failed, again.batch.operations()), (1, &[2, 3][..]));
        assert!(pending.remove(0).await.expect_err("nothing is known").is_unknown());
        for mut half in again.split() {
            assert!(half.prepare());
            half.fail(&CombineError::Closed);
        }
        for pending in pending {
            assert!(pending.await.expect_err("it may have been applied at first").is_unknown());
        }
    }
}
