//! Workers of a scripted group, and what is done to them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::broker::Broker;
use super::member::{Event, Member};
use super::{Fault, TestError, Under};
use crate::assignment::Phase;
use crate::error::Error;
use crate::health::Probe;
use crate::partition::TopicPartition;
use crate::summary::Summary;

/// How often it is looked how far the workers are.
const LOOK: Duration = Duration::from_millis(2);
/// How long a step, and a whole run, may take. Long enough for a loaded machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// So many workers at a time at most, beside those that are standing in for a crashed one.
const WORKERS: usize = 3;

/// A worker that has been started.
pub(super) struct Started {
    pub(super) probe: Probe,
    pub(super) task: JoinHandle<Result<Summary, Error>>,
    pub(super) shutdown: CancellationToken,
}

struct Running {
    member: Arc<Member>,
    worker: Started,
}

pub(super) struct Group<S> {
    broker: Arc<Broker>,
    partitions: Vec<TopicPartition>,
    start: S,
    members: Vec<Running>,
    next_id: usize,
    /// Who still believes to own a partition that was given to another.
    stale: Vec<(usize, TopicPartition)>,
    pub(super) under: Under,
    deadline: Instant,
}

impl<S: FnMut(Arc<Member>) -> Result<Started, Error>> Group<S> {
    /// One worker, which gets all partitions.
    pub(super) fn new(broker: Arc<Broker>, topics: &[String], start: S, under: Under) -> Result<Self, TestError> {
        let partitions = broker.partitions(topics);
        let deadline = Instant::now() + PATIENCE;
        let mut group =
            Self { broker, partitions, start, members: Vec::new(), next_id: 0, stale: Vec::new(), under, deadline };
        let first = group.join()?;
        for partition in group.partitions.clone() {
            group.give(&partition, first);
        }
        Ok(group)
    }

    /// Waits until so many calls were made of handlers; answers whether all records were finished before.
    pub(super) async fn until_calls(&mut self, calls: u64) -> Result<bool, TestError> {
        loop {
            self.tend().await?;
            if self.is_finished() {
                return Ok(true);
            }
            if self.broker.calls() >= calls {
                return Ok(false);
            }
            self.wait("the records to be finished").await?;
        }
    }

    /// Ends all workers in order; answers what the last one did.
    pub(super) async fn end(mut self) -> Result<Summary, TestError> {
        let mut last = Summary::default();
        for Running { worker, .. } in std::mem::take(&mut self.members) {
            worker.shutdown.cancel();
            last = self.ended(worker.task.await)?;
        }
        Ok(last)
    }

    pub(super) async fn disturb(&mut self, rng: &mut fastrand::Rng, fault: Fault) -> Result<(), TestError> {
        for (id, partition) in std::mem::take(&mut self.stale) {
            self.tell(id, &Event::Lose(partition));
        }
        self.under.faults.push(fault);
        let Some(partition) = rng.choice(&self.partitions).cloned() else { return Ok(()) };
        let owner = self.until_active(&partition).await?;
        match fault {
            Fault::Revoked => {
                self.tell(owner, &Event::Revoke(partition.clone()));
                while self.answers(owner) {
                    self.wait("a revocation to be answered").await?;
                }
                let next = self.any(rng)?;
                self.give(&partition, next);
            }
            Fault::Lost => {
                self.tell(owner, &Event::Lose(partition.clone()));
                let next = self.any(rng)?;
                self.give(&partition, next);
            }
            Fault::Stolen => {
                let next = self.other_than(owner)?;
                self.stale.push((owner, partition.clone()));
                self.give(&partition, next);
            }
            Fault::Redelivered => self.tell(owner, &Event::Again(partition, rng.i64(1..=8))),
            Fault::Crashed => self.of(owner).for_each(|running| running.member.crash()),
            armed => self.broker.arm(Some(armed)),
        }
        Ok(())
    }

    /// The owner of a partition, once it has sealed it.
    async fn until_active(&mut self, partition: &TopicPartition) -> Result<usize, TestError> {
        loop {
            self.tend().await?;
            if let Some(owner) = self.broker.owner(partition)
                && self.phase(owner, partition) == Some(Phase::Active)
            {
                return Ok(owner);
            }
            self.wait("a partition to be taken over").await?;
        }
    }

    /// Puts workers in the place of those that have crashed, and has partitions joined anew that nobody works on.
    async fn tend(&mut self) -> Result<(), TestError> {
        while let Some(index) = self.members.iter().position(|running| running.member.has_crashed()) {
            let Running { member, worker } = self.members.swap_remove(index);
            worker.task.abort();
            // It is over either way.
            drop(worker.task.await);
            let next = self.join()?;
            for partition in self.owned_by(member.id()) {
                self.give(&partition, next);
            }
        }
        if let Some(index) = self.members.iter().position(|running| running.worker.task.is_finished()) {
            let ended = self.members.swap_remove(index).worker.task.await;
            self.ended(ended)?;
            return Err(TestError::Worker { under: self.under.clone(), source: Box::new(Error::PollingThreadEnded) });
        }
        for partition in self.partitions.clone() {
            if let Some(owner) = self.broker.owner(&partition)
                && self.phase(owner, &partition) == Some(Phase::Fenced)
                && !self.answers(owner)
            {
                self.tell(owner, &Event::Lose(partition.clone()));
                self.give(&partition, owner);
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        let is_finished = |partition: &TopicPartition| {
            let owner = self.broker.owner(partition)?;
            let lag = self.of(owner).next()?.worker.probe.lag();
            Some(lag.get(partition)?.watermark >= self.broker.range(partition).1)
        };
        self.partitions.iter().all(|partition| is_finished(partition) == Some(true))
    }

    fn join(&mut self) -> Result<usize, TestError> {
        let member = Member::new(self.next_id, &self.broker);
        let started = (self.start)(Arc::clone(&member));
        let worker =
            started.map_err(|source| TestError::Worker { under: self.under.clone(), source: Box::new(source) })?;
        self.members.push(Running { member, worker });
        self.next_id += 1;
        Ok(self.next_id - 1)
    }

    fn give(&self, partition: &TopicPartition, id: usize) {
        self.broker.own(partition, id);
        self.tell(id, &Event::Assign(partition.clone()));
    }

    fn any(&mut self, rng: &mut fastrand::Rng) -> Result<usize, TestError> {
        if self.members.len() < WORKERS && rng.bool() {
            return self.join();
        }
        match rng.choice(&self.members) {
            Some(running) => Ok(running.member.id()),
            None => self.join(),
        }
    }

    fn other_than(&mut self, id: usize) -> Result<usize, TestError> {
        match self.members.iter().find(|running| running.member.id() != id) {
            Some(running) => Ok(running.member.id()),
            None => self.join(),
        }
    }

    fn owned_by(&self, id: usize) -> Vec<TopicPartition> {
        self.partitions.iter().filter(|partition| self.broker.owner(partition) == Some(id)).cloned().collect()
    }

    fn of(&self, id: usize) -> impl Iterator<Item = &Running> {
        self.members.iter().filter(move |running| running.member.id() == id)
    }

    fn tell(&self, id: usize, event: &Event) {
        self.of(id).for_each(|running| running.member.tell(event.clone()));
    }

    /// Whether a member is still about to answer the group.
    fn answers(&self, id: usize) -> bool {
        self.of(id).any(|running| !running.member.has_crashed() && !running.member.has_answered())
    }

    fn phase(&self, id: usize, partition: &TopicPartition) -> Option<Phase> {
        self.of(id).next()?.worker.probe.health().partitions.get(partition).copied()
    }

    async fn wait(&self, what: &'static str) -> Result<(), TestError> {
        if Instant::now() >= self.deadline {
            return Err(TestError::NotInTime { what, under: self.under.clone() });
        }
        tokio::time::sleep(LOOK).await;
        Ok(())
    }

    fn ended(&self, ended: Result<Result<Summary, Error>, tokio::task::JoinError>) -> Result<Summary, TestError> {
        let ended = ended.unwrap_or(Err(Error::PollingThreadEnded));
        ended.map_err(|source| TestError::Worker { under: self.under.clone(), source: Box::new(source) })
    }
}

impl<S> Drop for Group<S> {
    /// No worker outlives its group, however that ends.
    fn drop(&mut self) {
        for Running { member, worker } in &self.members {
            member.crash();
            worker.task.abort();
        }
    }
}
