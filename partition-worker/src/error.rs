//! What can go wrong.

use std::error::Error as StdError;

use leastlock_core::classify;

#[cfg(feature = "kafka")]
use crate::partition::TopicId;
use crate::partition::TopicPartition;
use crate::sql::WorkerSql;

/// Why a worker could not be built, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the Kafka client contradicts what the worker needs.
    #[error("{setting} = {value} contradicts the worker, which {needs}; remove the setting")]
    Contradiction {
        /// The name of the setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What the worker needs instead.
        needs: &'static str,
    },
    /// A setting is missing or out of its range.
    #[error("{setting} {problem}")]
    Setting {
        /// The name of the setting.
        setting: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A handler failed for good, and its record is neither finished nor skipped. (If it was the commit of the last attempt
    /// that failed, the record may be finished; the next worker's fence finds out.)
    #[error(
        "the handler of {partition} at offset {offset} failed {attempts} times; the worker stopped, and the record \
         will be the first of its key when one starts again"
    )]
    HandlerFailed {
        /// The partition of the record.
        partition: TopicPartition,
        /// The offset of the record.
        offset: i64,
        /// How often the handler was tried.
        attempts: u32,
        /// Its last failure.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The database answered in a way that trying again cannot help.
    #[error("{operation} failed for {partition}; are the tables there (see MIGRATIONS)?")]
    Database {
        /// What was being done.
        operation: &'static str,
        /// The partition that it was done for.
        partition: TopicPartition,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// The topic for failed records does not take this one: it is too large for it, or there is no such topic, or no right to write to
    /// it. The record is neither finished nor skipped, and the worker has stopped.
    #[cfg(feature = "kafka")]
    #[error(
        "the topic {topic} does not take the failed record of {partition} at offset {offset}; make the topic, or give it a \
         max.message.bytes above that of {}, since a copy has more headers", .partition.topic()
    )]
    NotTaken {
        /// The partition of the record.
        partition: TopicPartition,
        /// The offset of the record.
        offset: i64,
        /// The topic for failed records.
        topic: String,
        /// What the Kafka client said.
        #[source]
        source: Box<rdkafka::error::KafkaError>,
    },
    /// The tables of parked records could not be read or written.
    #[error("{operation} failed; are the tables there (see MIGRATIONS)?")]
    Parked {
        /// What was being done.
        operation: &'static str,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// Who asks for something to be done with parked records has to say who and why: `actor` of 1 to 255 bytes, `reason` of 1 to 4,000.
    #[error("actor must have 1 to 255 bytes and reason 1 to 4,000, since the audit keeps both")]
    Unaccounted,
    /// A topic was deleted and made anew. What is known to be finished are records of the earlier one, so going on would skip
    /// records of this one silently. [`Progress::rebase`](crate::Progress::rebase) says, for each of its partitions, where to
    /// go on; a worker [without a database](crate::Effect::at_least_once) only has to be started again.
    #[cfg(feature = "kafka")]
    #[error(
        "the topic {topic} was deleted and made anew (its id was {known} and is {found}), so what is finished is of another \
         topic; nothing is skipped silently, so the worker stopped; Progress::rebase says where to go on"
    )]
    TopicMadeAnew {
        /// The topic.
        topic: String,
        /// The one that the group has worked on.
        known: TopicId,
        /// The one that is there now.
        found: TopicId,
    },
    /// The log of a partition does not have the offset that is next: records were deleted before they were handled, or the topic
    /// was made anew. [`Progress::rebase`](crate::Progress::rebase) says where to go on.
    #[cfg(feature = "kafka")]
    #[error(
        "offset {next_offset} is next in {partition}, and its log has only those from {log_start} to {log_end}; nothing is \
         skipped silently, so the worker stopped; Progress::rebase says where to go on"
    )]
    OutsideOfLog {
        /// The partition.
        partition: TopicPartition,
        /// Everything below is finished.
        next_offset: i64,
        /// The first offset of the log.
        log_start: i64,
        /// The one past its last.
        log_end: i64,
    },
    /// A stored offset left the partition's log while the worker ran: records were deleted before they were handled, or the topic
    /// was made anew. Going on would skip records silently.
    #[cfg(feature = "kafka")]
    #[error("a stored offset is outside of its partition's log; nothing is skipped silently, so the worker stopped")]
    OffsetOutOfRange {
        /// What the Kafka client said.
        #[source]
        source: rdkafka::error::KafkaError,
    },
    /// A handler ran for longer than [`stall_after`](crate::Builder::stall_after), and
    /// [`OnStall::LeaveGroup`](crate::OnStall::LeaveGroup) is set: the worker has left the group.
    #[cfg(feature = "kafka")]
    #[error("the handler of {partition} at offset {offset} has run for {running_for:?}; the worker left the group")]
    Stalled {
        /// The partition of its record.
        partition: TopicPartition,
        /// The offset of its record.
        offset: i64,
        /// For how long it had run.
        running_for: std::time::Duration,
    },
    /// Another member has joined the group under this worker's `group.instance.id`, so this one is no member any more.
    #[cfg(feature = "kafka")]
    #[error("another member has joined with the same group.instance.id; give each worker its own")]
    FencedInstance {
        /// What the Kafka client said.
        #[source]
        source: rdkafka::error::KafkaError,
    },
    /// The Kafka client refused or gave up.
    #[cfg(feature = "kafka")]
    #[error("the Kafka client failed while {operation}")]
    Kafka {
        /// What was being done.
        operation: &'static str,
        /// What it said.
        #[source]
        source: rdkafka::error::KafkaError,
    },
    /// The thread that polls Kafka ended before it was told to.
    #[error("the polling thread ended unexpectedly; this is a defect, please report it")]
    PollingThreadEnded,
}

impl Error {
    /// Whether starting the worker again, as it is, can help.
    #[must_use]
    pub fn is_retryable<DB: WorkerSql>(&self) -> bool {
        match self {
            Self::HandlerFailed { .. } => true,
            Self::Database { source, .. } | Self::Parked { source, .. } => classify::<DB>(source).is_retryable(),
            #[cfg(feature = "kafka")]
            Self::Kafka { .. } | Self::Stalled { .. } => true,
            _ => false,
        }
    }
}
