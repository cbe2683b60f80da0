//! When finished offsets are folded, and the pause of the handlers meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Dispatch, Owned, Turnstile};
use crate::handler::Handler;
use crate::partition::{Epoch, TopicPartition};
use crate::progress::Fold;
use crate::sql::WorkerSql;

/// The longest that a fold waits for the first time, in which handlers that start wait too; it doubles each time it is not
/// enough, so that a partition whose handlers never pause is folded all the same.
const PATIENCE: Duration = Duration::from_millis(50);
const PATIENCE_MAX: Duration = Duration::from_secs(5);

/// What of a partition is finished and not yet folded.
pub(super) struct Progressed {
    folded: i64,
    finished: usize,
    running: bool,
    in_vain: u32,
}

/// A fold to be done.
struct Task {
    partition: TopicPartition,
    epoch: Epoch,
    watermark: i64,
    turnstile: Turnstile,
    patience: Duration,
}

impl Progressed {
    pub(super) const fn new(next_offset: i64) -> Self {
        Self { folded: next_offset, finished: 0, running: false, in_vain: 0 }
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

impl<DB: WorkerSql, H: Handler<DB>> Dispatch<DB, H> {
    /// Folds what can be folded, and waits for it.
    pub(crate) async fn fold_all(&self) {
        let Some(this) = self.this.upgrade() else { return };
        let mut folds = JoinSet::new();
        for (partition, owned) in &mut self.state().owned {
            if let Some(task) = Task::of(partition, owned) {
                folds.spawn_on(Arc::clone(&this).fold(task), &self.runtime);
            }
        }
        while folds.join_next().await.is_some() {}
    }

    pub(super) fn start_fold(&self, partition: &TopicPartition, owned: &mut Owned) {
        if let (Some(this), Some(task)) = (self.this.upgrade(), Task::of(partition, owned)) {
            self.runtime.spawn(this.fold(task));
        }
    }

    async fn fold(self: Arc<Self>, task: Task) {
        let Task { partition, epoch, watermark, turnstile, patience } = task;
        let folded = match tokio::time::timeout(patience, turnstile.write()).await {
            Err(_) => Ok(Fold::InTheWay),
            Ok(_alone) => self.progress.fold(&partition, epoch, watermark).await,
        };
        let mut state = self.state();
        let Some(owned) = state.owned.get_mut(&partition).filter(|owned| owned.tracker.epoch() == epoch) else {
            return;
        };
        owned.fold.running = false;
        match folded {
            Ok(Fold::Folded { .. } | Fold::Unchanged) => {
                owned.fold.folded = watermark;
                owned.fold.in_vain = 0;
            }
            Ok(Fold::InTheWay) => owned.fold.in_vain = owned.fold.in_vain.saturating_add(1),
            Err(error) => {
                tracing::warn!(%partition, %error, "finished offsets could not be folded; trying again later");
            }
        }
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
            epoch: owned.tracker.epoch(),
            watermark,
            turnstile: Arc::clone(&owned.turnstile),
            patience: owned.fold.patience(),
        })
    }
}
