//! One worker, its partitions, and Kafka. Every call of the machine is checked against what it promises.

use std::collections::{BTreeMap, BTreeSet};

use leastlock_partition_worker::assignment::{Call, Grant, Phase};
use leastlock_partition_worker::lanes::Lanes;
use leastlock_partition_worker::tracker::CommitTracker;
use leastlock_partition_worker::{Epoch, TopicPartition};

use crate::machine::{Job, Machine, Op, PARTITIONS, Protocol, chosen, lane};

/// Records of each partition, in two keys that take turns.
const RECORDS: i64 = 8;

#[derive(Debug, Default)]
struct Partition {
    /// What Kafka holds; below it everything has to be finished.
    committed: i64,
    finished: BTreeSet<i64>,
    /// What the worker knows while it takes records.
    tenure: Option<Tenure>,
}

#[derive(Debug)]
struct Tenure {
    tracker: CommitTracker,
    next: i64,
}

/// What Kafka waits for an answer to.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Assign(BTreeSet<TopicPartition>),
    Revoke(BTreeSet<TopicPartition>),
    Lost(BTreeSet<TopicPartition>),
}

type Checked = Result<(), String>;

pub(crate) struct World<M> {
    machine: M,
    protocol: Protocol,
    lanes: Lanes<Job>,
    running: Vec<Job>,
    partitions: BTreeMap<TopicPartition, Partition>,
    /// What Kafka has given and not taken back.
    given: BTreeSet<TopicPartition>,
    event: Option<Event>,
    seals: Vec<(Grant, TopicPartition)>,
    stopped: Vec<(Grant, TopicPartition)>,
    sealed: BTreeSet<TopicPartition>,
    draining: bool,
    epochs: i64,
}

impl<M: Machine> World<M> {
    /// Runs a history, and then on until everything is finished.
    pub(crate) fn run(protocol: Protocol, ops: &[Op]) -> Checked {
        let partitions = (0..PARTITIONS).map(|number| (TopicPartition::new("t", number), Partition::default()));
        let mut world = Self {
            machine: M::begin(),
            protocol,
            lanes: Lanes::new(4),
            running: Vec::new(),
            partitions: partitions.collect(),
            given: BTreeSet::new(),
            event: None,
            seals: Vec::new(),
            stopped: Vec::new(),
            sealed: BTreeSet::new(),
            draining: false,
            epochs: 0,
        };
        for op in ops {
            world.step(op)?;
        }
        world.end()
    }

    fn step(&mut self, op: &Op) -> Checked {
        match *op {
            // An eager group gives nothing before it has taken everything.
            Op::Give { mask }
                if self.event.is_none() && (self.protocol == Protocol::Cooperative || self.given.is_empty()) =>
            {
                self.give(|world, partition| chosen(mask, partition) && !world.given.contains(partition))?;
            }
            // While it waits for an `assign`, Kafka says nothing else but that all is lost.
            Op::TakeBack { mask } if self.event.is_none() => self.take_back(mask)?,
            Op::Return { mask } if self.event.is_none() => {
                let seal = Op::Seal { pick: 0, fenced: false };
                for op in [Op::TakeBack { mask }, Op::TimeUp, Op::Give { mask }, seal.clone(), seal.clone(), seal] {
                    self.step(&op)?;
                }
            }
            Op::Lose if !self.given.is_empty() => {
                let mut lost = std::mem::take(&mut self.given);
                if let Some(Event::Revoke(taken)) = self.event.take() {
                    lost.extend(taken);
                }
                let named: Vec<_> = lost.iter().cloned().collect();
                self.event = Some(Event::Lost(lost));
                self.draining = false;
                let calls = self.machine.lost(&named);
                self.obey(calls)?;
            }
            Op::Seal { pick, fenced } if !self.seals.is_empty() => {
                let (grant, partition) = self.seals.swap_remove(pick % self.seals.len());
                self.sealed.insert(partition.clone());
                let start = self.partitions[&partition].committed;
                let calls = self.machine.sealed(grant, &partition, (!fenced).then_some(start));
                self.obey(calls)?;
            }
            Op::LateSeal { pick } if !self.stopped.is_empty() => {
                let (grant, partition) = self.stopped.swap_remove(pick % self.stopped.len());
                let calls = self.machine.sealed(grant, &partition, Some(0));
                self.obey(calls)?;
            }
            Op::Deliver { partition } => self.deliver(&TopicPartition::new("t", partition))?,
            Op::Start => self.start()?,
            Op::Finish { pick } if !self.running.is_empty() => self.finish(pick)?,
            Op::TimeUp if self.draining => self.drained()?,
            Op::Others { partition, records } => self.others(&TopicPartition::new("t", partition), records),
            Op::Restart => self.restart()?,
            _ => {}
        }
        self.check()
    }

    fn give(&mut self, whether: impl Fn(&Self, &TopicPartition) -> bool) -> Checked {
        let given: BTreeSet<_> = self.partitions.keys().filter(|partition| whether(self, partition)).cloned().collect();
        self.given.extend(given.iter().cloned());
        for partition in &given {
            self.sealed.remove(partition);
        }
        let named: Vec<_> = given.iter().cloned().collect();
        self.event = Some(Event::Assign(given));
        let calls = self.machine.assigned(&named);
        self.obey(calls)
    }

    fn take_back(&mut self, mask: u8) -> Checked {
        let eager = self.protocol == Protocol::Eager;
        let (taken, kept): (BTreeSet<_>, BTreeSet<_>) =
            self.given.iter().cloned().partition(|partition| eager || chosen(mask, partition));
        if taken.is_empty() {
            return Ok(());
        }
        let named: Vec<_> = taken.iter().cloned().collect();
        let before = self.work_of(&kept);
        self.given.clone_from(&kept);
        self.event = Some(Event::Revoke(taken));
        let calls = self.machine.revoked(&named);
        self.obey(calls)?;
        if self.work_of(&kept) == before { Ok(()) } else { Err("a kept partition was disturbed".to_owned()) }
    }

    /// What is known of these partitions, so that it can be told whether they are left alone.
    fn work_of(&self, partitions: &BTreeSet<TopicPartition>) -> Vec<(Phase, Option<(usize, i64)>)> {
        let known = |tenure: &Tenure| (tenure.tracker.unfinished(), tenure.next);
        let of = |partition| (self.machine.phase(partition), self.partitions[partition].tenure.as_ref().map(known));
        partitions.iter().map(of).collect()
    }

    /// Does what the machine says, and checks that it may be said.
    fn obey(&mut self, calls: Vec<Call<i64>>) -> Checked {
        for call in calls {
            match call {
                Call::Seal { grant, partitions } => {
                    self.stopped.append(&mut self.seals);
                    self.seals.extend(partitions.into_iter().map(|partition| (grant, partition)));
                }
                Call::StopSealing(partitions) => {
                    let (stopped, goes_on) =
                        self.seals.drain(..).partition(|(_, partition)| partitions.contains(partition));
                    self.seals = goes_on;
                    self.stopped.extend::<Vec<_>>(stopped);
                }
                Call::Drain(partitions) => {
                    self.draining = true;
                    for partition in partitions {
                        self.lanes.purge(&partition);
                    }
                }
                Call::Commit(partitions) => self.commit(&partitions)?,
                Call::Cancel(partitions) => {
                    let tenures = partitions.iter().filter_map(|partition| self.partitions[partition].tenure.as_ref());
                    let lost: BTreeSet<_> = tenures.map(|tenure| tenure.tracker.epoch()).collect();
                    self.end_running(|job| lost.contains(&job.epoch));
                }
                Call::Assign { active, fenced } => self.assign(active, &fenced)?,
                Call::Unassign { partitions, .. } => self.unassign(&partitions)?,
                other => return Err(format!("an unknown call: {other:?}")),
            }
        }
        Ok(())
    }

    fn commit(&mut self, partitions: &[TopicPartition]) -> Checked {
        let Some(Event::Revoke(_)) = &self.event else { return Err("what is lost was committed".to_owned()) };
        for partition in partitions {
            let of = self.partitions.get_mut(partition).expect("it is one of them");
            let tenure = of.tenure.as_ref().ok_or("a partition was committed that is not active")?;
            of.committed = tenure.tracker.watermark();
            if (0..of.committed).any(|offset| !of.finished.contains(&offset)) {
                return Err("an unfinished record was committed".to_owned());
            }
        }
        Ok(())
    }

    fn assign(&mut self, active: Vec<(TopicPartition, i64)>, fenced: &[TopicPartition]) -> Checked {
        let named: BTreeSet<_> = active.iter().map(|(partition, _)| partition).chain(fenced).cloned().collect();
        match self.event.take() {
            Some(Event::Assign(given)) if given == named => {}
            other => return Err(format!("assign was called for {named:?} when Kafka waited for {other:?}")),
        }
        if named.iter().any(|partition| !self.sealed.contains(partition)) {
            return Err("assign was called before all were sealed".to_owned());
        }
        for (partition, start) in active {
            self.epochs += 1;
            let tracker = CommitTracker::new(Epoch::new(self.epochs), start);
            let of = self.partitions.get_mut(&partition).expect("it is one of them");
            of.tenure = Some(Tenure { tracker, next: start });
        }
        Ok(())
    }

    fn unassign(&mut self, partitions: &[TopicPartition]) -> Checked {
        let named: BTreeSet<_> = partitions.iter().cloned().collect();
        let graceful = match self.event.take() {
            Some(Event::Revoke(taken)) if taken == named => true,
            Some(Event::Lost(lost)) if lost == named => false,
            other => return Err(format!("unassign was called for {named:?} when Kafka waited for {other:?}")),
        };
        self.draining = false;
        for partition in partitions {
            let of = self.partitions.get_mut(partition).expect("it is one of them");
            self.lanes.purge(partition);
            if M::FORGETS_GHOSTS {
                let ghosts = self.running.iter().filter(|job| job.lane.partition == *partition);
                ghosts.for_each(|job| self.lanes.finish(&job.lane));
            }
            if let Some(tenure) = of.tenure.take()
                && graceful
                && tenure.tracker.watermark() != of.committed
            {
                return Err("finished work was given back uncommitted".to_owned());
            }
        }
        Ok(())
    }

    fn deliver(&mut self, partition: &TopicPartition) -> Checked {
        // Kafka delivers nothing at all while it waits for an answer.
        if self.event.is_some() {
            return Ok(());
        }
        let active = self.machine.phase(partition) == Phase::Active;
        let of = self.partitions.get_mut(partition).expect("it is one of them");
        let Some(tenure) = of.tenure.as_mut().filter(|tenure| tenure.next < RECORDS) else { return Ok(()) };
        if !active {
            return Err("a partition is assigned that is not active".to_owned());
        }
        let offset = tenure.next;
        tenure.next += 1;
        tenure.tracker.deliver(offset);
        self.lanes.push(Job { lane: lane(partition, offset), offset, epoch: tenure.tracker.epoch() });
        Ok(())
    }

    fn start(&mut self) -> Checked {
        let mut hand = Vec::new();
        if self.lanes.start(1, &mut hand) && self.running.iter().any(|other| other.lane == hand[0].lane) {
            return Err("two records of a key run at a time".to_owned());
        }
        self.running.append(&mut hand);
        Ok(())
    }

    fn finish(&mut self, pick: usize) -> Checked {
        let Job { lane, offset, epoch } = self.running.swap_remove(pick % self.running.len());
        self.lanes.finish(&lane);
        self.lanes.hand_is_over();
        let of = self.partitions.get_mut(&lane.partition).expect("it is one of them");
        of.finished.insert(offset);
        if let Some(tenure) = &mut of.tenure {
            let _ = tenure.tracker.finish(epoch, offset);
        }
        let idle = self.running.iter().all(|job| self.machine.phase(&job.lane.partition) != Phase::Draining);
        if self.draining && idle { self.drained() } else { Ok(()) }
    }

    fn drained(&mut self) -> Checked {
        let calls = self.machine.drained();
        self.obey(calls)
    }

    fn others(&mut self, partition: &TopicPartition, records: i64) {
        let of = self.partitions.get_mut(partition).expect("it is one of them");
        if of.tenure.is_none() && !self.given.contains(partition) {
            let upto = (of.committed + records).min(RECORDS);
            of.finished.extend(of.committed..upto);
            of.committed = upto;
        }
    }

    fn restart(&mut self) -> Checked {
        let given = std::mem::take(&mut self.given);
        if given.is_empty() || self.event.is_some() {
            self.given = given;
            return Ok(());
        }
        self.machine = M::begin();
        self.lanes = Lanes::new(4);
        self.running.clear();
        self.seals.clear();
        self.stopped.clear();
        self.partitions.values_mut().for_each(|of| of.tenure = None);
        self.give(|_, partition| given.contains(partition))
    }

    fn end_running(&mut self, which: impl Fn(&Job) -> bool) {
        for job in self.running.extract_if(.., |job| which(job)) {
            self.lanes.finish(&job.lane);
            self.lanes.hand_is_over();
        }
    }

    fn check(&self) -> Checked {
        for (partition, of) in &self.partitions {
            if (0..of.committed).any(|offset| !of.finished.contains(&offset)) {
                return Err(format!("{partition}: an unfinished record was passed"));
            }
        }
        Ok(())
    }

    /// Everything goes on until all is finished that can be; if it does not, something waits for ever.
    fn end(&mut self) -> Checked {
        for _ in 0..2_000 {
            let left = self.partitions.values().any(|of| of.finished.len() < usize::try_from(RECORDS).expect("small"));
            if !left && self.event.is_none() {
                return Ok(());
            }
            for partition in 0..PARTITIONS {
                self.step(&Op::Deliver { partition })?;
            }
            self.step(&Op::Start)?;
            self.step(&Op::Finish { pick: 0 })?;
            self.step(&Op::TimeUp)?;
            self.step(&Op::Seal { pick: 0, fenced: false })?;
            self.step(&Op::Give { mask: u8::MAX })?;
            // A partition that another owner has sealed since comes back after a rejoin.
            let fenced = |partition: &TopicPartition| self.machine.phase(partition) == Phase::Fenced;
            let eager_has_some = self.protocol == Protocol::Eager && self.given.len() < self.partitions.len();
            if self.event.is_none() && (eager_has_some || self.given.iter().any(fenced)) {
                self.step(&Op::TakeBack { mask: u8::MAX })?;
            }
        }
        Err("the worker stalls".to_owned())
    }
}
