//! The polling loop: it delivers records, and answers rebalances.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, RebalanceProtocol};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::context::{Context, Rebalance};
use super::{Control, Order, Setup, Start, copy};
use crate::assignment::{Assignment, Phase, Ready};
use crate::error::Error;
use crate::flow::Change;
use crate::partition::TopicPartition;
use crate::record::Record;
use crate::runs::Commit;

/// How long a poll waits, and so how long an order may wait. Handlers do not wait for it.
const POLL: Duration = Duration::from_millis(20);
/// How long handlers are given, at a limit, before a partition is paused; and after it was in vain, they are given no time
/// for so many times as long: then other partitions, which are not at their limit, do not wait either.
const STANDSTILL: Duration = Duration::from_millis(100);
const STOOD_IN_VAIN: u32 = 10;
const BREATH: Duration = Duration::from_micros(500);
/// Records taken before orders and limits are looked at again.
const BURST: usize = 128;
/// How often it is looked whether the handlers of revoked partitions have finished.
const LOOK: Duration = Duration::from_millis(2);
/// Every so many commits, what has not changed is committed as well, in case it never arrived.
const COMMIT_ALL_EVERY: u32 = 10;

pub(super) struct Poller {
    consumer: BaseConsumer<Context>,
    setup: Setup,
    control: Arc<dyn Control>,
    orders: Receiver<Order>,
    assignment: Assignment<Start>,
    sources: copy::Sources,
    draining: bool,
    commit_due: Instant,
    commits: u32,
    rejoin_at: Option<Instant>,
    burst: Vec<Record>,
    /// No standing still at a limit before.
    stand_again: Instant,
    /// The largest metadata that the broker has taken, in bytes.
    metadata_taken: usize,
}

impl Poller {
    pub(super) fn new(
        consumer: BaseConsumer<Context>,
        setup: Setup,
        control: Arc<dyn Control>,
        orders: Receiver<Order>,
    ) -> Self {
        Self {
            consumer,
            commit_due: Instant::now() + setup.commit_every,
            setup,
            control,
            orders,
            assignment: Assignment::new(),
            sources: copy::Sources::new(),
            draining: false,
            commits: 0,
            rejoin_at: None,
            burst: Vec::with_capacity(BURST),
            stand_again: Instant::now(),
            metadata_taken: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<(), Error> {
        let ended = self.serve();
        self.close();
        ended
    }

    fn serve(&mut self) -> Result<(), Error> {
        loop {
            loop {
                match self.orders.try_recv() {
                    Ok(Order::Close) | Err(TryRecvError::Disconnected) => return Ok(()),
                    Ok(order) => self.obey(order)?,
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.apply_limits()?;
            self.commit_if_due();
            self.rejoin()?;
            self.poll()?;
            self.answer_rebalances()?;
        }
    }

    fn poll(&mut self) -> Result<(), Error> {
        let mut wait = POLL;
        let mut judged = Ok(());
        let mut now = None;
        for _ in 0..BURST {
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    let now = *now.get_or_insert_with(Instant::now);
                    self.burst.push(copy::record(&mut self.sources, &message).with_polled_at(now));
                }
                Some(Err(error)) => judged = judge(error),
            }
            if judged.is_err() || self.consumer.context().has_rebalance() {
                break;
            }
            wait = Duration::ZERO;
        }
        if !self.burst.is_empty() {
            self.control.deliver(&mut self.burst);
        }
        judged
    }

    fn obey(&mut self, order: Order) -> Result<(), Error> {
        match order {
            Order::Sealed { batch, partition, start } => {
                if let Some(ready) = self.assignment.sealed(batch, &partition, start) {
                    self.assign(ready)?;
                }
            }
            Order::Fenced(partition) => {
                if self.assignment.fenced(&partition) {
                    self.pause(&[partition])?;
                    self.rejoin_later();
                }
            }
            Order::Drain => {
                self.draining = true;
                let active: Vec<_> = self.assignment.in_phase(Phase::Active).cloned().collect();
                self.assignment.drain();
                self.pause(&active)?;
            }
            Order::Close => {}
        }
        Ok(())
    }

    fn answer_rebalances(&mut self) -> Result<(), Error> {
        while let Some(rebalance) = self.consumer.context().next_rebalance() {
            match rebalance {
                Rebalance::Assign(partitions) => {
                    tracing::info!(partitions = partitions.len(), "partitions were assigned");
                    let (batch, ready) = self.assignment.assigned(&partitions);
                    if let Some(ready) = ready {
                        self.assign(ready)?;
                    } else if !self.draining {
                        self.control.seal(batch, self.assignment.to_seal(batch));
                    }
                }
                Rebalance::Revoke(partitions) => self.revoke(&partitions)?,
            }
        }
        Ok(())
    }

    /// Tells Kafka where the records of the sealed partitions are to start.
    fn assign(&mut self, ready: Ready<Start>) -> Result<(), Error> {
        let mut list = TopicPartitionList::new();
        let mut add = |partition: &TopicPartition, offset| {
            let added = list.add_partition_offset(partition.topic(), partition.partition(), offset);
            added.map_err(failed("naming an offset"))
        };
        for (partition, start) in &ready.active {
            add(partition, Offset::Offset(start.offset))?;
        }
        for partition in &ready.fenced {
            add(partition, Offset::End)?;
        }
        for (partition, start) in ready.active {
            self.control.activate(&partition, start);
        }
        let assigned =
            if self.is_cooperative() { self.consumer.incremental_assign(&list) } else { self.consumer.assign(&list) };
        assigned.map_err(failed("assigning"))?;
        // A pause in force when a partition was last assigned is still in force; the limits start anew.
        self.consumer.resume(&list).map_err(failed("resuming"))?;
        if !ready.fenced.is_empty() {
            self.pause(&ready.fenced)?;
            self.rejoin_later();
        }
        Ok(())
    }

    /// Gives partitions back at once: what runs finishes, or is fenced, and the next owner's seal waits for it.
    fn revoke(&mut self, partitions: &[TopicPartition]) -> Result<(), Error> {
        let lost = self.consumer.assignment_lost();
        tracing::info!(partitions = partitions.len(), lost, "partitions were taken back");
        let taken = self.assignment.taken(partitions);
        if let Some(patience) = self.setup.revoke_timeout.filter(|_| !lost) {
            self.quiet(partitions, patience);
        }
        let commits = self.control.take_away(partitions, lost);
        if !lost {
            self.commit(commits, self.last_commit());
        }
        if self.is_cooperative() {
            if !taken.sealing.is_empty() {
                // librdkafka refuses to take back what it was never told to be assigned. Nothing is polled in between.
                self.consumer.incremental_assign(&list_of(&taken.sealing)).map_err(failed("assigning"))?;
            }
            self.consumer.incremental_unassign(&list_of(partitions)).map_err(failed("unassigning"))?;
        } else {
            self.consumer.unassign().map_err(failed("unassigning"))?;
        }
        match taken.ready {
            Some(ready) => self.assign(ready),
            None => Ok(()),
        }
    }

    /// Lets the handlers of these partitions finish: without a database, what they have done and the commit does not say is
    /// done again. Nothing is polled meanwhile, since the records of other partitions do not come either before the answer.
    fn quiet(&self, partitions: &[TopicPartition], patience: Duration) {
        let deadline = Instant::now() + patience;
        self.control.quiesce(partitions);
        while !self.control.is_quiet(partitions) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }

    /// Pauses what holds too much, and lets go on what does not any more.
    ///
    /// A pause is dear: librdkafka drops all that it has fetched ahead. Where handlers are quick it is over before the next
    /// fetch, so they are given a moment first, in which nothing is polled. What still holds too much then is paused, which
    /// also lets a rebalance through that stands behind its records in librdkafka's queue.
    fn apply_limits(&mut self) -> Result<(), Error> {
        if self.draining {
            return Ok(());
        }
        let Change { mut pause, mut resume } = self.control.change();
        let began = Instant::now();
        while !pause.is_empty() && began >= self.stand_again && began.elapsed() < STANDSTILL {
            std::thread::sleep(BREATH);
            let change = self.control.change();
            pause.extend(change.pause);
            resume.extend(change.resume);
            pause.retain(|partition| match resume.iter().position(|resumed| resumed == partition) {
                // It is as it was.
                Some(place) => {
                    resume.swap_remove(place);
                    false
                }
                None => true,
            });
        }
        if !pause.is_empty() && began >= self.stand_again {
            self.stand_again = Instant::now() + STANDSTILL * STOOD_IN_VAIN;
        }
        self.pause(&pause)?;
        self.resume(&resume)
    }

    fn resume(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        if partitions.is_empty() {
            return Ok(());
        }
        self.consumer.resume(&list_of(partitions)).map_err(failed("resuming"))?;
        // Alone it is noticed when librdkafka's thread of the broker has slept to its end, for up to a second; a seek, to where
        // the partition is anyway, wakes it.
        let positions = self.consumer.position().map_err(failed("asking for the position"))?;
        for partition in partitions {
            let (topic, number) = (partition.topic(), partition.partition());
            let position = positions.find_partition(topic, number).map(|element| element.offset());
            if let Some(position @ Offset::Offset(_)) = position
                && let Err(error) = self.consumer.seek(topic, number, position, Duration::ZERO)
            {
                tracing::debug!(%partition, %error, "a partition goes on a little later");
            }
        }
        Ok(())
    }

    fn pause(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        if partitions.is_empty() {
            return Ok(());
        }
        self.consumer.pause(&list_of(partitions)).map_err(failed("pausing"))
    }

    /// Commits from time to time. librdkafka sends explicit commits in order, logs the failure of one, and tells nobody how it
    /// ended; so where the commit decides what is done again, everything is committed each time.
    fn commit_if_due(&mut self) {
        let now = Instant::now();
        if now < self.commit_due {
            return;
        }
        self.commit_due = now + self.setup.commit_every;
        self.commits = self.commits.wrapping_add(1);
        if self.setup.revoke_timeout.is_some() || self.commits.is_multiple_of(COMMIT_ALL_EVERY) {
            self.control.commit_again();
        }
        let commits = self.control.commits();
        self.commit(commits, CommitMode::Async);
    }

    fn commit(&mut self, mut commits: Vec<(TopicPartition, Commit)>, mode: CommitMode) {
        self.try_metadata(&mut commits);
        if commits.is_empty() {
            return;
        }
        if let Err(error) = self.consumer.commit(&commit_list(&commits), mode) {
            tracing::warn!(%error, "offsets were not committed");
        }
    }

    /// A broker that takes no metadata of some size refuses the offset with it. So what is larger than all before is
    /// committed alone, and its answer is waited for.
    fn try_metadata(&mut self, commits: &mut [(TopicPartition, Commit)]) {
        let largest = commits.iter().max_by_key(|(_, commit)| commit.metadata.len());
        let Some(largest) = largest.filter(|(_, commit)| commit.metadata.len() > self.metadata_taken) else { return };
        let size = largest.1.metadata.len();
        match self.consumer.commit(&commit_list(std::slice::from_ref(largest)), CommitMode::Sync) {
            Ok(()) => self.metadata_taken = size,
            Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::OffsetMetadataTooLarge)) => {
                tracing::warn!(
                    size,
                    "the broker takes no metadata of this size (offset.metadata.max.bytes); it is cut"
                );
                self.control.metadata_refused(self.metadata_taken.max(size / 2));
                for (_, commit) in commits.iter_mut().filter(|(_, commit)| commit.metadata.len() > self.metadata_taken)
                {
                    commit.metadata.clear();
                }
            }
            Err(error) => tracing::warn!(%error, "an offset was not committed"),
        }
    }

    /// How the last commit before a partition is given up is made.
    const fn last_commit(&self) -> CommitMode {
        if self.setup.revoke_timeout.is_some() { CommitMode::Sync } else { CommitMode::Async }
    }

    fn rejoin_later(&mut self) {
        self.rejoin_at.get_or_insert(Instant::now() + self.setup.rejoin_after);
    }

    /// A partition that Kafka still leaves to this worker, after another has sealed it, would be worked on by nobody. By now
    /// Kafka has told whoever of the two was wrong; joining anew has the rest sealed anew.
    fn rejoin(&mut self) -> Result<(), Error> {
        if self.draining || self.rejoin_at.is_none_or(|at| Instant::now() < at) {
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

    /// Commits what is finished, and leaves the group: the consumer's drop does that.
    fn close(mut self) {
        self.draining = true;
        // The consumer's drop waits for it.
        self.commit(self.control.commits(), self.last_commit());
        if let Err(error) = self.answer_rebalances() {
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
        self.control.take_away(&sealing, true);
    }

    fn is_cooperative(&self) -> bool {
        matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }
}

/// An error in place of a record: most pass by themselves, since librdkafka goes on trying.
fn judge(error: KafkaError) -> Result<(), Error> {
    match error {
        KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset) => {
            Err(Error::OffsetOutOfRange { source: error })
        }
        KafkaError::MessageConsumptionFatal(_) => Err(Error::Kafka { operation: "polling", source: error }),
        KafkaError::PartitionEOF(_) => Ok(()),
        error => {
            tracing::warn!(%error, "polling met an error; it goes on");
            Ok(())
        }
    }
}

fn commit_list(commits: &[(TopicPartition, Commit)]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(commits.len());
    for (partition, commit) in commits {
        let mut element = list.add_partition(partition.topic(), partition.partition());
        if let Err(error) = element.set_offset(Offset::Offset(commit.offset)) {
            tracing::debug!(%partition, %error, "an offset cannot be committed");
        }
        if !commit.metadata.is_empty() {
            element.set_metadata(&commit.metadata);
        }
    }
    list
}

fn list_of(partitions: &[TopicPartition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition(partition.topic(), partition.partition());
    }
    list
}

fn failed(operation: &'static str) -> impl FnOnce(KafkaError) -> Error {
    move |source| Error::Kafka { operation, source }
}
