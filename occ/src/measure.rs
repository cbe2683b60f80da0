//! Where the figures are taken. Without the feature `metrics` nothing in here does or keeps anything, so that what calls it
//! reads the same with it and without.

#![cfg_attr(
    not(feature = "metrics"),
    allow(unused_variables, clippy::unused_self, clippy::trivially_copy_pass_by_ref, reason = "nothing is measured")
)]

use std::future::Future;
#[cfg(feature = "metrics")]
use std::time::Instant;

#[cfg(feature = "metrics")]
use ::metrics::{Gauge, counter, gauge, histogram};
use leastlock_core::Dialect;
#[cfg(feature = "metrics")]
use leastlock_core::{ErrorClass, classify};

use crate::combiner::{BatchError, CombineError};
#[cfg(feature = "metrics")]
use crate::error::Error;
#[cfg(feature = "metrics")]
use crate::metrics as names;
use crate::retry::ConflictClass;

/// A unit of work that a retry runs. One that has begun and is not ended when it is dropped was dropped by its caller.
#[derive(Debug, Default)]
pub(crate) struct UnitOfWork {
    #[cfg(feature = "metrics")]
    begun: Option<Instant>,
}

/// The limit at which a unit of work was given up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    Attempts,
    Time,
}

impl UnitOfWork {
    pub(crate) fn attempted(&mut self) {
        #[cfg(feature = "metrics")]
        {
            self.begun.get_or_insert_with(Instant::now);
            counter!(names::OCC_RETRY_ATTEMPTS_TOTAL).increment(1);
        }
    }

    pub(crate) fn committed(&mut self) {
        self.ended("committed");
    }

    pub(crate) fn failed(&mut self) {
        self.ended("failed");
    }

    pub(crate) fn exhausted(&mut self, limit: Limit) {
        #[cfg(feature = "metrics")]
        {
            let limit = match limit {
                Limit::Attempts => "attempts",
                Limit::Time => "time",
            };
            counter!(names::OCC_RETRY_EXHAUSTED_TOTAL, "limit" => limit).increment(1);
        }
        self.ended("exhausted");
    }

    fn ended(&mut self, outcome: &'static str) {
        #[cfg(feature = "metrics")]
        if let Some(begun) = self.begun.take() {
            histogram!(names::OCC_RETRY_UNIT_SECONDS, "outcome" => outcome).record(begun.elapsed());
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for UnitOfWork {
    fn drop(&mut self) {
        self.ended("dropped");
    }
}

/// An attempt at a unit of work met a conflict, and another one is made.
pub(crate) fn unit_retried(class: ConflictClass) {
    #[cfg(feature = "metrics")]
    counter!(names::OCC_RETRY_RETRIES_TOTAL, "class" => class.name()).increment(1);
}

/// An operation that waits for its batch, for as long as this lives.
pub(crate) struct Waiting {
    // The same recorder is told of the beginning and of the end.
    #[cfg(feature = "metrics")]
    gauge: Option<Gauge>,
}

impl Waiting {
    pub(crate) fn begin() -> Self {
        #[cfg(feature = "metrics")]
        {
            let gauge = gauge!(names::OCC_COMBINER_QUEUE_OPERATIONS);
            gauge.increment(1);
            Self { gauge: Some(gauge) }
        }
        #[cfg(not(feature = "metrics"))]
        Self {}
    }

    pub(crate) fn end(mut self) {
        self.leave();
    }

    fn leave(&mut self) {
        #[cfg(feature = "metrics")]
        if let Some(gauge) = self.gauge.take() {
            gauge.decrement(1);
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Waiting {
    fn drop(&mut self) {
        self.leave();
    }
}

/// An attempt at a batch.
pub(crate) struct BatchAttempt {
    #[cfg(feature = "metrics")]
    begun: Instant,
}

impl BatchAttempt {
    pub(crate) fn begin() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            begun: Instant::now(),
        }
    }

    pub(crate) fn committed(self) {
        #[cfg(feature = "metrics")]
        histogram!(names::OCC_COMBINER_BATCH_SECONDS).record(self.begun.elapsed());
    }
}

/// Operations were taken from the queue together.
pub(crate) fn batch_taken(operations: usize) {
    #[cfg(feature = "metrics")]
    #[expect(clippy::cast_precision_loss, reason = "a batch is far smaller than 2^52")]
    histogram!(names::OCC_COMBINER_BATCH_OPERATIONS).record(operations as f64);
}

/// Waits for a `COMMIT`.
pub(crate) async fn commit<F: Future>(committing: F) -> F::Output {
    #[cfg(feature = "metrics")]
    let begun = Instant::now();
    let output = committing.await;
    #[cfg(feature = "metrics")]
    histogram!(names::OCC_COMBINER_COMMIT_SECONDS).record(begun.elapsed());
    output
}

/// A batch that was rolled back is applied once more.
pub(crate) fn batch_retried<DB: Dialect>(because: &BatchError) {
    #[cfg(feature = "metrics")]
    counter!(names::OCC_COMBINER_RETRIES_TOTAL, "class" => class_of::<DB>(because)).increment(1);
}

/// Those operations of a batch that absorb a repeat are applied once more, since nobody knows of the first time.
pub(crate) fn batch_repeated(operations: usize) {
    #[cfg(feature = "metrics")]
    if operations > 0 {
        counter!(names::OCC_COMBINER_RETRIES_TOTAL, "class" => "reply_lost").increment(1);
    }
}

/// A batch was split in two.
pub(crate) fn batch_split() {
    #[cfg(feature = "metrics")]
    counter!(names::OCC_COMBINER_SPLITS_TOTAL).increment(1);
}

/// Operations were told that they have no answer.
pub(crate) fn unanswered(operations: usize, because: &CombineError) {
    #[cfg(feature = "metrics")]
    if because.is_unknown() && operations > 0 {
        counter!(names::OCC_COMBINER_UNKNOWN_TOTAL).increment(u64::try_from(operations).unwrap_or(u64::MAX));
    }
}

#[cfg(feature = "metrics")]
fn class_of<DB: Dialect>(error: &BatchError) -> &'static str {
    let class = match error {
        BatchError::Database { source } => classify::<DB>(source),
        BatchError::Checked { source: Error::Database { class, .. } } => *class,
        BatchError::Raced => return "raced",
        BatchError::TimedOut => return "attempt_timeout",
        _ => return "other",
    };
    match class {
        ErrorClass::SerializationFailure => "serialization_failure",
        ErrorClass::Deadlock => "deadlock",
        ErrorClass::Busy => "busy",
        ErrorClass::LockTimeout => "lock_timeout",
        ErrorClass::StatementTimeout => "statement_timeout",
        ErrorClass::ConnectionLost => "connection_lost",
        ErrorClass::PoolTimeout => "pool_timeout",
        ErrorClass::Unavailable => "unavailable",
        _ => "other",
    }
}

#[cfg(all(test, not(feature = "metrics")))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_when_nothing_is_measured() {
        assert_eq!((size_of::<UnitOfWork>(), size_of::<Waiting>(), size_of::<BatchAttempt>()), (0, 0, 0));
        assert!(!std::mem::needs_drop::<UnitOfWork>() && !std::mem::needs_drop::<Waiting>());
    }
}
