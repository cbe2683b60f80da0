//! The rebalance of a consumer, as a state machine. Pure: no I/O, no clock.
//!
//! ```text
//! Unassigned ──assigned──► Sealing ──all sealed──► Active ──revoked──► Draining ──drained──► Released
//!                             │                      │                    │
//!                             │        another owner └───► Fenced ◄───────┘
//!                             └──────── revoked, from Fenced as well ──────────────────────► Released
//!
//! From anywhere: lost ──► Lost.      From Released and Lost: assigned ──► Sealing.
//! ```
//!
//! It is told what Kafka says, and answers what is to be done, in order. Two orders carry the promises:
//! - Kafka delivers nothing of a newly assigned partition before the consumer's `assign` is called, so that call waits until
//!   *all* partitions of the event are sealed: it is made once, with every start offset known.
//! - What is taken back is drained, then committed, then given back; the other way round, what is finished in the drain would be
//!   done again by the next owner. What is lost is never committed: it is somebody else's already.
//!
//! Handlers that outlive their partition are not its matter: they keep their [lanes](crate::lanes) taken, so that what is delivered
//! again waits for them.

use std::collections::{BTreeMap, BTreeSet};

use crate::partition::TopicPartition;

#[cfg(test)]
mod tests;

/// Where a partition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Not this worker's, and never was.
    Unassigned,
    /// Given by Kafka; the database is not yet told, or earlier owners are still being waited for.
    Sealing,
    /// Records are taken and handled.
    Active,
    /// Records are taken no more; handlers that run may finish.
    Draining,
    /// Given by Kafka, but another owner has sealed it since: nothing of it is handled.
    Fenced,
    /// Given back, after what was finished had been committed.
    Released,
    /// Gone without a word: the session was over, or the group went on without this worker. Nothing was committed.
    Lost,
}

impl Phase {
    /// Whether Kafka has left the partition to this worker.
    #[must_use]
    pub const fn is_assigned(self) -> bool {
        matches!(self, Self::Sealing | Self::Active | Self::Draining | Self::Fenced)
    }
}

/// The number of a grant: of the partitions that Kafka gave at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant(u64);

/// Something to do. `S` is what is known of a partition once it is sealed.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call<S> {
    /// Seal these, and report each by [`Assignment::sealed`].
    Seal {
        /// Their number, to be named in the reports.
        grant: Grant,
        /// All that the event is waiting for.
        partitions: Vec<TopicPartition>,
    },
    /// Stop these seals: one that came through now would fence the next owner.
    StopSealing(Vec<TopicPartition>),
    /// Start no handler of these any more; when none runs, or time is up, say [`Assignment::drained`].
    Drain(Vec<TopicPartition>),
    /// Commit what is finished of these.
    Commit(Vec<TopicPartition>),
    /// Cancel what runs of these, and commit nothing.
    Cancel(Vec<TopicPartition>),
    /// Call the consumer's `assign`, or under a cooperative protocol its `incremental_assign`.
    Assign {
        /// Those that are this worker's, with what is known of them.
        active: Vec<(TopicPartition, S)>,
        /// Those that another owner has sealed since. Kafka is to be told that they are assigned, but nothing is taken.
        fenced: Vec<TopicPartition>,
    },
    /// Call the consumer's `unassign`, or under a cooperative protocol its `incremental_unassign`.
    Unassign {
        /// All partitions of the event.
        partitions: Vec<TopicPartition>,
        /// Those among them for which `assign` was never called.
        never_assigned: Vec<TopicPartition>,
    },
}

/// The partitions of a worker. `S` is what is known of a partition once it is sealed.
///
/// # Contract
/// - What a method answers is done in its order, before the next method is called; a [`Call::Drain`] may take longer, and is
///   answered by [`drained`](Self::drained).
/// - Each event of Kafka's is answered exactly once, by an `Assign` or an `Unassign`, and in the order of the events: while a
///   drain is open no `Assign` is called for.
#[derive(Debug)]
pub struct Assignment<S> {
    phases: BTreeMap<TopicPartition, Phase>,
    pending: Option<Pending<S>>,
    revocation: Option<Revocation>,
    grants: u64,
}

#[derive(Debug)]
struct Pending<S> {
    grant: Grant,
    waiting: BTreeSet<TopicPartition>,
    answers: BTreeMap<TopicPartition, Option<S>>,
}

/// A revocation whose handlers may finish before it is answered.
#[derive(Debug, Default)]
struct Revocation {
    partitions: Vec<TopicPartition>,
    never_assigned: Vec<TopicPartition>,
}

impl<S> Assignment<S> {
    /// No partitions.
    #[must_use]
    pub const fn new() -> Self {
        Self { phases: BTreeMap::new(), pending: None, revocation: None, grants: 0 }
    }

    /// Kafka gave these partitions. Without any, the event is answered at once.
    pub fn assigned(&mut self, partitions: &[TopicPartition]) -> Vec<Call<S>> {
        self.grants += 1;
        let grant = Grant(self.grants);
        let mut waiting: BTreeSet<_> = partitions.iter().cloned().collect();
        // An event that was never answered is answered together with this one.
        if let Some(earlier) = self.pending.take() {
            waiting.extend(earlier.waiting);
            waiting.extend(earlier.answers.into_keys());
        }
        for partition in &waiting {
            self.phases.insert(partition.clone(), Phase::Sealing);
        }
        let to_seal: Vec<_> = waiting.iter().cloned().collect();
        self.pending = Some(Pending { grant, waiting, answers: BTreeMap::new() });
        if to_seal.is_empty() {
            return self.complete().into_iter().collect();
        }
        vec![Call::Seal { grant, partitions: to_seal }]
    }

    /// A partition is sealed, or, with `None`, another owner was faster. An answer to an earlier event changes nothing.
    pub fn sealed(&mut self, grant: Grant, partition: &TopicPartition, answer: Option<S>) -> Vec<Call<S>> {
        let Some(pending) = self.pending.as_mut().filter(|pending| pending.grant == grant) else {
            return Vec::new();
        };
        if pending.waiting.remove(partition) {
            pending.answers.insert(partition.clone(), answer);
        }
        self.complete().into_iter().collect()
    }

    /// Kafka takes these partitions back. With `drain`, handlers that run may finish before they are given back; otherwise they
    /// are given back at once.
    pub fn revoked(&mut self, partitions: &[TopicPartition], drain: bool) -> Vec<Call<S>> {
        let mut calls = Vec::new();
        let sealing = self.stop_sealing(partitions);
        let mut draining = Vec::new();
        for partition in partitions {
            if let Some(phase @ (Phase::Active | Phase::Draining)) = self.phases.get_mut(partition) {
                *phase = Phase::Draining;
                draining.push(partition.clone());
            }
        }
        let revocation = self.revocation.get_or_insert_default();
        revocation.partitions.extend_from_slice(partitions);
        revocation.never_assigned.extend_from_slice(&sealing);
        push_some(&mut calls, sealing, Call::StopSealing);
        if drain && !draining.is_empty() {
            calls.push(Call::Drain(draining));
        } else if !drain || self.draining().next().is_none() {
            calls.extend(self.drained());
        }
        calls
    }

    /// No handler of the partitions that Kafka takes back runs any more, or time is up.
    pub fn drained(&mut self) -> Vec<Call<S>> {
        let mut calls = Vec::new();
        let Some(Revocation { partitions, never_assigned }) = self.revocation.take() else { return calls };
        let is_draining = |partition: &&TopicPartition| self.phase(partition) == Phase::Draining;
        let finished: Vec<_> = partitions.iter().filter(is_draining).cloned().collect();
        push_some(&mut calls, finished, Call::Commit);
        for partition in &partitions {
            self.phases.insert(partition.clone(), Phase::Released);
        }
        calls.push(Call::Unassign { partitions, never_assigned });
        calls.extend(self.complete());
        calls
    }

    /// These partitions were lost: by now they may be anybody's.
    pub fn lost(&mut self, partitions: &[TopicPartition]) -> Vec<Call<S>> {
        let mut calls = Vec::new();
        let mut never_assigned = self.stop_sealing(partitions);
        push_some(&mut calls, never_assigned.clone(), Call::StopSealing);
        if let Some(revocation) = &mut self.revocation {
            revocation.partitions.retain(|partition| !partitions.contains(partition));
            let (lost, kept) = std::mem::take(&mut revocation.never_assigned)
                .into_iter()
                .partition::<Vec<_>, _>(|partition| partitions.contains(partition));
            revocation.never_assigned = kept;
            never_assigned.extend(lost);
            self.revocation.take_if(|revocation| revocation.partitions.is_empty());
        }
        let taken: Vec<_> =
            partitions.iter().filter(|partition| !never_assigned.contains(partition)).cloned().collect();
        push_some(&mut calls, taken, Call::Cancel);
        for partition in partitions {
            self.phases.insert(partition.clone(), Phase::Lost);
        }
        calls.push(Call::Unassign { partitions: partitions.to_vec(), never_assigned });
        calls.extend(self.complete());
        calls
    }

    /// The partitions that Kafka waits to be given back.
    pub fn draining(&self) -> impl Iterator<Item = &TopicPartition> {
        let taken = self.revocation.iter().flat_map(|revocation| &revocation.partitions);
        taken.filter(|partition| self.phase(partition) == Phase::Draining)
    }

    /// All partitions of a revocation that is not answered yet.
    #[must_use]
    pub fn open_revocation(&self) -> Option<&[TopicPartition]> {
        self.revocation.as_ref().map(|revocation| &*revocation.partitions)
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

    /// Every partition that was ever given, with where it stands.
    pub fn phases(&self) -> impl Iterator<Item = (&TopicPartition, Phase)> {
        self.phases.iter().map(|(partition, phase)| (partition, *phase))
    }

    /// Takes these out of the event that is being sealed; answers those that were in it.
    fn stop_sealing(&mut self, partitions: &[TopicPartition]) -> Vec<TopicPartition> {
        let is_sealing = |partition: &&TopicPartition| self.phase(partition) == Phase::Sealing;
        let sealing: Vec<_> = partitions.iter().filter(is_sealing).cloned().collect();
        if let Some(pending) = &mut self.pending {
            for partition in &sealing {
                pending.waiting.remove(partition);
                pending.answers.remove(partition);
            }
        }
        if !sealing.is_empty() {
            // If nothing is left of the event, its answer is the `unassign`.
            self.pending.take_if(|pending| pending.waiting.is_empty() && pending.answers.is_empty());
        }
        sealing
    }

    fn complete(&mut self) -> Option<Call<S>> {
        if self.revocation.is_some() {
            return None;
        }
        let pending = self.pending.take_if(|pending| pending.waiting.is_empty())?;
        let (mut active, mut fenced) = (Vec::new(), Vec::new());
        for (partition, answer) in pending.answers {
            let phase = if answer.is_some() { Phase::Active } else { Phase::Fenced };
            self.phases.insert(partition.clone(), phase);
            match answer {
                Some(sealed) => active.push((partition, sealed)),
                None => fenced.push(partition),
            }
        }
        Some(Call::Assign { active, fenced })
    }
}

impl<S> Default for Assignment<S> {
    fn default() -> Self {
        Self::new()
    }
}

fn push_some<S>(
    calls: &mut Vec<Call<S>>,
    partitions: Vec<TopicPartition>,
    call: impl FnOnce(Vec<TopicPartition>) -> Call<S>,
) {
    if !partitions.is_empty() {
        calls.push(call(partitions));
    }
}
