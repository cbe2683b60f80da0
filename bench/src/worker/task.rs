//! What a child process is told, and what it answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Way;
use super::topic::Topic;

/// What a child has to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) way: Way,
    pub(super) brokers: String,
    pub(super) topic: String,
    /// The consumer group.
    pub(super) group: String,
    pub(super) partitions: i32,
    pub(super) concurrency: usize,
    /// The worker's limit of records of a partition, if it is not to be the library's.
    pub(super) held: Option<usize>,
    pub(super) work: Work,
}

/// What is done with a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Work {
    /// Sleep, until all records are done or the time is over.
    Sleep { records: u64, time: Duration, sleep: Duration, blocked: Option<Blocked> },
    /// Update a row, likewise.
    Row { records: u64, time: Duration, url: String },
    /// An effect that can be judged afterwards, until the parent hangs up.
    Soak { url: String, process: i64, session: Duration, protocol: Protocol },
}

/// Keys whose next record stands still for a while.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Blocked {
    /// Those with a number below this.
    pub(super) keys: u64,
    /// From so long after the first record on.
    pub(super) after: Duration,
    /// For so long.
    pub(super) time: Duration,
}

/// How the members of a group share partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// All partitions are taken back and dealt out anew.
    Eager,
    /// `partition.assignment.strategy=cooperative-sticky`.
    Cooperative,
    /// `group.protocol=consumer`, in which the broker assigns.
    Consumer,
}

/// What a child has measured.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) records: u64,
    /// From the first record on.
    pub(super) seconds: f64,
    /// Processor time of the process, from the first record on.
    pub(super) cpu_seconds: f64,
    pub(super) peak_mib: f64,
    /// From poll to done.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
    /// Records of other keys a second, before some keys stood still and while they did.
    pub(super) before: Option<f64>,
    pub(super) during: Option<f64>,
}

impl Task {
    /// A task for a group of its own.
    pub(super) fn new(way: Way, topic: &Topic, concurrency: usize, work: Work) -> Self {
        Self {
            way,
            brokers: topic.brokers.clone(),
            topic: topic.name.clone(),
            group: format!("bench-{}", uuid::Uuid::new_v4().simple()),
            partitions: topic.records.partitions,
            concurrency,
            held: None,
            work,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of records are far below 2^53")]
impl Measured {
    pub(super) fn per_second(&self) -> f64 {
        self.records as f64 / self.seconds
    }

    pub(super) fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.records as f64
    }
}
