//! When finished offsets are folded, and the pause of the handlers meanwhile.
//!
//! A fold waits for the handlers that run, and those that are to start wait for the fold. So while one handler is slow, a fold would
//! hold up all others of its partition and get nowhere. It is put off where a handler has been running for longer than the fold would
//! wait, and of the time of a partition the folds take a tenth at most.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::memory::Memory;
use super::{Dispatch, Owned, Tenure, Unit};
use crate::partition::TopicPartition;
use crate::progress::Fold;

/// The longest that a fold waits for the first time, in which handlers that start wait too; it doubles each time it is not
/// enough, so that a partition whose handlers never pause is folded all the same.
const PATIENCE: Duration = Duration::from_millis(50);
const PATIENCE_MAX: Duration = Duration::from_secs(5);
/// After a fold the handlers have the partition for themselves for so many times as long as it held them back.
const REST: u32 = 9;
/// But no longer than this: a database that takes long to answer takes its time of the handlers too.
const REST_MAX: Duration = Duration::from_mins(1);

/// What of a partition is finished and not yet folded.
pub(super) struct Progressed {
    folded: i64,
    /// How many finished records of this ownership lie below it.
    folded_records: u64,
    finished: usize,
    running: bool,
    in_vain: u32,
    /// Until then the handlers have the partition for themselves.
    rests_until: Option<Instant>,
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
        Self { folded: next_offset, folded_records: 0, finished: 0, running: false, in_vain: 0, rests_until: None }
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

    fn rests(&self, now: Instant) -> bool {
        self.rests_until.is_some_and(|until| now < until)
    }

    /// It would have waited in vain.
    fn put_off(&mut self, now: Instant) {
        self.rests_until = Some(now + self.patience());
        self.in_vain = self.in_vain.saturating_add(1);
    }

    /// It has held handlers back, or would have if any had come, for so long.
    fn held_back(&mut self, now: Instant, time: Duration) {
        self.rests_until = Some(now + time.saturating_mul(REST).min(REST_MAX));
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
        // No handler starts any more, so there is none to be held up.
        for (partition, owned) in &mut self.state().owned {
            self.start_fold_now(partition, owned);
        }
        self.no_fold_runs().await;
    }

    async fn no_fold_runs(&self) {
        self.wait_for(|state| state.owned.values().all(|owned| !owned.fold.running)).await;
    }

    pub(super) fn start_fold(&self, partition: &TopicPartition, owned: &mut Owned) {
        let now = Instant::now();
        if !Task::is_wanted(owned) || owned.fold.rests(now) {
            return;
        }
        if self.watch().has_run_for(partition, owned.tenure.epoch, owned.fold.patience(), now) {
            owned.fold.put_off(now);
        } else {
            self.start_fold_now(partition, owned);
        }
    }

    fn start_fold_now(&self, partition: &TopicPartition, owned: &mut Owned) {
        if let (Some(this), Some(task)) = (self.this.upgrade(), Task::of(partition, owned)) {
            self.runtime.spawn(this.fold(task));
        }
    }

    async fn fold(self: Arc<Self>, task: Task) {
        let began = Instant::now();
        let folded = self.folded(&task).await;
        let held = began.elapsed();
        if matches!(folded, Ok(Fold::Folded { .. })) {
            self.unit.memory().forget_folded(&task.partition, task.tenure.epoch, task.watermark).await;
        }
        self.note_fold(&task, folded, held);
        self.changed.notify_waiters();
    }

    async fn folded(&self, task: &Task) -> Result<Fold, sqlx::Error> {
        match tokio::time::timeout(task.patience, task.tenure.turnstile.write()).await {
            Err(_) => Ok(Fold::InTheWay),
            // The handlers are held back for as long as this takes: `Timeouts::request` at the most.
            Ok(_alone) => self.unit.put_by(&task.partition, task.tenure.epoch, task.watermark).await,
        }
    }

    fn note_fold(&self, task: &Task, folded: Result<Fold, sqlx::Error>, held_back: Duration) {
        let (partition, epoch) = (&task.partition, task.tenure.epoch);
        let mut state = self.state();
        let Some(owned) = state.owned.get_mut(partition).filter(|owned| owned.tracker.epoch() == epoch) else {
            return;
        };
        owned.fold.running = false;
        owned.fold.held_back(Instant::now(), held_back);
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
    fn is_wanted(owned: &Owned) -> bool {
        !owned.fold.running && owned.tracker.watermark() > owned.fold.folded
    }

    fn of(partition: &TopicPartition, owned: &mut Owned) -> Option<Self> {
        if !Self::is_wanted(owned) {
            return None;
        }
        let watermark = owned.tracker.watermark();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_folds_that_wait_in_vain_take_a_tenth_of_the_time_at_most() {
        let began = Instant::now();
        let (mut fold, mut now, mut held_back) = (Progressed::new(0), began, Duration::ZERO);
        // A look every ms; handlers always run, and none for long enough that the fold would be put off for it.
        while now < began + Duration::from_mins(10) {
            if fold.rests(now) {
                now += Duration::from_millis(1);
                continue;
            }
            now += fold.patience();
            held_back += fold.patience();
            fold.held_back(now, fold.patience());
            fold.in_vain += 1;
        }
        assert!(fold.patience() == PATIENCE_MAX && held_back > PATIENCE_MAX, "{held_back:?}");
        assert!(held_back * 10 <= now - began + PATIENCE_MAX * 10, "{held_back:?}");
    }

    #[test]
    fn a_fold_that_is_put_off_gets_more_patient_and_holds_nobody_back() {
        let (mut fold, mut now) = (Progressed::new(0), Instant::now());
        for patience in [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].map(Duration::from_millis) {
            assert_eq!((fold.patience(), fold.rests(now)), (patience, false));
            fold.put_off(now);
            assert!(fold.rests(now));
            now += patience;
        }
    }
}
