//! The polling loop: it delivers records, and looks after everything else in turn.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::commits::Commits;
use super::committer::Committer;
use super::context::Context;
use super::{Control, Order, Setup, Start, copy};
use crate::assignment::{Assignment, Phase};
use crate::error::Error;
use crate::health::Stage;
use crate::partition::TopicPartition;
use crate::record::Record;

/// How long a poll waits, and so how long an order may wait. Handlers do not wait for it.
const POLL: Duration = Duration::from_millis(20);
/// How long it waits while handlers finish whose partition Kafka wants back.
const LOOK_SOON: Duration = Duration::from_millis(2);
/// Records taken before orders and limits are looked at again.
const BURST: usize = 128;
/// How often the handlers that run are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How often gauges are written.
#[cfg(feature = "metrics")]
const MEASURE: Duration = Duration::from_secs(1);
/// How long it polls on once it has given its partitions back: the client tells the group in the background, and a static member
/// that closes before does not tell it at all (KIP-345).
const LEAVE_GRACE: Duration = Duration::from_secs(1);
/// How long a worker that leaves waits for the group to take its partitions back, beyond the drain.
const LEAVE_PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Poller {
    pub(super) consumer: Arc<BaseConsumer<Context>>,
    pub(super) setup: Setup,
    pub(super) control: Arc<dyn Control>,
    pub(super) assignment: Assignment<Start>,
    pub(super) commits: Commits,
    pub(super) draining: bool,
    /// Since when handlers may finish whose partition Kafka wants back.
    pub(super) drain_since: Instant,
    pub(super) rejoin_at: Option<Instant>,
    /// No standing still at a limit before.
    pub(super) stand_again: Instant,
    orders: Receiver<Order>,
    sources: copy::Sources,
    /// What one poll has brought.
    burst: Vec<Record>,
    look_at: Instant,
    pub(super) leaving: Option<Leaving>,
    #[cfg(feature = "metrics")]
    measure_at: Instant,
    /// The lags that were recorded last.
    #[cfg(feature = "metrics")]
    lags: std::collections::BTreeMap<TopicPartition, crate::lag::PartitionLag>,
}

/// The group is being left, for this reason.
pub(super) struct Leaving {
    reason: Error,
    until: Instant,
    /// Whether all partitions have been given back.
    left: bool,
}

impl Poller {
    pub(super) fn new(
        consumer: BaseConsumer<Context>,
        setup: Setup,
        control: Arc<dyn Control>,
        orders: Receiver<Order>,
    ) -> std::io::Result<Self> {
        let now = Instant::now();
        let consumer = Arc::new(consumer);
        Ok(Self {
            commits: Commits::new(setup.commit_every, Committer::start(&consumer)?),
            consumer,
            setup,
            control,
            orders,
            assignment: Assignment::new(),
            sources: copy::Sources::new(),
            burst: Vec::with_capacity(BURST),
            stand_again: Instant::now(),
            draining: false,
            drain_since: now,
            rejoin_at: None,
            look_at: now,
            leaving: None,
            #[cfg(feature = "metrics")]
            measure_at: now,
            #[cfg(feature = "metrics")]
            lags: std::collections::BTreeMap::new(),
        })
    }

    pub(super) fn run(mut self) -> Result<(), Error> {
        let ended = self.serve();
        if let Err(error) = &ended {
            self.give_up(matches!(error, Error::FencedInstance { .. }));
        }
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
            self.look_after()?;
        }
    }

    fn poll(&mut self) -> Result<(), Error> {
        let mut wait = if self.assignment.open_revocation().is_some() { LOOK_SOON } else { POLL };
        let (mut judged, mut now) = (Ok(()), None);
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
            Order::Sealed { grant, partition, start } => {
                let calls = self.assignment.sealed(grant, &partition, start);
                self.carry_out(calls)?;
            }
            Order::Fenced(partition) => {
                if self.assignment.fenced(&partition) {
                    self.pause(&[partition])?;
                    self.rejoin_later();
                    self.setup.probe.phases(self.assignment.phases());
                }
            }
            Order::Drain => {
                self.draining = true;
                let active: Vec<_> = self.assignment.in_phase(Phase::Active).cloned().collect();
                self.assignment.drain();
                self.pause(&active)?;
                self.setup.probe.phases(self.assignment.phases());
            }
            Order::Close => {}
        }
        Ok(())
    }

    /// Passes on what the client says of itself, and looks whether a handler has run for too long: here, since this thread is the one
    /// that no handler can block.
    fn look_after(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        self.setup.probe.polled(now);
        if let Some(news) = self.consumer.context().news() {
            if news.is_member {
                self.setup.probe.reached(Stage::Running);
            }
            self.setup.probe.ends(news.ends);
        }
        if let Some(leaving) = self.leaving.as_mut() {
            let left = self.assignment.phases().all(|(_, phase)| !phase.is_assigned());
            if left && !std::mem::replace(&mut leaving.left, true) {
                leaving.until = now + LEAVE_GRACE;
            }
        }
        if let Some(Leaving { reason, .. }) = self.leaving.take_if(|leaving| now >= leaving.until) {
            return Err(reason);
        }
        if self.leaving.is_none() && now >= self.look_at {
            self.look_at = now + LOOK;
            #[cfg(feature = "metrics")]
            self.measure(now);
            if let Some(reason) = self.control.look(now) {
                tracing::warn!(error = %reason, "leaving the group");
                self.leaving = Some(Leaving {
                    reason,
                    until: now + self.setup.revoke_timeout.unwrap_or_default() + LEAVE_PATIENCE,
                    left: false,
                });
                // Not by closing: a static member does not leave the group when it closes (KIP-345).
                self.consumer.unsubscribe();
            }
        }
        Ok(())
    }

    #[cfg(feature = "metrics")]
    fn measure(&mut self, now: Instant) {
        if now >= self.measure_at {
            self.measure_at = now + MEASURE;
            crate::metrics::record::health(&self.setup.probe.health());
            crate::metrics::record::lags(&mut self.lags, self.setup.probe.lag());
        }
    }
}

/// An error in place of a record: most pass by themselves, since librdkafka goes on trying.
fn judge(error: KafkaError) -> Result<(), Error> {
    match error {
        KafkaError::MessageConsumption(RDKafkaErrorCode::AutoOffsetReset) => {
            Err(Error::OffsetOutOfRange { source: error })
        }
        KafkaError::MessageConsumptionFatal(RDKafkaErrorCode::FencedInstanceId) => {
            Err(Error::FencedInstance { source: error })
        }
        KafkaError::MessageConsumptionFatal(_) => Err(Error::Kafka { operation: "polling", source: error }),
        KafkaError::PartitionEOF(_) => Ok(()),
        error => {
            tracing::warn!(%error, "polling met an error; it goes on");
            Ok(())
        }
    }
}

pub(super) fn list_of(partitions: &[TopicPartition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for partition in partitions {
        list.add_partition(partition.topic(), partition.partition());
    }
    list
}

pub(super) fn failed(operation: &'static str) -> impl FnOnce(KafkaError) -> Error {
    move |source| Error::Kafka { operation, source }
}
