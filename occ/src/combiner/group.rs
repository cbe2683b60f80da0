//! The operations of one transaction, with the callers that wait for them.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::batch::Batch;
use super::error::{BatchError, CombineError};
use super::queue::{Queued, Reply};
use crate::measure;

/// A batch and where its answers go.
pub(super) struct Group<O, A> {
    pub(super) batch: Batch<O, A>,
    callers: Vec<Caller<A>>,
    /// Attempts that were rolled back since the group was made or split.
    pub(super) failed: u32,
    /// How many of these, the last ones, were raced.
    pub(super) raced: u32,
    /// How often it was split because somebody else's lock was waited for in vain: each time, both halves share the wait that
    /// the whole had.
    pub(super) halvings: u32,
}

/// Who waits for an answer, and what became of the operation before.
struct Caller<A> {
    reply: oneshot::Sender<Reply<A>>,
    /// How often the operation was tried alone before it was set aside.
    tried: u32,
    /// An earlier commit of the operation may have taken effect: it is applied again because repeats are absorbed, and no later
    /// failure proves that it was not applied.
    is_doubtful: bool,
}

impl<O, A> Group<O, A> {
    pub(super) fn of(queued: impl IntoIterator<Item = Queued<O, A>>) -> Self {
        Self::made_of(queued.into_iter().map(|queued| {
            queued.waiting.end();
            (queued.operation, Caller { reply: queued.reply, tried: 0, is_doubtful: false })
        }))
    }

    fn made_of(parts: impl IntoIterator<Item = (O, Caller<A>)>) -> Self {
        let (operations, callers) = parts.into_iter().unzip();
        Self { batch: Batch::of(operations), callers, failed: 0, raced: 0, halvings: 0 }
    }

    /// Operations of several groups in one, in this order.
    pub(super) fn joined(groups: impl IntoIterator<Item = Self>) -> Self {
        Self::made_of(groups.into_iter().flat_map(|mut group| group.take()))
    }

    pub(super) fn len(&self) -> usize {
        self.callers.len()
    }

    /// How often this was tried: as a group, and before that each of its operations alone.
    pub(super) fn attempts(&self) -> u32 {
        self.failed + self.callers.iter().map(|caller| caller.tried).max().unwrap_or(0)
    }

    /// Whether it was tried as often as `limit` allows. What one operation has behind it does not count against the others.
    pub(super) fn is_used_up(&self, limit: u32) -> bool {
        limit <= if self.len() == 1 { self.attempts() } else { self.failed }
    }

    /// Makes ready for an attempt; callers that have gone away are left out. Answers whether anybody is left.
    pub(super) fn prepare(&mut self) -> bool {
        if self.callers.iter().any(|caller| caller.reply.is_closed()) {
            let left: Vec<_> = self.take().filter(|(_, caller)| !caller.reply.is_closed()).collect();
            *self = Self { failed: self.failed, raced: self.raced, halvings: self.halvings, ..Self::made_of(left) };
        }
        self.batch.forget(self.attempts() + 1);
        !self.callers.is_empty()
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
        [earlier, later].map(|half| Self { halvings: self.halvings, ..Self::made_of(half) })
    }

    /// As [`split`](Self::split), of a group that has waited for somebody else's lock.
    pub(super) fn split_sharing_the_wait(mut self) -> [Self; 2] {
        self.halvings += 1;
        self.split()
    }

    /// Made ready to wait until others have had their turn; what it was tried so far counts on.
    pub(super) fn set_aside(mut self) -> Self {
        let failed = self.failed;
        Self::made_of(self.take().map(|(operation, caller)| {
            let tried = caller.tried + failed;
            (operation, Caller { tried, ..caller })
        }))
    }

    /// After a commit of unknown fate: the operations that absorb repeats, to be applied again. The others are told that
    /// nothing is known.
    pub(super) fn doubt(mut self, absorbs_repeats: impl Fn(&O) -> bool) -> Self {
        let (failed, halvings) = (self.failed, self.halvings);
        let (kept, others): (Vec<_>, Vec<_>) = self.take().partition(|(operation, _)| absorbs_repeats(operation));
        Self::made_of(others).fail(&CombineError::Unknown);
        let kept = kept.into_iter().map(|(operation, caller)| (operation, Caller { is_doubtful: true, ..caller }));
        Self { failed: failed + 1, halvings, ..Self::made_of(kept) }
    }

    /// Tells every caller its answer.
    pub(super) fn answer(self) {
        for (caller, answer) in self.callers.into_iter().zip(self.batch.into_answers()) {
            // That every operation is answered was checked before the commit; the caller may have gone away.
            let _ = caller.reply.send(answer.ok_or(CombineError::Unknown));
        }
    }

    /// Tells every caller that it has none.
    pub(super) fn fail(self, error: &CombineError) {
        for caller in self.callers {
            let error = if caller.is_doubtful { &CombineError::Unknown } else { error };
            measure::unanswered(1, error);
            let _ = caller.reply.send(Err(error.clone()));
        }
    }

    pub(super) fn fail_because(self, error: BatchError) {
        let attempts = if self.len() == 1 { self.attempts() } else { self.failed };
        self.fail(&CombineError::Failed { attempts, source: Arc::new(error) });
    }

    fn take(&mut self) -> impl Iterator<Item = (O, Caller<A>)> + use<O, A> {
        let batch = std::mem::replace(&mut self.batch, Batch::of(Vec::new()));
        batch.into_operations().into_iter().zip(std::mem::take(&mut self.callers))
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

    #[tokio::test]
    async fn what_was_set_aside_is_joined_in_its_order_and_counts_on_alone_only() {
        let ([one, two], mut pending) = {
            let (group, pending) = group(1..=2);
            (group.split(), pending)
        };
        let mut aside = Vec::new();
        for (mut alone, times) in [(one, 3), (two, 1)] {
            for _ in 0..times {
                alone.failed_because(&BatchError::TimedOut);
            }
            aside.push(alone.set_aside());
        }
        let mut joined = Group::joined(aside);
        assert!(joined.prepare());
        assert_eq!((joined.batch.operations(), joined.batch.attempt()), (&[1, 2][..], 4));
        joined.failed_because(&BatchError::TimedOut);
        assert!(!joined.is_used_up(2), "what one has behind it does not count against the other");
        let [mut one, mut two] = joined.split_sharing_the_wait();
        assert_eq!((one.halvings, two.halvings), (1, 1));
        for alone in [&mut one, &mut two] {
            alone.failed_because(&BatchError::TimedOut);
        }
        assert!(one.is_used_up(4) && !two.is_used_up(4));
        one.fail_because(BatchError::TimedOut);
        let failed = pending.remove(0).await.expect_err("it was tried so often");
        assert!(matches!(failed, CombineError::Failed { attempts: 4, .. }), "{failed:?}");
    }
}
