//! A member of the scripted group: it stands where the polling thread stands, and the broker does as it is told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::broker::Broker;
use crate::assignment::{Assignment, Call, Phase};
use crate::error::Error;
use crate::health::Stage;
use crate::partition::TopicPartition;
use crate::polling::{Control, Order, Setup, Start};

/// How long an order is waited for before there are new records.
const TICK: Duration = Duration::from_millis(1);
/// Records of a partition delivered at once. Few, so that a fault meets some that are still to come.
const BURST: usize = 4;

/// What the group does to a member.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Assign(TopicPartition),
    Revoke(TopicPartition),
    Lose(TopicPartition),
    /// Delivers so many records again.
    Again(TopicPartition, i64),
}

/// One worker's place in the group.
#[derive(Debug)]
pub(crate) struct Member {
    id: usize,
    broker: Arc<Broker>,
    events: Mutex<VecDeque<Event>>,
    crashed: CancellationToken,
}

struct Driver {
    member: Arc<Member>,
    setup: Setup,
    control: Arc<dyn Control>,
    assignment: Assignment<Start>,
    /// The next offset of each active partition.
    positions: BTreeMap<TopicPartition, i64>,
    paused: BTreeSet<TopicPartition>,
    draining: bool,
    drain_since: Instant,
    commit_at: Instant,
}

impl Member {
    pub(super) fn new(id: usize, broker: &Arc<Broker>) -> Arc<Self> {
        let (events, crashed) = (Mutex::default(), CancellationToken::new());
        Arc::new(Self { id, broker: Arc::clone(broker), events, crashed })
    }

    pub(super) const fn id(&self) -> usize {
        self.id
    }

    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// From now on nothing of this worker is heard any more; the script drops it.
    pub(crate) fn crash(&self) {
        self.crashed.cancel();
    }

    pub(super) fn has_crashed(&self) -> bool {
        self.crashed.is_cancelled()
    }

    pub(super) fn tell(&self, event: Event) {
        self.events().push_back(event);
    }

    /// Whether all events are answered.
    pub(super) fn has_answered(&self) -> bool {
        self.events().is_empty()
    }

    /// Starts what takes the place of the polling thread; the answer comes when it has ended.
    pub(crate) fn start(
        self: Arc<Self>,
        setup: Setup,
        control: Arc<dyn Control>,
        orders: Receiver<Order>,
    ) -> Result<oneshot::Receiver<Result<(), Error>>, Error> {
        let (answer, ended) = oneshot::channel();
        let now = Instant::now();
        let driver = Driver {
            member: self,
            commit_at: now + setup.commit_every,
            setup,
            control,
            assignment: Assignment::new(),
            positions: BTreeMap::new(),
            paused: BTreeSet::new(),
            draining: false,
            drain_since: now,
        };
        let thread = std::thread::Builder::new().name("leastlock-script".into());
        let spawned = thread.spawn(move || {
            // If the worker's future is gone nobody waits for the answer.
            let _ = answer.send(driver.run(&orders));
        });
        spawned.map(|_| ended).map_err(|_| Error::PollingThreadEnded)
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver {
    fn run(mut self, orders: &Receiver<Order>) -> Result<(), Error> {
        self.setup.probe.reached(Stage::Running);
        let ended = self.serve(orders);
        if !self.member.has_crashed() {
            self.commit();
        }
        let sealing: Vec<_> = self.assignment.in_phase(Phase::Sealing).cloned().collect();
        drop(self.control.take_away(&sealing, true));
        ended
    }

    fn serve(&mut self, orders: &Receiver<Order>) -> Result<(), Error> {
        loop {
            let mut order = orders.recv_timeout(TICK);
            loop {
                match order {
                    Ok(Order::Close) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    Ok(order) => self.obey(order),
                    Err(RecvTimeoutError::Timeout) => break,
                }
                order = orders.recv_timeout(Duration::ZERO);
            }
            if !self.member.has_crashed() {
                self.go_round();
            }
            let now = Instant::now();
            self.setup.probe.polled(now);
            if let Some(reason) = self.control.look(now) {
                return Err(reason);
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Sealed { grant, partition, start } => {
                let calls = self.assignment.sealed(grant, &partition, start);
                self.carry_out(calls);
            }
            Order::Fenced(partition) => {
                if self.assignment.fenced(&partition) {
                    self.positions.remove(&partition);
                    self.setup.probe.phases(self.assignment.phases());
                }
            }
            Order::Drain => {
                self.draining = true;
                self.assignment.drain();
            }
            Order::Close => {}
        }
    }

    fn go_round(&mut self) {
        let change = self.control.change();
        self.paused.extend(change.pause);
        self.paused.retain(|partition| !change.resume.contains(partition));
        if Instant::now() >= self.commit_at {
            self.commit_at = Instant::now() + self.setup.commit_every;
            self.commit();
        }
        self.deliver();
        self.answer();
    }

    fn commit(&self) {
        self.member.broker.commit(self.member.id, self.control.commits());
    }

    /// A client delivers nothing while a revocation waits for its answer.
    fn deliver(&mut self) {
        if self.draining || self.assignment.open_revocation().is_some() {
            return;
        }
        let mut records = Vec::new();
        for (partition, next) in &mut self.positions {
            if !self.paused.contains(partition) {
                records.extend(self.member.broker.fetch(partition, *next, BURST));
                *next =
                    records.last().filter(|last| last.source() == partition).map_or(*next, |last| last.offset() + 1);
            }
        }
        if !records.is_empty() {
            self.control.deliver(&mut records);
        }
    }

    /// Answers what the group wants, one event after the other.
    fn answer(&mut self) {
        if let Some(partitions) = self.assignment.open_revocation() {
            let is_late = self.drain_since.elapsed() >= self.setup.revoke_timeout.unwrap_or_default();
            if !is_late && !self.control.is_idle(partitions) {
                return;
            }
            let calls = self.assignment.drained();
            self.carry_out(calls);
            self.member.events().pop_front();
        }
        loop {
            // Taken off only when it is answered: until then the script waits.
            let event = self.member.events().front().cloned();
            let calls = match event {
                None => return,
                Some(Event::Assign(partition)) => self.assignment.assigned(&[partition]),
                Some(Event::Lose(partition)) => self.assignment.lost(&[partition]),
                Some(Event::Revoke(partition)) => {
                    self.assignment.revoked(&[partition], self.setup.revoke_timeout.is_some())
                }
                Some(Event::Again(partition, records)) => {
                    if let Some(next) = self.positions.get_mut(&partition) {
                        *next = (*next - records).max(0);
                    }
                    Vec::new()
                }
            };
            self.carry_out(calls);
            if self.assignment.open_revocation().is_some() {
                return;
            }
            self.member.events().pop_front();
        }
    }

    fn carry_out(&mut self, calls: Vec<Call<Start>>) {
        for call in calls {
            match call {
                Call::Seal { .. } if self.draining => {}
                Call::Seal { grant, partitions } => self.control.seal(grant, partitions),
                Call::StopSealing(partitions) | Call::Cancel(partitions) => {
                    drop(self.control.take_away(&partitions, true));
                }
                Call::Drain(partitions) => {
                    self.control.start_drain(&partitions);
                    self.drain_since = Instant::now();
                }
                Call::Commit(partitions) => {
                    let commits = self.control.take_away(&partitions, false);
                    self.member.broker.commit(self.member.id, commits);
                }
                Call::Assign { active, fenced: _ } => {
                    for (partition, start) in active {
                        self.paused.remove(&partition);
                        self.positions.insert(partition.clone(), start.offset);
                        self.control.activate(&partition, start);
                    }
                }
                Call::Unassign { partitions, never_assigned: _ } => {
                    drop(self.control.take_away(&partitions, false));
                    self.positions.retain(|partition, _| !partitions.contains(partition));
                }
            }
        }
        self.setup.probe.phases(self.assignment.phases());
    }
}
