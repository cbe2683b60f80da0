//! Back-pressure: partitions that hold too much are paused, and go on later.

use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer;
use rdkafka::topic_partition_list::Offset;

use super::poller::{Poller, failed, list_of};
use crate::error::Error;
use crate::flow::Change;
use crate::partition::TopicPartition;

/// How long handlers are given, at a limit, before a partition is paused; and after it was in vain, they are given no time
/// for so many times as long: then other partitions, which are not at their limit, do not wait either.
const STANDSTILL: Duration = Duration::from_millis(100);
const STOOD_IN_VAIN: u32 = 10;
const BREATH: Duration = Duration::from_micros(500);

impl Poller {
    /// Pauses what holds too much, and lets go on what does not any more.
    ///
    /// A pause is dear: librdkafka drops all that it has fetched ahead. Where handlers are quick it is over before the next
    /// fetch, so they are given a moment first, in which nothing is polled. What still holds too much then is paused, which
    /// also lets a rebalance through that stands behind its records in librdkafka's queue.
    pub(super) fn apply_limits(&mut self) -> Result<(), Error> {
        if self.draining {
            return Ok(());
        }
        let Change { mut pause, mut resume } = self.control.change();
        let began = Instant::now();
        let may_stand = began >= self.stand_again && self.assignment.open_revocation().is_none();
        while may_stand && !pause.is_empty() && began.elapsed() < STANDSTILL {
            std::thread::sleep(BREATH);
            let change = self.control.change();
            pause.extend(change.pause);
            resume.extend(change.resume);
            // What is in both is as it was.
            pause.retain(|partition| match resume.iter().position(|resumed| resumed == partition) {
                Some(place) => {
                    resume.swap_remove(place);
                    false
                }
                None => true,
            });
        }
        if may_stand && !pause.is_empty() {
            self.stand_again = Instant::now() + STANDSTILL * STOOD_IN_VAIN;
        }
        self.pause(&pause)?;
        self.resume(&resume)
    }

    pub(super) fn pause(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        if partitions.is_empty() {
            return Ok(());
        }
        self.consumer.pause(&list_of(partitions)).map_err(failed("pausing"))
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
}
