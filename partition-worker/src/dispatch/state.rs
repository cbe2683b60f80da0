//! What is known of the partitions and their records, changed under one lock and never across an await.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Course, Job, Owned, State, Tenure};
use crate::flow::{Flow, Limits};
use crate::lanes::{LaneKey, Laned, Lanes};
use crate::partition::{Epoch, TopicPartition};
use crate::record::Record;
use crate::settings::Settings;
use crate::summary::PartitionSummary;
use crate::tracker::Completion;

impl State {
    pub(super) fn new(concurrency: usize, settings: &Settings, limits: Limits, metadata_room: usize) -> Self {
        Self {
            lanes: Lanes::new(concurrency),
            flow: Flow::new(limits),
            ordering: settings.ordering,
            null_keys: settings.null_keys,
            busy: 0,
            owned: HashMap::new(),
            sealing: HashMap::new(),
            partitions: BTreeMap::new(),
            metadata_room,
            draining: false,
            undrained: BTreeSet::new(),
            failure: None,
        }
    }

    /// Takes a delivered record in.
    pub(super) fn admit(&mut self, record: Record) {
        let (partition, offset) = (record.source().clone(), record.offset());
        let Some(owned) = self.owned.get_mut(&partition) else {
            tracing::debug!(%partition, offset, "a record of a partition that is not owned is dropped");
            return;
        };
        if owned.leaving {
            return;
        }
        if !owned.tracker.deliver(offset) {
            tracing::debug!(%partition, offset, "a record that was delivered before is dropped");
            return;
        }
        if owned.finished.contains(offset) {
            let epoch = owned.tracker.epoch();
            let _ = self.count_finished(&partition, epoch, offset);
            self.summary(&partition).already_done += 1;
            #[cfg(feature = "metrics")]
            crate::metrics::record::records("already_done");
            return;
        }
        self.flow.taken(&partition, record.weight());
        let lane = self.ordering.lane(self.null_keys, &record);
        let mut job = Job::new(record, lane, Arc::clone(&owned.tenure));
        job.suspect = owned.suspicion.admit(owned.tenure.failed.deaths(offset));
        self.lanes.push(job);
    }

    /// Ends the ownership of a partition: what waits is forgotten, what runs is left alone.
    pub(super) fn disown(&mut self, partition: &TopicPartition) -> Option<Owned> {
        self.note_position(partition);
        self.forget_waiting(partition);
        self.flow.unassigned(partition);
        self.owned.remove(partition)
    }

    pub(super) fn drain(&mut self) {
        self.draining = true;
        let owned: Vec<_> = self.owned.keys().cloned().collect();
        for partition in owned {
            self.forget_waiting(&partition);
        }
    }

    pub(super) fn forget_waiting(&mut self, partition: &TopicPartition) {
        for job in self.lanes.purge(partition) {
            self.flow.released(partition, job.record.weight());
        }
    }

    pub(super) fn note_position(&mut self, partition: &TopicPartition) {
        if let Some(owned) = self.owned.get(partition) {
            let (watermark, unfinished) = (owned.tracker.watermark(), owned.tracker.unfinished());
            let summary = self.summary(partition);
            summary.watermark = Some(watermark);
            summary.unfinished = unfinished;
        }
    }

    pub(super) fn summary(&mut self, partition: &TopicPartition) -> &mut PartitionSummary {
        self.partitions.entry(partition.clone()).or_default()
    }

    /// Counts a finished record, if the partition is still owned in this epoch.
    pub(super) fn count_finished(
        &mut self,
        partition: &TopicPartition,
        epoch: Epoch,
        offset: i64,
    ) -> Option<&mut Owned> {
        let owned = self.owned.get_mut(partition)?;
        if owned.tracker.finish(epoch, offset) != Completion::Counted {
            return None;
        }
        owned.fold.finished();
        self.flow.finished_ahead(partition, owned.tracker.finished_ahead().runs());
        self.flow.finished_rows(partition, owned.rows());
        Some(owned)
    }

    pub(super) fn owns(&self, partition: &TopicPartition, epoch: Epoch) -> bool {
        self.owned.get(partition).is_some_and(|owned| owned.tracker.epoch() == epoch)
    }

    /// Whether a record of this ownership may be tried again.
    pub(super) fn may_retry(&self, partition: &TopicPartition, epoch: Epoch) -> bool {
        let owned = self.owned.get(partition);
        !self.draining && owned.is_some_and(|owned| owned.tracker.epoch() == epoch && !owned.leaving)
    }
}

impl Laned for Job {
    fn lane(&self) -> &LaneKey {
        &self.lane
    }

    fn company(&self) -> usize {
        let alone = !matches!(self.course, Course::Handle)
            || self.suspect.is_some()
            || self.tenure.failed.follows(&self.record).is_some();
        if alone { 1 } else { self.company }
    }
}

impl Job {
    pub(super) fn new(record: Record, lane: LaneKey, tenure: Arc<Tenure>) -> Self {
        Self {
            record,
            lane,
            tenure,
            course: Course::Handle,
            suspect: None,
            copied: None,
            attempts: 0,
            disturbances: 0,
            commit_unknown: false,
            is_unhandled: false,
            found_done: false,
            company: usize::MAX,
        }
    }
}
