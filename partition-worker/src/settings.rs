//! What a worker can be told, and the limits of it.

use std::time::Duration;

use rdkafka::ClientConfig;
use sqlx::Pool;

use leastlock_core::{Backoff, Dialect, Engine};

use crate::error::Error;
use crate::flow::Limits;
use crate::ordering::{NullKeys, Ordering};

/// What happens when a handler has failed for good.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// The worker stops with [`Error::HandlerFailed`], which names the record. Nothing is skipped.
    #[default]
    Stop,
    /// The record is finished without an effect, and its key goes on.
    Skip,
}

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
    pub(crate) drain_timeout: Duration,
    pub(crate) commit_every: Duration,
    pub(crate) fold_every: Duration,
    pub(crate) fold_after: usize,
    pub(crate) rejoin_after: Duration,
    pub(crate) look_every: Duration,
    pub(crate) revoke_timeout: Duration,
    pub(crate) commit_metadata: usize,
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
            drain_timeout: Duration::from_secs(20),
            commit_every: Duration::from_secs(5),
            fold_every: Duration::from_secs(2),
            fold_after: 1_000,
            rejoin_after: Duration::from_secs(45),
            look_every: Duration::from_secs(5),
            revoke_timeout: Duration::from_secs(3),
            commit_metadata: 4_096,
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
        range(!self.handler_timeout.is_zero(), "handler_timeout", "must not be zero")?;
        let Limits { records_per_partition, records, bytes, finished_ahead } = self.limits.unwrap_or_default();
        let all = [records_per_partition, records, bytes, finished_ahead];
        range(all.iter().all(|limit| *limit >= 1), "limits", "must each be at least 1")?;
        range((1..=10_000).contains(&self.max_batch), "max_batch", "must be from 1 to 10,000")?;
        range(!self.drain_timeout.is_zero(), "drain_timeout", "must not be zero")?;
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
    fn limits_are_checked() {
        assert!(Settings::default().check().is_ok());
        assert!(Settings { concurrency: Some(0), ..Settings::default() }.check().is_err());
        assert!(Settings { max_attempts: 0, ..Settings::default() }.check().is_err());
    }
}
