//! When a partition is paused, and when it goes on. Pure: no I/O, no clock.

use std::collections::HashMap;

use crate::partition::TopicPartition;

/// How much a worker holds at most. A record counts from its delivery until its handler is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Records of one partition. Default: 10,000: half of it has to last for as long as a fetch takes after a pause.
    pub records_per_partition: usize,
    /// Records in all. Default: 50,000.
    pub records: usize,
    /// Bytes of records in all. Default: 64 MiB.
    pub bytes: usize,
    /// Runs of finished offsets of one partition that unfinished records keep from being committed. However many records
    /// are finished behind one that is not, they are one run. Default: 50,000.
    pub finished_ahead: usize,
    /// With the effect in a database: finished records of one partition that have a row there, each until it is
    /// [folded](crate::Progress::fold), which records before it that are not finished put off. Whoever takes the partition over reads them
    /// all. Default: 50,000, which is a small part of the time that a seal has.
    pub finished_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            records_per_partition: 10_000,
            records: 50_000,
            bytes: 64 << 20,
            finished_ahead: 50_000,
            finished_rows: 50_000,
        }
    }
}

/// Back-pressure: a partition is paused when a limit is reached, and goes on once less than half of it is in use.
///
/// The distance matters: a pause makes librdkafka drop what it has fetched ahead, so frequent changes cost fetches.
#[derive(Debug)]
pub struct Flow {
    limits: Limits,
    partitions: HashMap<TopicPartition, Usage>,
    records: usize,
    bytes: usize,
    all_held: bool,
}

#[derive(Debug, Default)]
struct Usage {
    records: usize,
    finished_ahead: usize,
    finished_rows: usize,
    assigned: bool,
    paused: bool,
}

/// What to tell the consumer.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "a partition that is not resumed stands still for ever"]
pub struct Change {
    /// To pause.
    pub pause: Vec<TopicPartition>,
    /// To resume.
    pub resume: Vec<TopicPartition>,
}

impl Flow {
    /// Nothing held yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, partitions: HashMap::new(), records: 0, bytes: 0, all_held: false }
    }

    /// The partition is assigned, and not paused: a pause from an earlier assignment has been cleared.
    pub fn assigned(&mut self, partition: &TopicPartition) {
        let usage = self.partitions.entry(partition.clone()).or_default();
        usage.assigned = true;
        usage.paused = false;
        usage.finished_ahead = 0;
        usage.finished_rows = 0;
    }

    /// The partition is not assigned any more; what still runs keeps counting.
    pub fn unassigned(&mut self, partition: &TopicPartition) {
        if let Some(usage) = self.partitions.get_mut(partition) {
            usage.assigned = false;
        }
        self.forget_unused(partition);
    }

    /// A record was delivered.
    pub fn taken(&mut self, partition: &TopicPartition, bytes: usize) {
        self.partitions.entry(partition.clone()).or_default().records += 1;
        self.records += 1;
        self.bytes += bytes;
    }

    /// A record is done with, or was dropped.
    pub fn released(&mut self, partition: &TopicPartition, bytes: usize) {
        if let Some(usage) = self.partitions.get_mut(partition) {
            usage.records = usage.records.saturating_sub(1);
        }
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.forget_unused(partition);
    }

    /// How many runs of finished offsets of a partition stand above its watermark.
    pub fn finished_ahead(&mut self, partition: &TopicPartition, count: usize) {
        if let Some(usage) = self.partitions.get_mut(partition) {
            usage.finished_ahead = count;
        }
    }

    /// How many finished records of a partition have a row in the database.
    pub fn finished_rows(&mut self, partition: &TopicPartition, count: usize) {
        if let Some(usage) = self.partitions.get_mut(partition) {
            usage.finished_rows = count;
        }
    }

    /// What has to change since the last call.
    pub fn change(&mut self) -> Change {
        let limits = self.limits;
        let in_use =
            |used: usize, limit: usize| if used >= limit { Some(true) } else { (used * 2 > limit).then_some(false) };
        self.all_held = hold(self.all_held, &[in_use(self.records, limits.records), in_use(self.bytes, limits.bytes)]);
        let mut change = Change::default();
        for (partition, usage) in self.partitions.iter_mut().filter(|(_, usage)| usage.assigned) {
            let own = [
                in_use(usage.records, limits.records_per_partition),
                in_use(usage.finished_ahead, limits.finished_ahead),
                in_use(usage.finished_rows, limits.finished_rows),
                self.all_held.then_some(true),
            ];
            let paused = hold(usage.paused, &own);
            match (usage.paused, paused) {
                (false, true) => change.pause.push(partition.clone()),
                (true, false) => change.resume.push(partition.clone()),
                _ => {}
            }
            usage.paused = paused;
        }
        change
    }

    fn forget_unused(&mut self, partition: &TopicPartition) {
        if self.partitions.get(partition).is_some_and(|usage| !usage.assigned && usage.records == 0) {
            self.partitions.remove(partition);
        }
    }
}

/// `Some(true)`: a limit is reached; `Some(false)`: more than half of it is in use; `None`: less.
fn hold(held: bool, uses: &[Option<bool>]) -> bool {
    uses.contains(&Some(true)) || (held && uses.contains(&Some(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> (Flow, TopicPartition, TopicPartition) {
        let limits = Limits { records_per_partition: 4, records: 6, bytes: 100, finished_ahead: 4, finished_rows: 4 };
        let (a, b) = (TopicPartition::new("t", 0), TopicPartition::new("t", 1));
        let mut flow = Flow::new(limits);
        flow.assigned(&a);
        flow.assigned(&b);
        (flow, a, b)
    }

    #[test]
    fn a_partition_pauses_at_its_limit_and_resumes_at_half() {
        let (mut flow, a, _) = flow();
        (0..4).for_each(|_| flow.taken(&a, 1));
        assert_eq!(flow.change(), Change { pause: vec![a.clone()], resume: vec![] });
        flow.released(&a, 1);
        assert_eq!(flow.change(), Change::default());
        flow.released(&a, 1);
        assert_eq!(flow.change(), Change { pause: vec![], resume: vec![a] });
    }

    #[test]
    fn bytes_in_all_hold_every_partition() {
        let (mut flow, a, b) = flow();
        flow.taken(&a, 100);
        let mut paused = flow.change().pause;
        paused.sort();
        assert_eq!(paused, [a.clone(), b]);
        flow.released(&a, 100);
        assert_eq!(flow.change().resume.len(), 2);
    }

    #[test]
    fn finished_records_behind_a_slow_one_are_bounded() {
        let (mut flow, a, _) = flow();
        flow.finished_ahead(&a, 4);
        assert_eq!(flow.change().pause, [a]);
    }

    #[test]
    fn finished_records_that_have_a_row_each_are_bounded() {
        let (mut flow, a, _) = flow();
        flow.finished_rows(&a, 4);
        assert_eq!(flow.change().pause.len(), 1);
        flow.finished_rows(&a, 2);
        assert_eq!(flow.change().resume, [a], "they have been folded");
    }

    #[test]
    fn p8_a_pause_does_not_outlive_the_assignment() {
        let (mut flow, a, _) = flow();
        (0..4).for_each(|_| flow.taken(&a, 1));
        assert_eq!(flow.change().pause.len(), 1);
        flow.unassigned(&a);
        (0..4).for_each(|_| flow.released(&a, 1));
        flow.assigned(&a);
        assert_eq!(flow.change(), Change::default());
        (0..4).for_each(|_| flow.taken(&a, 1));
        assert_eq!(flow.change().pause, [a], "the consumer was resumed at the assignment, so it must be told again");
    }
}
