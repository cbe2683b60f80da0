//! What a worker is told before it runs.

use std::time::Duration;

use rdkafka::ClientConfig;

use leastlock_core::Backoff;

use super::Worker;
use crate::effect::{Effect, Mode};
use crate::error::Error;
use crate::flow::Limits;
use crate::ordering::{NullKeys, Ordering};
use crate::settings::{OnFailure, Settings, consumer_config};

/// Describes a [`Worker`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it has built"]
pub struct Builder<M: Mode> {
    kafka: ClientConfig,
    topics: Vec<String>,
    effect: Option<Effect<M>>,
    settings: Settings,
}

impl<M: Mode> Builder<M> {
    pub(super) fn new(kafka: ClientConfig) -> Self {
        Self { kafka, topics: Vec::new(), effect: None, settings: Settings::default() }
    }

    /// Consumes this topic, beside others that were named.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topics.push(topic.into());
        self
    }

    /// Where the effect of the records goes. Needed.
    pub fn effect(self, effect: Effect<M>) -> Self {
        Self { effect: Some(effect), ..self }
    }

    /// How many handlers run at a time, in all partitions together. Each takes a connection, and folds and seals take
    /// two more. Default: 16, or two fewer than the pool has connections; 1 on SQLite, which has one writer at a time; 4 at the
    /// most for batches, which grow while the ones before are being committed.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = Some(handlers);
        self
    }

    /// How many records a batch has at most, with [`run_batches`](Worker::run_batches). It has fewer if fewer are there: nothing is
    /// waited for. Default: 100.
    pub fn max_batch(mut self, records: usize) -> Self {
        self.settings.max_batch = records;
        self
    }

    /// Which records are worked on one after the other. Default: those of one key.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.settings.ordering = ordering;
        self
    }

    /// What records without a key are, with [`Ordering::Key`]. Default: those of a partition are in order.
    pub fn null_keys(mut self, null_keys: NullKeys) -> Self {
        self.settings.null_keys = null_keys;
        self
    }

    /// How much is held in memory before partitions are paused. They are looked at every 128 records, so a limit may be
    /// exceeded by that many. Default: see [`Limits`], but eight records for each handler that may run at a time if that is
    /// more.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = Some(limits);
        self
    }

    /// How often a failing handler is tried before [`on_failure`](Self::on_failure) applies. Attempts that the database failed
    /// (a deadlock, a lost connection, a serialization failure) do not count; those that the handler brought about itself do:
    /// a statement beyond the server's `statement_timeout`, a transaction idle for longer than
    /// [`Timeouts::idle`](crate::progress::Timeouts::idle), an error that it ignored. Default: 10.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// How long one attempt of a handler may take, which is then cancelled and counts as failed. It bounds the statements of a
    /// handler whose connection has died without a word, and how long it can hold up the next owner. Default: 5 min.
    pub fn handler_timeout(mut self, timeout: Duration) -> Self {
        self.settings.handler_timeout = timeout;
        self
    }

    /// How long a lane waits before it tries again. Default: from 50 ms to 5 s.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// What happens when a handler has failed for good. Default: [`OnFailure::Stop`].
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.settings.on_failure = on_failure;
        self
    }

    /// How long handlers that run may take to finish at a shutdown. Default: 20 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// How often what is finished is committed to Kafka. With a database it is a hint for lag monitors, and for a group that
    /// changes to another kind of consumer; without one it decides what is done again after a crash. Default: 5 s.
    pub fn commit_every(mut self, period: Duration) -> Self {
        self.settings.commit_every = period;
        self
    }

    /// How long handlers of partitions that Kafka takes back may take to finish before what is finished is committed, where there
    /// is [no database](Effect::at_least_once); the partitions that stay stand still meanwhile. With a database it is not
    /// used: partitions are given back at once, and the next owner's seal waits. Default: 3 s.
    pub fn revoke_timeout(mut self, timeout: Duration) -> Self {
        self.settings.revoke_timeout = timeout;
        self
    }

    /// How many bytes of a commit's metadata may say what is finished above its offset, where there is
    /// [no database](Effect::at_least_once). It must not be more than the broker's `offset.metadata.max.bytes`; 4 KiB have room
    /// for some 2,000 gaps. What does not fit is left out, and [counted](crate::PartitionSummary::left_out). 0: no metadata.
    /// Default: 4,096, as the broker's.
    pub fn commit_metadata(mut self, bytes: usize) -> Self {
        self.settings.commit_metadata = bytes;
        self
    }

    /// How long a partition may be fenced that Kafka still leaves to this worker, before the worker joins the group anew.
    /// It should not be shorter than the session time-out. Default: 45 s.
    pub fn rejoin_after(mut self, delay: Duration) -> Self {
        self.settings.rejoin_after = delay;
        self
    }

    /// How often it is looked whether a topic was deleted and made anew under the worker, which then stops with
    /// [`Error::TopicMadeAnew`]. One request a topic. Default: 5 s.
    pub fn look_every(mut self, period: Duration) -> Self {
        self.settings.look_every = period;
        self
    }

    /// How often finished offsets are folded into one number in the database; they also are after every 1,000 records of a
    /// partition. Default: 2 s.
    pub fn fold_every(mut self, period: Duration) -> Self {
        self.settings.fold_every = period;
        self
    }

    /// The worker.
    ///
    /// # Errors
    /// [`Error::Setting`] names what is missing or out of its range, [`Error::Contradiction`] a setting of the Kafka client
    /// that contradicts the worker.
    pub fn build(self) -> Result<Worker<M>, Error> {
        let Self { kafka, topics, effect, settings } = self;
        let (kafka, group, reset) = consumer_config(&kafka)?;
        settings.check()?;
        if topics.is_empty() {
            return Err(Error::Setting { setting: "topic", problem: "is missing: name at least one" });
        }
        let effect = effect.ok_or(Error::Setting { setting: "effect", problem: "is missing" })?;
        let mode = effect.mode;
        mode.check(&settings.on_failure)?;
        Ok(Worker { kafka, group, reset, topics, mode, settings })
    }
}
