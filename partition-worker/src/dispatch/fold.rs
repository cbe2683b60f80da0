//! When finished offsets are folded, and the pause of the handlers meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::memory::Memory;
use super::{Dispatch, Owned, Tenure, Unit};
use crate::partition::TopicPartition;
use crate::progress::Fold;

/// The longest that a fold waits for the first time, in which handlers that start wait too; it doubles each time it is not
/// enough, so that a partition whose handlers never pause is folded all the same.
const PATIENCE: Duration = Duration::from_millis(50);
const PATIENCE_MAX: Duration = Duration::from_secs(5);

/// What of a partition is finished and not yet folded.
pub(super) struct Progressed {
    folded: i64,
    /// How many finished records of this ownership lie below it.
    folded_records: u64,
    finished: usize,
    running: bool,
    in_vain: u32,
}

/// A fold to be done.
struct Task {
    partition: TopicPartition,
    tenure: Arc<Tenure>,
    watermark: i64,
    /// How many finished records of this ownership lie below the watermark.
    records: u64,
    patience: Duration,
}

impl Progressed {
    pub(super) const fn new(next_offset: i64) -> Self {
        Self { folded: next_offset, folded_records: 0, finished: 0, running: false, in_vain: 0 }
    }

    pub(super) const fn finished(&mut self) {
        self.finished += 1;
    }

    pub(super) const fn is_due(&self, after: usize) -> bool {
        !self.running && self.finished >= after
    }

    fn patience(&self) -> Duration {
        PATIENCE.saturating_mul(1 << self.in_vain.min(10)).min(PATIENCE_MAX)
    }
}

impl<U: Unit> Dispatch<U> {
    /// Folds what can be folded, and waits for no answer.
    pub(crate) fn start_folds(&self) {
        for (partition, owned) in &mut self.state().owned {
            self.start_fold(partition, owned);
        }
    }

    /// Folds what can be folded, and waits for it, as for the folds that run already.
    pub(crate) async fn fold_all(&self) {
        self.no_fold_runs().await;
        self.start_folds();
        self.no_fold_runs().await;
    }

    async fn no_fold_runs(&self) {
        self.wait_for(|state| state.owned.values().all(|owned| !owned.fold.running)).await;
    }

    pub(super) fn start_fold(&self, partition: &TopicPartition, owned: &mut Owned) {
        if let (Some(this), Some(task)) = (self.this.upgrade(), Task::of(partition, owned)) {
            self.runtime.spawn(this.fold(task));
        }
    }

    async fn fold(self: Arc<Self>, task: Task) {
        let folded = self.folded(&task).await;
        if matches!(folded, Ok(Fold::Folded { .. })) {
            self.unit.memory().forget_folded(&task.partition, task.tenure.epoch, task.watermark).await;
        }
        self.note_fold(&task, folded);
        self.changed.notify_waiters();
    }

    async fn folded(&self, task: &Task) -> Result<Fold, sqlx::Error> {
        match tokio::time::timeout(task.patience, task.tenure.turnstile.write()).await {
            Err(_) => Ok(Fold::InTheWay),
            // The handlers are held back for as long as this takes: `Timeouts::request` at the most.
            Ok(_alone) => self.unit.put_by(&task.partition, task.tenure.epoch, task.watermark).await,
        }
    }

    fn note_fold(&self, task: &Task, folded: Result<Fold, sqlx::Error>) {
        let (partition, epoch) = (&task.partition, task.tenure.epoch);
        let mut state = self.state();
        let Some(owned) = state.owned.get_mut(partition).filter(|owned| owned.tracker.epoch() == epoch) else {
            return;
        };
        owned.fold.running = false;
        match folded {
            Ok(Fold::Folded { .. } | Fold::Unchanged) => {
                owned.fold.folded = task.watermark;
                owned.fold.folded_records = task.records;
                owned.fold.in_vain = 0;
                let rows = owned.rows();
                state.flow.finished_rows(partition, rows);
            }
            Ok(Fold::InTheWay) => owned.fold.in_vain = owned.fold.in_vain.saturating_add(1),
            Err(error) => {
                tracing::warn!(%partition, %error, "finished offsets could not be folded; trying again later");
            }
        }
    }
}

impl Owned {
    /// How many rows the database has for records that were finished in this ownership. Those of the owner before are not among them
    /// until they have been delivered: they become no more, and a partition that is paused for them would never go on.
    pub(super) fn rows(&self) -> usize {
        usize::try_from(self.tracker.finished() - self.fold.folded_records).unwrap_or(usize::MAX)
    }
}

impl Task {
    fn of(partition: &TopicPartition, owned: &mut Owned) -> Option<Self> {
        let watermark = owned.tracker.watermark();
        if owned.fold.running || watermark <= owned.fold.folded {
            return None;
        }
        owned.fold.running = true;
        owned.fold.finished = 0;
        Some(Self {
            partition: partition.clone(),
            tenure: Arc::clone(&owned.tenure),
            watermark,
            records: owned.tracker.finished() - owned.tracker.finished_ahead().count(),
            patience: owned.fold.patience(),
        })
    }
}
