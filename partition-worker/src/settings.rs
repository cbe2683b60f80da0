//! What a worker can be told, and the limits of it.

use std::time::Duration;

use rdkafka::ClientConfig;
use sqlx::Pool;

use leastlock_core::{Backoff, Dialect, Engine};

use crate::error::Error;
use crate::flow::Limits;
use crate::on_failure::{Cause, OnFailure};
use crate::ordering::{NullKeys, Ordering};
use crate::stall::OnStall;

/// Records that may come between two looks at the limits.
const BURST: u64 = 128;

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) concurrency: Option<usize>,
    pub(crate) limits: Option<Limits>,
    pub(crate) ordering: Ordering,
    pub(crate) null_keys: NullKeys,
    pub(crate) max_batch: usize,
    pub(crate) max_attempts: u32,
    pub(crate) handler_timeout: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) on_failure: OnFailure,
    pub(crate) on_permanent: Option<OnFailure>,
    pub(crate) on_poison: Option<OnFailure>,
    /// Zero: never.
    pub(crate) poison_after: u32,
    pub(crate) drain_timeout: Duration,
    pub(crate) commit_every: Duration,
    pub(crate) fold_every: Duration,
    pub(crate) fold_after: usize,
    pub(crate) rejoin_after: Duration,
    pub(crate) look_every: Duration,
    pub(crate) revoke_timeout: Duration,
    pub(crate) commit_metadata: usize,
    pub(crate) stall_after: Duration,
    pub(crate) on_stall: OnStall,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: None,
            limits: None,
            ordering: Ordering::Key,
            null_keys: NullKeys::OneLane,
            max_batch: 100,
            max_attempts: 10,
            handler_timeout: Duration::from_mins(5),
            backoff: Backoff::new(Duration::from_millis(50), Duration::from_secs(5)),
            on_failure: OnFailure::Stop,
            on_permanent: None,
            on_poison: None,
            poison_after: 5,
            drain_timeout: Duration::from_secs(20),
            commit_every: Duration::from_secs(5),
            fold_every: Duration::from_secs(2),
            fold_after: 1_000,
            rejoin_after: Duration::from_secs(45),
            look_every: Duration::from_secs(5),
            revoke_timeout: Duration::from_secs(3),
            commit_metadata: 4_096,
            stall_after: Duration::from_mins(1),
            on_stall: OnStall::Report,
        }
    }
}

impl Settings {
    /// How many handlers run at a time on this pool.
    pub(crate) fn concurrency<DB: Dialect>(&self, pool: &Pool<DB>) -> usize {
        let connections = usize::try_from(pool.options().get_max_connections()).unwrap_or(usize::MAX);
        self.concurrency.unwrap_or(match DB::ENGINE {
            // There is one write lock; a second handler could only wait for it.
            Engine::Sqlite => 1,
            // One connection to fold with, one to seal with.
            _ => connections.saturating_sub(2).clamp(1, 16),
        })
    }

    /// As many records of a partition as a worker with these settings holds: they are looked at every so often.
    pub(crate) fn held(&self, concurrency: usize) -> u64 {
        (self.limits(concurrency).records_per_partition as u64).saturating_add(BURST)
    }

    /// What is done with a record that failed for good.
    pub(crate) fn policy(&self, cause: Cause) -> &OnFailure {
        let special = match cause {
            Cause::Permanent => self.on_permanent.as_ref(),
            Cause::Poison => self.on_poison.as_ref(),
            _ => None,
        };
        special.unwrap_or(&self.on_failure)
    }

    /// Of how many deaths a record is not tried again.
    pub(crate) const fn poison_after(&self) -> Option<u32> {
        if self.poison_after == 0 { None } else { Some(self.poison_after) }
    }

    pub(crate) fn policies(&self) -> impl Iterator<Item = &OnFailure> {
        [Some(&self.on_failure), self.on_permanent.as_ref(), self.on_poison.as_ref()].into_iter().flatten()
    }

    /// A topic for failed records that is consumed as well would bring each of them back for ever.
    pub(crate) fn check_topics(&self, consumed: &[String]) -> Result<(), Error> {
        for topic in self.policies().filter_map(OnFailure::topic) {
            let problem = match topic {
                "" => "names no topic",
                topic if consumed.iter().any(|consumed| consumed == topic) => {
                    "names a topic that the worker consumes, so a failed record would come back for ever"
                }
                _ => continue,
            };
            return Err(Error::Setting { setting: "on_failure", problem });
        }
        Ok(())
    }

    /// How many batches run at a time on this pool: few, so that they are large.
    pub(crate) fn concurrency_of_batches<DB: Dialect>(&self, pool: &Pool<DB>) -> usize {
        self.concurrency.unwrap_or_else(|| self.concurrency(pool).min(4))
    }

    /// How much is held at most with so many handlers at a time: enough for each to have something, when partitions are resumed
    /// at half of it.
    pub(crate) fn limits(&self, concurrency: usize) -> Limits {
        self.limits.unwrap_or_else(|| {
            let default = Limits::default();
            let least = concurrency.saturating_mul(8);
            Limits {
                records_per_partition: default.records_per_partition.max(least),
                records: default.records.max(least),
                ..default
            }
        })
    }

    /// How many handlers run at a time without a database.
    pub(crate) fn concurrency_alone(&self) -> usize {
        self.concurrency.unwrap_or(16)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let range =
            |right: bool, setting, problem| if right { Ok(()) } else { Err(Error::Setting { setting, problem }) };
        range(
            self.concurrency.is_none_or(|handlers| (1..=1024).contains(&handlers)),
            "concurrency",
            "must be from 1 to 1024",
        )?;
        range(self.max_attempts >= 1, "max_attempts", "must be at least 1")?;
        range(self.poison_after == 0 || self.poison_after >= 3, "poison_after", "must be 0 (never) or at least 3")?;
        range(!self.handler_timeout.is_zero(), "handler_timeout", "must not be zero")?;
        let Limits { records_per_partition, records, bytes, finished_ahead, finished_rows } =
            self.limits.unwrap_or_default();
        let all = [records_per_partition, records, bytes, finished_ahead, finished_rows];
        range(all.iter().all(|limit| *limit >= 1), "limits", "must each be at least 1")?;
        range((1..=10_000).contains(&self.max_batch), "max_batch", "must be from 1 to 10,000")?;
        range(!self.drain_timeout.is_zero(), "drain_timeout", "must not be zero")?;
        range(!self.stall_after.is_zero(), "stall_after", "must not be zero")?;
        range(!self.commit_every.is_zero(), "commit_every", "must not be zero")?;
        range(
            !self.revoke_timeout.is_zero() && self.revoke_timeout <= Duration::from_mins(1),
            "revoke_timeout",
            "must be from above zero to 1 min: the whole group waits for it",
        )?;
        range(
            self.commit_metadata <= 32_767,
            "commit_metadata",
            "must be at most 32,767 bytes, which Kafka can carry",
        )?;
        range(!self.look_every.is_zero(), "look_every", "must not be zero")?;
        range(!self.fold_every.is_zero(), "fold_every", "must not be zero")
    }
}

/// Where a group starts in a partition that it has never worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reset {
    Earliest,
    Latest,
}

/// The settings that the worker needs, and why a user's must not differ.
const FORCED: [(&str, &str, &str); 2] = [
    ("enable.auto.commit", "false", "commits what is finished, not what was delivered"),
    ("enable.auto.offset.store", "false", "commits what is finished, not what was delivered"),
];

/// What lags are read from. Whoever has set this, or what follows, keeps it.
const STATISTICS: (&str, &str) = ("statistics.interval.ms", "5000");

/// For how long librdkafka fetches nothing more of a partition of which it has enough (`queued.min.messages`). It would be 1 s, and
/// what it has by then, which handlers are done with in less, or which a pause makes it drop, would have to last for it.
const FETCH_AGAIN: (&str, &str) = ("fetch.queue.backoff.ms", "10");

/// The client's settings as the worker runs it, the group, and where it starts.
pub(crate) fn consumer_config(user: &ClientConfig) -> Result<(ClientConfig, String, Reset), Error> {
    let mut config = user.clone();
    for (setting, value, needs) in FORCED {
        match user.get(setting) {
            Some(theirs) if theirs != value => {
                return Err(Error::Contradiction { setting, value: theirs.to_owned(), needs });
            }
            _ => config.set(setting, value),
        };
    }
    let group = user.get("group.id").filter(|group| !group.is_empty());
    let group = group.ok_or(Error::Setting { setting: "group.id", problem: "is missing" })?.to_owned();
    let reset = match user.get("auto.offset.reset") {
        None | Some("earliest" | "smallest" | "beginning") => Reset::Earliest,
        Some("latest" | "largest" | "end") => Reset::Latest,
        Some(other) => {
            let needs = "has to know where a new group starts: earliest or latest";
            return Err(Error::Contradiction { setting: "auto.offset.reset", value: other.to_owned(), needs });
        }
    };
    for (setting, value) in [STATISTICS, FETCH_AGAIN] {
        if user.get(setting).is_none() {
            config.set(setting, value);
        }
    }
    // The worker always says where to start. If the log does not have that offset, it has to hear of it.
    config.set("auto.offset.reset", "error");
    Ok((config, group, reset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_contradicts_the_worker_is_an_error() {
        let mut user = ClientConfig::new();
        user.set("group.id", "g").set("enable.auto.commit", "true");
        let error = consumer_config(&user).expect_err("auto-commit commits what is not finished");
        assert!(matches!(error, Error::Contradiction { setting: "enable.auto.commit", .. }), "{error}");
        user.set("enable.auto.commit", "false").set("auto.offset.reset", "latest");
        let (config, group, reset) = consumer_config(&user).expect("no contradiction");
        assert_eq!((group.as_str(), reset), ("g", Reset::Latest));
        assert_eq!(config.get("auto.offset.reset"), Some("error"));
        assert_eq!(config.get("enable.auto.offset.store"), Some("false"));
    }

    #[test]
    fn what_the_worker_prefers_is_the_users_to_change() {
        let mut user = ClientConfig::new();
        user.set("group.id", "g").set("statistics.interval.ms", "250");
        let (config, ..) = consumer_config(&user).expect("no contradiction");
        assert_eq!(config.get("statistics.interval.ms"), Some("250"));
        assert_eq!(config.get("fetch.queue.backoff.ms"), Some("10"));
    }

    #[test]
    fn limits_are_checked() {
        assert!(Settings::default().check().is_ok());
        assert!(Settings { concurrency: Some(0), ..Settings::default() }.check().is_err());
        assert!(Settings { max_attempts: 0, ..Settings::default() }.check().is_err());
        assert!(Settings { poison_after: 2, ..Settings::default() }.check().is_err());
        assert!(Settings { poison_after: 0, ..Settings::default() }.check().is_ok());
    }

    #[test]
    fn a_topic_for_failed_records_is_not_one_of_the_consumed() {
        let consumed = ["moves".to_owned(), "moves-dead".to_owned()];
        let settings = |on_poison| Settings { on_poison: Some(on_poison), ..Settings::default() };
        assert!(settings(OnFailure::dead_letter("moves-dead")).check_topics(&consumed).is_err());
        assert!(settings(OnFailure::park_key("moves")).check_topics(&consumed).is_err());
        assert!(settings(OnFailure::park_key("")).check_topics(&consumed).is_err());
        assert!(settings(OnFailure::park_key("moves-parked")).check_topics(&consumed).is_ok());
        assert!(settings(OnFailure::Skip).check_topics(&consumed).is_ok());
    }

    #[test]
    fn each_cause_has_its_policy() {
        let settings = Settings { on_permanent: Some(OnFailure::Skip), ..Settings::default() };
        assert_eq!(settings.policy(Cause::Permanent), &OnFailure::Skip);
        assert_eq!(settings.policy(Cause::Exhausted), &OnFailure::Stop);
        assert_eq!(settings.policy(Cause::Poison), &OnFailure::Stop);
    }
}
