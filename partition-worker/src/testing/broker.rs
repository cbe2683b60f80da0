//! The scripted broker: logs, committed offsets, and who owns which partition.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Fault;
use super::murmur2;
use crate::dead_letter::Stamp;
use crate::partition::TopicPartition;
use crate::record::Record;
use crate::runs::Commit;

/// What the members of one scripted group share.
#[derive(Debug, Default)]
pub(crate) struct Broker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    topics: BTreeMap<String, i32>,
    logs: BTreeMap<TopicPartition, Vec<Record>>,
    committed: HashMap<TopicPartition, (i64, String)>,
    owners: BTreeMap<TopicPartition, usize>,
    keyless: i32,
    fault: Option<Fault>,
    calls: u64,
}

impl Broker {
    pub(super) fn create_topic(&self, topic: &str, partitions: i32) {
        let mut state = self.state();
        state.topics.insert(topic.to_owned(), partitions);
        for partition in 0..partitions {
            state.logs.entry(TopicPartition::new(topic, partition)).or_default();
        }
    }

    /// The same logs, and a group that has done nothing yet.
    pub(super) fn afresh(&self, topics: &[String]) -> Self {
        let state = self.state();
        let logs = state.logs.iter().filter(|(partition, _)| topics.iter().any(|topic| topic == partition.topic()));
        let fresh = State {
            topics: topics.iter().filter_map(|topic| state.topics.get_key_value(topic)).map(clone_pair).collect(),
            logs: logs.map(clone_pair).collect(),
            ..State::default()
        };
        Self { state: Mutex::new(fresh) }
    }

    /// Appends a record where its key belongs; answers partition and offset.
    pub(super) fn append(&self, topic: &str, mut fill: impl FnMut(Record) -> Record) -> (i32, i64) {
        let mut state = self.state();
        let partitions = *state.topics.entry(topic.to_owned()).or_insert(1);
        let key = fill(Record::new(topic, 0, 0)).key().map(<[u8]>::to_vec);
        let partition = if let Some(key) = key {
            murmur2::partition(&key, partitions)
        } else {
            state.keyless += 1;
            (state.keyless - 1) % partitions
        };
        let log = state.logs.entry(TopicPartition::new(topic, partition)).or_default();
        let offset = log.last().map_or(0, |last| last.offset() + 1);
        log.push(fill(Record::new(topic, partition, offset)));
        (partition, offset)
    }

    /// Appends a record at its own place; `false`: the log is there already.
    pub(super) fn append_at(&self, record: Record) -> bool {
        let mut state = self.state();
        let log = state.logs.entry(record.source().clone()).or_default();
        let is_next = log.last().is_none_or(|last| last.offset() < record.offset());
        if is_next {
            log.push(record);
        }
        is_next
    }

    pub(crate) fn copy(&self, topic: &str, record: &Record, stamp: &Stamp<'_>) -> (i32, i64) {
        self.append(topic, |mut copy| {
            if let Some(key) = record.key() {
                copy = copy.with_key(key);
            }
            if let Some(value) = record.value() {
                copy = copy.with_value(value);
            }
            if let Some(timestamp_ms) = record.timestamp_ms() {
                copy = copy.with_timestamp_ms(timestamp_ms);
            }
            for (name, value) in record.headers() {
                copy = copy.with_header(name.clone(), value.clone());
            }
            for (name, value) in stamp.headers(record) {
                copy = copy.with_header(name, value.map(String::into_bytes));
            }
            copy
        })
    }

    pub(crate) fn at(&self, topic: &str, partition: i32, offset: i64) -> Option<Record> {
        let state = self.state();
        let log = state.logs.get(&TopicPartition::new(topic, partition))?;
        log.iter().find(|record| record.offset() == offset).cloned()
    }

    pub(super) fn records(&self, topic: &str) -> Vec<Record> {
        let state = self.state();
        state.logs.iter().filter(|(partition, _)| partition.topic() == topic).flat_map(|(_, log)| log.clone()).collect()
    }

    pub(super) fn partitions(&self, topics: &[String]) -> Vec<TopicPartition> {
        let named = |partition: &&TopicPartition| topics.iter().any(|topic| topic == partition.topic());
        self.state().logs.keys().filter(named).cloned().collect()
    }

    /// The next records from this offset on.
    pub(super) fn fetch(&self, partition: &TopicPartition, from: i64, most: usize) -> Vec<Record> {
        let state = self.state();
        let log = state.logs.get(partition).map_or(&[][..], |log| log);
        log[log.partition_point(|record| record.offset() < from)..].iter().take(most).cloned().collect()
    }

    /// The first offset of a log, and the one past its last.
    pub(crate) fn range(&self, partition: &TopicPartition) -> (i64, i64) {
        let state = self.state();
        let log = state.logs.get(partition).map_or(&[][..], |log| log);
        (0, log.last().map_or(0, |last| last.offset() + 1))
    }

    pub(crate) fn committed(&self, partition: &TopicPartition) -> Option<(i64, String)> {
        self.state().committed.get(partition).cloned()
    }

    /// Takes commits, but for those of a member that does not own the partition any more, as a broker does.
    pub(super) fn commit(&self, member: usize, commits: Vec<(TopicPartition, Commit)>) {
        let mut state = self.state();
        for (partition, commit) in commits {
            if state.owners.get(&partition) == Some(&member) {
                state.committed.insert(partition, (commit.offset, commit.metadata));
            }
        }
    }

    pub(super) fn own(&self, partition: &TopicPartition, member: usize) {
        self.state().owners.insert(partition.clone(), member);
    }

    pub(super) fn owner(&self, partition: &TopicPartition) -> Option<usize> {
        self.state().owners.get(partition).copied()
    }

    /// The next attempt to which it can happen meets this fault.
    pub(super) fn arm(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    pub(crate) fn take_fault(&self, wanted: impl Fn(Fault) -> bool) -> Option<Fault> {
        self.state().fault.take_if(|fault| wanted(*fault))
    }

    pub(super) fn called(&self) {
        self.state().calls += 1;
    }

    pub(super) fn calls(&self) -> u64 {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn clone_pair<K: Clone, V: Clone>((key, value): (&K, &V)) -> (K, V) {
    (key.clone(), value.clone())
}
