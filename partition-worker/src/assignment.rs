//! The rebalance of a consumer, as a state machine. Pure: no I/O, no clock.
//!
//! ```text
//! Unassigned ──assigned──► Sealing ──all sealed──► Active ──drain──► Draining
//!     ▲                       │                     │  │                 │
//!     └──── revoked, lost ────┴─────────────────────┘  └──► Fenced ──────┤
//!     ▲                                                                  │
//!     └──────────────────────────── revoked, lost ───────────────────────┘
//! ```
//!
//! Kafka delivers nothing of a newly assigned partition before the consumer's `assign` is called, so that call waits until
//! *all* partitions of the event are sealed: it is made once, with every start offset known.

use std::collections::{BTreeMap, BTreeSet};

use crate::partition::TopicPartition;

/// Where a partition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Not this worker's.
    Unassigned,
    /// Given by Kafka; the database is not yet told, or earlier owners are still being waited for.
    Sealing,
    /// Records are taken and handled.
    Active,
    /// Records are taken no more; handlers that run may finish.
    Draining,
    /// Given by Kafka, but another owner has sealed it since: nothing of it is handled.
    Fenced,
}

/// The number of an assignment event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Batch(u64);

/// The partitions of a worker. `S` is what is known of a partition once it is sealed.
#[derive(Debug)]
pub struct Assignment<S> {
    phases: BTreeMap<TopicPartition, Phase>,
    pending: Option<Pending<S>>,
    batches: u64,
}

#[derive(Debug)]
struct Pending<S> {
    batch: Batch,
    waiting: BTreeSet<TopicPartition>,
    answers: BTreeMap<TopicPartition, Option<S>>,
}

/// All partitions of an event are sealed: call the consumer's `assign` now.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the consumer waits for its assign call"]
pub struct Ready<S> {
    /// Those that are this worker's, with what is known of them.
    pub active: Vec<(TopicPartition, S)>,
    /// Those that another owner has sealed since. Kafka is to be told that they are assigned, but nothing is taken.
    pub fenced: Vec<TopicPartition>,
}

/// What a revocation or a loss took away.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the consumer waits for its unassign call"]
pub struct Taken<S> {
    /// Partitions for which the consumer's `assign` had been called.
    pub assigned: Vec<TopicPartition>,
    /// Partitions whose seal was still under way. Stop it: it would fence the new owner.
    pub sealing: Vec<TopicPartition>,
    /// The rest of the event that was waited for, if it is complete now.
    pub ready: Option<Ready<S>>,
}

impl<S> Assignment<S> {
    /// No partitions.
    #[must_use]
    pub const fn new() -> Self {
        Self { phases: BTreeMap::new(), pending: None, batches: 0 }
    }

    /// Kafka gave these partitions: seal them. Without any, the event is complete at once.
    pub fn assigned(&mut self, partitions: &[TopicPartition]) -> (Batch, Option<Ready<S>>) {
        self.batches += 1;
        let batch = Batch(self.batches);
        let mut waiting: BTreeSet<_> = partitions.iter().cloned().collect();
        // An event that was never answered is answered together with this one.
        if let Some(earlier) = self.pending.take() {
            waiting.extend(earlier.waiting);
            waiting.extend(earlier.answers.into_keys());
        }
        for partition in &waiting {
            self.phases.insert(partition.clone(), Phase::Sealing);
        }
        self.pending = Some(Pending { batch, waiting, answers: BTreeMap::new() });
        (batch, self.complete())
    }

    /// The partitions that are to be sealed for this event.
    #[must_use]
    pub fn to_seal(&self, batch: Batch) -> Vec<TopicPartition> {
        let pending = self.pending.as_ref().filter(|pending| pending.batch == batch);
        pending.map(|pending| pending.waiting.iter().cloned().collect()).unwrap_or_default()
    }

    /// A partition is sealed, or, with `None`, another owner was faster. An answer to an earlier event changes nothing.
    pub fn sealed(&mut self, batch: Batch, partition: &TopicPartition, answer: Option<S>) -> Option<Ready<S>> {
        let pending = self.pending.as_mut().filter(|pending| pending.batch == batch)?;
        if pending.waiting.remove(partition) {
            pending.answers.insert(partition.clone(), answer);
        }
        self.complete()
    }

    /// Kafka took these partitions back, or they were lost.
    pub fn taken(&mut self, partitions: &[TopicPartition]) -> Taken<S> {
        let mut taken = Taken { assigned: Vec::new(), sealing: Vec::new(), ready: None };
        for partition in partitions {
            match self.phases.remove(partition) {
                Some(Phase::Sealing) => {
                    if let Some(pending) = &mut self.pending {
                        pending.waiting.remove(partition);
                        pending.answers.remove(partition);
                    }
                    taken.sealing.push(partition.clone());
                }
                Some(_) => taken.assigned.push(partition.clone()),
                None => {}
            }
        }
        if self.pending.as_ref().is_some_and(|pending| pending.waiting.is_empty() && pending.answers.is_empty()) {
            self.pending = None;
        }
        taken.ready = self.complete();
        taken
    }

    /// Another owner has sealed this partition; answers whether that is news.
    pub fn fenced(&mut self, partition: &TopicPartition) -> bool {
        match self.phases.get_mut(partition) {
            Some(phase @ (Phase::Active | Phase::Draining)) => {
                *phase = Phase::Fenced;
                true
            }
            _ => false,
        }
    }

    /// No more records are taken.
    pub fn drain(&mut self) {
        for phase in self.phases.values_mut().filter(|phase| **phase == Phase::Active) {
            *phase = Phase::Draining;
        }
    }

    /// Where a partition stands.
    #[must_use]
    pub fn phase(&self, partition: &TopicPartition) -> Phase {
        self.phases.get(partition).copied().unwrap_or(Phase::Unassigned)
    }

    /// The partitions in this phase.
    pub fn in_phase(&self, phase: Phase) -> impl Iterator<Item = &TopicPartition> {
        self.phases.iter().filter(move |(_, own)| **own == phase).map(|(partition, _)| partition)
    }

    fn complete(&mut self) -> Option<Ready<S>> {
        let pending = self.pending.take_if(|pending| pending.waiting.is_empty())?;
        let mut ready = Ready { active: Vec::new(), fenced: Vec::new() };
        for (partition, answer) in pending.answers {
            let phase = if answer.is_some() { Phase::Active } else { Phase::Fenced };
            self.phases.insert(partition.clone(), phase);
            match answer {
                Some(sealed) => ready.active.push((partition, sealed)),
                None => ready.fenced.push(partition),
            }
        }
        Some(ready)
    }
}

impl<S> Default for Assignment<S> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partitions(numbers: &[i32]) -> Vec<TopicPartition> {
        numbers.iter().map(|number| TopicPartition::new("t", *number)).collect()
    }

    #[test]
    fn assign_is_called_once_and_only_after_all_are_sealed() {
        let mut assignment = Assignment::new();
        let p = partitions(&[0, 1]);
        let (batch, ready) = assignment.assigned(&p);
        assert_eq!(ready, None);
        assert_eq!(assignment.sealed(batch, &p[0], Some(10)), None);
        assert_eq!(assignment.phase(&p[0]), Phase::Sealing);
        let ready = assignment.sealed(batch, &p[1], Some(20)).expect("all are sealed");
        assert_eq!(ready.active, [(p[0].clone(), 10), (p[1].clone(), 20)]);
        assert_eq!(assignment.phase(&p[1]), Phase::Active);
        assert_eq!(assignment.sealed(batch, &p[1], Some(20)), None, "and not again");
    }

    #[test]
    fn an_empty_assignment_is_answered_at_once() {
        let (_, ready) = Assignment::<i64>::new().assigned(&[]);
        assert_eq!(ready, Some(Ready { active: vec![], fenced: vec![] }));
    }

    #[test]
    fn a_partition_lost_while_sealing_does_not_hold_up_the_rest() {
        let mut assignment = Assignment::new();
        let p = partitions(&[0, 1]);
        let (batch, _) = assignment.assigned(&p);
        assert_eq!(assignment.sealed(batch, &p[0], Some(10)), None);
        let taken = assignment.taken(&p[1..]);
        assert_eq!(taken.sealing, p[1..]);
        assert_eq!(taken.ready, Some(Ready { active: vec![(p[0].clone(), 10)], fenced: vec![] }));
        assert_eq!(assignment.sealed(batch, &p[1], Some(20)), None, "its seal came too late");
        assert_eq!(assignment.phase(&p[1]), Phase::Unassigned);
    }

    #[test]
    fn a_loss_of_everything_while_sealing_leaves_nothing_to_assign() {
        let mut assignment = Assignment::<i64>::new();
        let p = partitions(&[0, 1]);
        assignment.assigned(&p);
        let taken = assignment.taken(&p);
        assert_eq!((taken.sealing, taken.ready), (p, None));
    }

    #[test]
    fn an_answer_to_an_earlier_event_counts_for_nothing() {
        let mut assignment = Assignment::new();
        let p = partitions(&[0]);
        let (earlier, _) = assignment.assigned(&p);
        let _ = assignment.taken(&p);
        let (later, _) = assignment.assigned(&p);
        assert_eq!(assignment.sealed(earlier, &p[0], Some(1)), None);
        assert!(assignment.sealed(later, &p[0], Some(2)).is_some());
    }

    #[test]
    fn a_fenced_partition_stays_with_kafka_until_it_is_taken() {
        let mut assignment = Assignment::new();
        let p = partitions(&[0, 1]);
        let (batch, _) = assignment.assigned(&p);
        let _ = assignment.sealed(batch, &p[0], Some(1));
        let ready = assignment.sealed(batch, &p[1], None).expect("all have answered");
        assert_eq!(ready.fenced, p[1..]);
        assert!(assignment.fenced(&p[0]));
        assert!(!assignment.fenced(&p[0]), "once is enough");
        assert_eq!(assignment.in_phase(Phase::Fenced).count(), 2);
        assert_eq!(assignment.taken(&p).assigned, p);
    }
}
