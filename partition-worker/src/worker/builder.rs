//! What a worker is told before it runs.

use std::time::Duration;

use rdkafka::ClientConfig;

use leastlock_core::Backoff;

use super::Worker;
use crate::effect::{Effect, Mode};
use crate::error::Error;
use crate::flow::Limits;
use crate::health::Probe;
use crate::on_failure::OnFailure;
use crate::ordering::{NullKeys, Ordering};
use crate::settings::{Settings, consumer_config};
use crate::stall::OnStall;

/// Describes a [`Worker`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it has built"]
pub struct Builder<M: Mode> {
    kafka: ClientConfig,
    topics: Vec<String>,
    effect: Option<Effect<M>>,
    settings: Settings,
    #[cfg(feature = "testing")]
    scripted: Option<std::sync::Arc<crate::testing::Member>>,
}

impl<M: Mode> Builder<M> {
    pub(super) fn new(kafka: ClientConfig) -> Self {
        Self {
            kafka,
            topics: Vec::new(),
            effect: None,
            settings: Settings::default(),
            #[cfg(feature = "testing")]
            scripted: None,
        }
    }

    /// A member of a scripted group, and no client of Kafka.
    #[cfg(feature = "testing")]
    pub(crate) fn scripted(mut self, member: std::sync::Arc<crate::testing::Member>) -> Self {
        self.scripted = Some(member);
        self
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

    /// How many handlers run at a time, in all partitions together. Each takes a connection, which stays with the next records
    /// of the same task for a while if the pool has another to spare; folds and seals take two more. Default: 16, or two fewer than the pool has connections; 1 on SQLite, which has one writer at a time; 4 at the
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

    /// What happens when a handler has failed for good. Default: [`OnFailure::Stop`]. Its topic must exist, must not be one of those that
    /// the worker consumes, and should take larger records than they do, since a copy has more headers; one that does not take a record
    /// stops the worker with [`Error::NotTaken`].
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.settings.on_failure = on_failure;
        self
    }

    /// What happens instead with a record that need not be tried again, since every attempt would meet the same: one that is
    /// [malformed](crate::record::Malformed), or whose handler answered [`Failure::permanent`](crate::Failure::permanent).
    /// An outage ends in [`on_failure`](Self::on_failure), a record that is wrong in itself here.
    pub fn on_permanent_failure(mut self, on_permanent: OnFailure) -> Self {
        self.settings.on_permanent = Some(on_permanent);
        self
    }

    /// What happens instead with a record that [kills the process](crate::poison) which handles it.
    pub fn on_poison(mut self, on_poison: OnFailure) -> Self {
        self.settings.on_poison = Some(on_poison);
        self
    }

    /// Of how many deaths of its process a record is not tried again: at least 3, or 0 for never. See [`poison`](crate::poison) for
    /// what it costs and cannot tell. With the policy [`Stop`](OnFailure::Stop) the worker then ends with an error that names the record, each
    /// time it is started, until the policy or this number is another. Default: 5 with the effect in the database; without one it has no
    /// effect.
    pub fn poison_after(mut self, deaths: u32) -> Self {
        self.settings.poison_after = deaths;
        self
    }

    /// How long handlers that run may take to finish at a shutdown. Default: 20 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.settings.drain_timeout = timeout;
        self
    }

    /// How long a handler may run, one attempt of it, before it counts as stalled. What waits for the database, before the handler is
    /// called or after, is not counted. A stalled one is reported in the log, in the worker's
    /// [health](crate::Probe::health) and in the metrics, and [`on_stall`](Self::on_stall) applies. Handlers are looked at every 100 ms
    /// by the polling thread, which none of them can block. Unlike [`handler_timeout`](Self::handler_timeout), it also finds a handler
    /// that blocks its thread. Default: 1 min.
    pub fn stall_after(mut self, time: Duration) -> Self {
        self.settings.stall_after = time;
        self
    }

    /// What becomes of a stalled handler. Default: [`OnStall::Report`].
    pub fn on_stall(mut self, on_stall: OnStall) -> Self {
        self.settings.on_stall = on_stall;
        self
    }

    /// How often what is finished is committed to Kafka. With a database it is a hint for lag monitors, and for a group that
    /// changes to another kind of consumer; without one it decides what is done again after a crash. Default: 5 s.
    pub fn commit_every(mut self, period: Duration) -> Self {
        self.settings.commit_every = period;
        self
    }

    /// How long handlers that run may take to finish when Kafka takes their partition back, where there is
    /// [no database](Effect::at_least_once). Then what is finished is committed, and the partition is given back; a handler that has
    /// not finished by then is cancelled, and its record handled again by the next owner. All partitions of this worker stand still
    /// for so long, also those that it keeps, since the Kafka client delivers nothing while it waits; and a classic group waits for
    /// its slowest member. So it has to be well below the session time-out. Default: 3 s.
    ///
    /// With a database it is not used: partitions are given back at once, and the next owner's seal waits for handlers that are open.
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
    /// partition; with [`run_batches`](Worker::run_batches) after 100 batches, if that is more; after a quarter of
    /// [`Limits::finished_rows`], if that is less. Default: 2 s.
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
        #[cfg(feature = "testing")]
        let scripted = self.scripted;
        let Self { kafka, topics, effect, settings, .. } = self;
        let (kafka, group, reset) = consumer_config(&kafka)?;
        settings.check()?;
        if topics.is_empty() {
            return Err(Error::Setting { setting: "topic", problem: "is missing: name at least one" });
        }
        let effect = effect.ok_or(Error::Setting { setting: "effect", problem: "is missing" })?;
        let mode = effect.mode;
        settings.check_topics(&topics)?;
        settings.policies().try_for_each(|policy| mode.check(policy))?;
        let probe = Probe::new(settings.stall_after);
        Ok(Worker {
            kafka,
            group,
            reset,
            topics,
            mode,
            settings,
            probe,
            #[cfg(feature = "testing")]
            scripted,
        })
    }
}
