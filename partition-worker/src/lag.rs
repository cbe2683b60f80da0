//! How far a worker is behind, partition by partition.

/// How far a worker is behind in one of its partitions.
///
/// The end of the log is what the Kafka client last heard while it fetched, as its statistics say it; nobody is asked for it. So it
/// is as old as the last fetch: of a partition that is paused it stands still, and the lag with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionLag {
    /// One past the last record that may be read; `None` until the client has heard of it. With `isolation.level =
    /// read_committed`, which is the client's default, records of open transactions are not counted.
    pub end_offset: Option<i64>,
    /// The offset below which everything is finished.
    pub watermark: i64,
    /// Offsets from the watermark to the end: an upper bound of the records that are still to be finished. Offsets have holes, and
    /// finished ones above the watermark are counted as well.
    pub lag: Option<u64>,
    /// Offsets from the watermark to the last delivered record: how much of the log is held up by the oldest unfinished record. A
    /// gap that grows while the lag does not is one slow or failing key.
    pub gap: u64,
    /// Records delivered and not finished.
    pub unfinished: usize,
    /// Runs of offsets finished above the watermark, which are kept in mind until it passes them.
    pub runs_ahead: usize,
}

/// What the worker knows of a partition's progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    pub(crate) watermark: i64,
    /// One past the last delivered record, or the watermark.
    pub(crate) delivered: i64,
    pub(crate) unfinished: usize,
    pub(crate) runs_ahead: usize,
}

impl PartitionLag {
    pub(crate) fn new(position: Position, end_offset: Option<i64>) -> Self {
        let Position { watermark, delivered, unfinished, runs_ahead } = position;
        let span = |end: i64| u64::try_from(end.saturating_sub(watermark)).unwrap_or(0);
        // What was delivered is there, however old the client's news is.
        let end_offset = end_offset.map(|end| end.max(delivered));
        Self { end_offset, watermark, lag: end_offset.map(span), gap: span(delivered), unfinished, runs_ahead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_and_gap_are_measured_from_the_watermark() {
        let position = Position { watermark: 10, delivered: 25, unfinished: 1, runs_ahead: 14 };
        let lag = PartitionLag::new(position, Some(40));
        assert_eq!((lag.lag, lag.gap), (Some(30), 15));
        assert_eq!(PartitionLag::new(position, Some(20)).lag, Some(15), "old news of the end");
        assert_eq!(PartitionLag::new(position, None).lag, None);
    }
}
