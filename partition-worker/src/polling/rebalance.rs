//! What Kafka gives, takes back and loses, and the consumer's answers.

use std::time::{Duration, Instant};

use rdkafka::consumer::{Consumer, RebalanceProtocol};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::Start;
use super::context::Rebalance;
use super::poller::{Poller, failed, list_of};
use crate::assignment::{Call, Phase};
use crate::error::Error;
use crate::health::Stage;
#[cfg(feature = "metrics")]
use crate::metrics::record;
use crate::partition::TopicPartition;

/// A drain that ends so long after its time was up has stood still meanwhile, with the whole process, and its session may be over.
/// The client does not say that it lost an assignment while it waits for an answer (librdkafka#5604), so nothing is committed.
const OVERSLEPT: Duration = Duration::from_secs(5);

/// How long handlers that were cancelled may take to end before the group is left for an error: less than a session.
const CANCEL_PATIENCE: Duration = Duration::from_secs(2);
const BREATH: Duration = Duration::from_millis(1);

impl Poller {
    pub(super) fn answer_rebalances(&mut self) -> Result<(), Error> {
        loop {
            self.end_drain()?;
            if self.assignment.open_revocation().is_some() {
                return Ok(());
            }
            let Some(rebalance) = self.consumer.context().next_rebalance() else { return Ok(()) };
            let calls = match rebalance {
                Rebalance::Assign(partitions) => {
                    tracing::info!(partitions = partitions.len(), "partitions were assigned");
                    #[cfg(feature = "metrics")]
                    record::rebalanced("assigned", partitions.len());
                    self.assignment.assigned(&partitions)
                }
                Rebalance::Revoke(partitions) => {
                    let lost = self.consumer.assignment_lost();
                    tracing::info!(partitions = partitions.len(), lost, "partitions were taken back");
                    #[cfg(feature = "metrics")]
                    record::rebalanced(if lost { "lost" } else { "revoked" }, partitions.len());
                    if lost {
                        self.assignment.lost(&partitions)
                    } else {
                        self.assignment.revoked(&partitions, self.setup.revoke_timeout.is_some())
                    }
                }
            };
            self.carry_out(calls)?;
        }
    }

    /// Answers a revocation whose handlers have finished, or have had their time.
    fn end_drain(&mut self) -> Result<(), Error> {
        let Some(partitions) = self.assignment.open_revocation() else { return Ok(()) };
        let (ran, limit) = (self.drain_since.elapsed(), self.setup.revoke_timeout.unwrap_or_default());
        let calls = if self.consumer.assignment_lost() || ran >= limit + OVERSLEPT {
            let partitions = partitions.to_vec();
            tracing::warn!(partitions = partitions.len(), "partitions were lost before their handlers had finished");
            self.assignment.lost(&partitions)
        } else if ran >= limit || self.control.is_idle(partitions) {
            self.assignment.drained()
        } else {
            return Ok(());
        };
        #[cfg(feature = "metrics")]
        record::drained(ran);
        self.carry_out(calls)
    }

    /// Does what the state machine says, in its order.
    pub(super) fn carry_out(&mut self, calls: Vec<Call<Start>>) -> Result<(), Error> {
        for call in calls {
            match call {
                Call::Seal { .. } if self.draining => {}
                Call::Seal { grant, partitions } => self.control.seal(grant, partitions),
                Call::StopSealing(partitions) | Call::Cancel(partitions) => {
                    self.commits.forget(&partitions);
                    drop(self.control.take_away(&partitions, true));
                }
                Call::Drain(partitions) => {
                    self.control.start_drain(&partitions);
                    self.drain_since = Instant::now();
                }
                Call::Commit(partitions) => {
                    self.commits.forget(&partitions);
                    let commits = self.control.take_away(&partitions, false);
                    self.commit_last(commits);
                }
                Call::Assign { active, fenced } => self.assign(active, &fenced)?,
                Call::Unassign { partitions, never_assigned } => self.unassign(&partitions, &never_assigned)?,
            }
        }
        self.setup.probe.phases(self.assignment.phases());
        Ok(())
    }

    /// Tells Kafka where the records of the sealed partitions are to start.
    fn assign(&mut self, active: Vec<(TopicPartition, Start)>, fenced: &[TopicPartition]) -> Result<(), Error> {
        let mut list = TopicPartitionList::new();
        let mut add = |partition: &TopicPartition, offset| {
            let added = list.add_partition_offset(partition.topic(), partition.partition(), offset);
            added.map_err(failed("naming an offset"))
        };
        for (partition, start) in &active {
            add(partition, Offset::Offset(start.offset))?;
        }
        for partition in fenced {
            add(partition, Offset::End)?;
        }
        for (partition, start) in active {
            self.control.activate(&partition, start);
        }
        let assigned =
            if self.is_cooperative() { self.consumer.incremental_assign(&list) } else { self.consumer.assign(&list) };
        assigned.map_err(failed("assigning"))?;
        // A pause in force when a partition was last assigned is still in force; the limits start anew.
        self.consumer.resume(&list).map_err(failed("resuming"))?;
        self.setup.probe.reached(Stage::Running);
        if !fenced.is_empty() {
            self.pause(fenced)?;
            self.rejoin_later();
        }
        Ok(())
    }

    fn unassign(&mut self, partitions: &[TopicPartition], never_assigned: &[TopicPartition]) -> Result<(), Error> {
        // Also those that were neither committed nor cancelled: what another owner has sealed since.
        drop(self.control.take_away(partitions, false));
        if !self.is_cooperative() {
            return self.consumer.unassign().map_err(failed("unassigning"));
        }
        if !never_assigned.is_empty() {
            // librdkafka refuses to take back what it was never told to be assigned. Nothing is polled in between.
            self.consumer.incremental_assign(&list_of(never_assigned)).map_err(failed("assigning"))?;
        }
        self.consumer.incremental_unassign(&list_of(partitions)).map_err(failed("unassigning"))
    }

    pub(super) fn rejoin_later(&mut self) {
        self.rejoin_at.get_or_insert(Instant::now() + self.setup.rejoin_after);
    }

    /// A partition that Kafka still leaves to this worker, after another has sealed it, would be worked on by nobody. By now
    /// Kafka has told whoever of the two was wrong; joining anew has the rest sealed anew.
    pub(super) fn rejoin(&mut self) -> Result<(), Error> {
        if self.draining || self.leaving.is_some() || self.rejoin_at.is_none_or(|at| Instant::now() < at) {
            return Ok(());
        }
        self.rejoin_at = None;
        if self.assignment.in_phase(Phase::Fenced).next().is_none() {
            return Ok(());
        }
        tracing::warn!("joining the group anew, since a partition is fenced that Kafka leaves to this worker");
        self.consumer.unsubscribe();
        let names: Vec<&str> = self.setup.topics.iter().map(String::as_str).collect();
        self.consumer.subscribe(&names).map_err(failed("subscribing"))
    }

    /// The group is about to be left for an error, or has another member in this worker's place, which is `lost`. Where nothing but this
    /// worker keeps its handlers from running beside the next owner's, they are ended before.
    pub(super) fn give_up(&mut self, lost: bool) {
        if self.setup.revoke_timeout.is_none() {
            return;
        }
        self.draining = true;
        let owned: Vec<_> = self.assignment.phases().filter(|(_, phase)| phase.is_assigned()).collect();
        let owned: Vec<_> = owned.into_iter().map(|(partition, _)| partition.clone()).collect();
        self.commits.forget(&owned);
        let commits = self.control.take_away(&owned, lost);
        if !lost {
            self.commit_last(commits);
        }
        // One that blocks its thread cannot be ended, and is left behind.
        let began = Instant::now();
        while !self.control.is_idle(&owned) && began.elapsed() < CANCEL_PATIENCE {
            std::thread::sleep(BREATH);
        }
    }

    /// Commits what is finished, and leaves the group: the consumer's drop does that.
    pub(super) fn close(mut self) {
        self.draining = true;
        // Whatever was said before; the consumer's drop waits for it.
        self.control.commit_again();
        let commits = self.control.commits();
        self.commit_last(commits);
        // A revocation that is open has had its time: the worker has waited for what runs.
        let answered = self.assignment.drained();
        if let Err(error) = self.carry_out(answered).and_then(|()| self.answer_rebalances()) {
            tracing::debug!(%error, "a rebalance while closing");
        }
        self.consumer.context().close();
        let sealing: Vec<_> = self.assignment.in_phase(Phase::Sealing).cloned().collect();
        if !sealing.is_empty() {
            // The consumer waits for the answer to this assignment before it can leave.
            let answered = if self.is_cooperative() {
                self.consumer.incremental_assign(&list_of(&sealing))
            } else {
                self.consumer.unassign()
            };
            if let Err(error) = answered {
                tracing::debug!(%error, "an assignment while closing");
            }
        }
        drop(self.control.take_away(&sealing, true));
    }

    pub(super) fn is_cooperative(&self) -> bool {
        matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }
}
