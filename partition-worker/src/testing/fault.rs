//! What can happen to a worker, and how a test fails.

use std::fmt;

use crate::error::Error;
use crate::partition::TopicPartition;

/// What can happen to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// A partition is taken back, and given to this worker or another.
    Revoked,
    /// A partition is lost without a chance to commit, and given to this worker or another.
    Lost,
    /// Another worker gets a partition whose owner does not hear of it, and goes on.
    Stolen,
    /// Records are delivered again that were delivered before.
    Redelivered,
    /// A worker ends without a word, wherever it is.
    Crashed,
    /// A worker ends as its handler is called.
    CrashBeforeHandler,
    /// A worker ends when its handler has done its work, and nothing is committed.
    CrashBeforeCommit,
    /// A worker ends right after a commit, before it knows of it.
    CrashAfterCommit,
    /// The connection is lost when the handler has done its work; with the effect in a database only.
    ConnectionLost,
    /// A commit succeeds, and its reply is lost; with the effect in a database only.
    LostReply,
}

impl Fault {
    pub(super) const ALL: [Self; 10] = [
        Self::Revoked,
        Self::Lost,
        Self::Stolen,
        Self::Redelivered,
        Self::Crashed,
        Self::CrashBeforeHandler,
        Self::CrashBeforeCommit,
        Self::CrashAfterCommit,
        Self::ConnectionLost,
        Self::LostReply,
    ];
}

/// What a round was like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Under {
    /// The seed of the round; `None` for the one without faults.
    pub seed: Option<u64>,
    /// The faults so far.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Under {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seed {
            Some(seed) => write!(f, "with seed {seed} and the faults {:?}", self.faults),
            None => f.write_str("without faults"),
        }
    }
}

/// How a test fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The end is another than without faults.
    #[error("{under} the end is {found}, and without faults it is {expected}")]
    Differs {
        /// The round.
        under: Under,
        /// The end without faults.
        expected: String,
        /// The end with them.
        found: String,
    },
    /// A worker could not be built, or ended by itself.
    #[error("{under} a worker ended")]
    Worker {
        /// The round.
        under: Under,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// It took more than a minute.
    #[error("{under} it took too long for {what}")]
    NotInTime {
        /// What was waited for.
        what: &'static str,
        /// The round.
        under: Under,
    },
    /// A record was to have a place that the log is past.
    #[error("the log of {partition} is at or past offset {offset} already")]
    Place {
        /// The partition.
        partition: TopicPartition,
        /// The offset.
        offset: i64,
    },
}
