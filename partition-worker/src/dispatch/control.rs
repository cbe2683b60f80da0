//! What the polling thread tells and asks.

use std::sync::Arc;

use tokio::sync::RwLock;

use super::{Dispatch, Failed, Owned, Suspicion, Tenure, Unit, fold};
use crate::assignment::Grant;
use crate::flow::Change;
use crate::partition::TopicPartition;
use crate::polling::{Control, Start};
use crate::record::Record;
use crate::runs::Commit;
use crate::tracker::CommitTracker;

impl<U: Unit> Control for Dispatch<U> {
    fn seal(&self, grant: Grant, partitions: Vec<TopicPartition>) {
        let Some(this) = self.this.upgrade() else { return };
        let mut state = self.state();
        let partitions = partitions.into_iter().map(|partition| {
            let cancel = self.stop.child_token();
            if let Some(earlier) = state.sealing.insert(partition.clone(), cancel.clone()) {
                earlier.cancel();
            }
            (partition, cancel)
        });
        let partitions: Vec<_> = partitions.collect();
        drop(state);
        self.runtime.spawn(this.seal_all(grant, partitions));
    }

    fn activate(&self, partition: &TopicPartition, start: Start) {
        let mut state = self.state();
        state.sealing.remove(partition);
        state.flow.assigned(partition);
        state.summary(partition).taken_over += 1;
        let suspicion = Suspicion::new(&start.failures);
        let owned = Owned {
            tracker: CommitTracker::new(start.epoch, start.offset),
            finished: start.finished,
            tenure: Arc::new(Tenure {
                epoch: start.epoch,
                cancel: self.stop.child_token(),
                turnstile: RwLock::default(),
                watch: Arc::clone(&self.watch),
                failed: Failed::new(start.failures),
            }),
            suspicion,
            fold: fold::Progressed::new(start.offset),
            told: None,
            leaving: false,
        };
        state.owned.insert(partition.clone(), owned);
    }

    fn take_away(&self, partitions: &[TopicPartition], lost: bool) -> Vec<(TopicPartition, Commit)> {
        let mut state = self.state();
        let mut commits = Vec::new();
        for partition in partitions {
            if let Some(sealing) = state.sealing.remove(partition) {
                sealing.cancel();
            }
            if let Some(owned) = state.disown(partition) {
                commits.push((partition.clone(), owned.tracker.commit(state.metadata_room)));
                let summary = state.partitions.entry(partition.clone()).or_default();
                *(if lost { &mut summary.lost } else { &mut summary.given_back }) += 1;
                self.note_end(partition.clone(), &owned);
                // Without a database nothing but this keeps it from running beside the next owner's.
                if lost || U::COMMIT_DECIDES {
                    owned.tenure.cancel.cancel();
                }
            }
        }
        commits
    }

    fn deliver(&self, records: &mut Vec<Record>) {
        let mut state = self.state();
        for record in records.drain(..) {
            if !state.draining {
                state.admit(record);
            }
        }
        self.start_ready(&mut state);
    }

    fn change(&self) -> Change {
        self.state().flow.change()
    }

    fn commits(&self) -> Vec<(TopicPartition, Commit)> {
        let mut state = self.state();
        let room = state.metadata_room;
        let mut commits = Vec::new();
        for (partition, owned) in &mut state.owned {
            // What the metadata says changes with each record that finishes, the offset alone more seldom.
            let tracker = &owned.tracker;
            let told = (tracker.watermark(), if room > 0 { tracker.finished() } else { 0 });
            if owned.told != Some(told) {
                owned.told = Some(told);
                commits.push((partition.clone(), tracker.commit(room)));
            }
        }
        for (partition, commit) in commits.iter().filter(|_| U::COMMIT_DECIDES) {
            state.summary(partition).left_out = commit.left_out;
        }
        commits
    }

    fn commit_again(&self) {
        for owned in self.state().owned.values_mut() {
            owned.told = None;
        }
    }

    fn metadata_refused(&self, room: usize) {
        let mut state = self.state();
        state.metadata_room = room;
        let left_out =
            |(partition, owned): (&TopicPartition, &Owned)| (partition.clone(), owned.tracker.commit(room).left_out);
        let left_out: Vec<_> = state.owned.iter().map(left_out).collect();
        for (partition, left_out) in left_out {
            state.summary(&partition).left_out = left_out;
        }
    }
}
