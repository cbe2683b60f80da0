//! The operations that one transaction applies, and their answers.

/// Operations in the order of their arrival, each with a place for its answer.
#[derive(Debug)]
pub struct Batch<O, A> {
    operations: Vec<O>,
    answers: Vec<Option<A>>,
    attempt: u32,
    transaction: Option<String>,
    wrote_nothing: bool,
    known_to_be_open: bool,
}

impl<O, A> Batch<O, A> {
    /// A batch of these operations, in this order, at its first attempt. Combiners make their own; this is for tests of an
    /// [`Apply`](super::Apply).
    #[must_use]
    pub fn of(operations: Vec<O>) -> Self {
        let answers = operations.iter().map(|_| None).collect();
        Self { operations, answers, attempt: 1, transaction: None, wrote_nothing: false, known_to_be_open: false }
    }

    /// The operations, in the order of their arrival; never empty.
    #[must_use]
    pub fn operations(&self) -> &[O] {
        &self.operations
    }

    /// How often this batch has been begun, from 1; after operations were tried alone and joined again, one more than any of them was.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Answers the operation at `index`. It is told only after the commit. Answering again replaces the answer.
    ///
    /// # Panics
    /// When there is no operation at `index`.
    pub fn answer(&mut self, index: usize, answer: A) {
        self.answers[index] = Some(answer);
    }

    /// Answers all operations, in their order.
    ///
    /// # Panics
    /// When there are not as many answers as operations.
    pub fn answer_all(&mut self, answers: impl IntoIterator<Item = A>) {
        self.answer_each(answers);
        assert_eq!(self.answers.len(), self.operations.len(), "every operation has one answer");
    }

    /// Whatever operations were applied without an answer have none.
    pub(super) fn answer_each(&mut self, answers: impl IntoIterator<Item = A>) {
        self.answers = answers.into_iter().map(Some).collect();
    }

    /// The answer given to the operation at `index`.
    #[must_use]
    pub fn answered(&self, index: usize) -> Option<&A> {
        self.answers.get(index).and_then(Option::as_ref)
    }

    /// Names the transaction, as [`CombinerSql::TRANSACTION`](super::CombinerSql::TRANSACTION) answers it, so that a commit
    /// whose reply is lost can be looked up. Without it the combiner asks in a statement of its own, which costs one round
    /// trip; so an [`Apply`](super::Apply) that asks in one of its statements does so in its *last*, which also proves
    /// that no earlier one left the transaction aborted.
    pub fn name_transaction(&mut self, transaction: String) {
        self.transaction = Some(transaction);
    }

    /// Says that the transaction did nothing that a commit would make last: it is rolled back, which costs no write to disk, and the
    /// answers stand. Nobody else says so: a transaction without a name may still have something to commit.
    pub fn wrote_nothing(&mut self) {
        self.wrote_nothing = true;
    }

    /// Says that no error was passed over, so that nothing can have ended the transaction unseen.
    pub(crate) fn is_still_open(&mut self) {
        self.known_to_be_open = true;
    }

    pub(super) const fn is_known_to_be_open(&self) -> bool {
        self.known_to_be_open
    }

    pub(super) const fn has_written(&self) -> bool {
        !self.wrote_nothing
    }

    pub(super) fn transaction(&self) -> Option<&str> {
        self.transaction.as_deref()
    }

    pub(super) fn unanswered(&self) -> Option<usize> {
        self.answers.iter().position(Option::is_none)
    }

    /// Forgets what an attempt that was rolled back left behind.
    pub(super) fn forget(&mut self, attempt: u32) {
        self.answers.iter_mut().for_each(|answer| *answer = None);
        self.attempt = attempt;
        self.transaction = None;
        self.wrote_nothing = false;
        self.known_to_be_open = false;
    }

    pub(super) fn into_operations(self) -> Vec<O> {
        self.operations
    }

    pub(super) fn into_answers(self) -> Vec<Option<A>> {
        self.answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_leaves_nothing_to_the_next() {
        let mut batch: Batch<u8, u8> = Batch::of(vec![1, 2]);
        assert_eq!((batch.attempt(), batch.unanswered()), (1, Some(0)));
        batch.answer_all([10, 20]);
        batch.name_transaction("7".to_owned());
        batch.wrote_nothing();
        assert_eq!((batch.unanswered(), batch.transaction(), batch.has_written()), (None, Some("7"), false));
        batch.forget(2);
        assert_eq!((batch.attempt(), batch.unanswered(), batch.transaction()), (2, Some(0), None));
        assert!(batch.has_written());
        assert_eq!(batch.into_operations(), [1, 2]);
    }
}
