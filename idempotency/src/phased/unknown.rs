//! Keys whose outcome is unknown.

use std::time::Duration;

use crate::error::Error;
use crate::key::Key;
use crate::phased::log::Log;
use crate::phased::provider_key::ProviderKey;
use crate::phased::record::{Record, State};
use crate::phased::settings::Phased;

/// A key whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// The key.
    pub key: Key,
    /// Its generation: a resolution that is meant for this state names it.
    pub generation: i64,
    /// How long it has been held, or how long its lease has been over.
    pub since: Duration,
    /// Why it was held; `None` if it was not, and its owner has not been heard of since its lease was over.
    pub held_because: Option<String>,
    /// The external step of which it is unknown whether it happened, if there is one.
    pub step: Option<UnknownStep>,
}

/// A call of which it is unknown whether it happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownStep {
    /// The name of the step, or of the compensation.
    pub name: String,
    /// The key under which its provider knows the call.
    pub provider_key: ProviderKey,
    /// How often it was called.
    pub attempts: u32,
}

impl Phased {
    /// What is unknown of a record.
    pub(crate) fn unknown(&self, key: Key, record: &Record) -> Result<Unknown, Error> {
        let log = self.decode_steps(&key, record.steps.as_deref())?;
        let held_because = (record.state == State::Held).then(|| record.hold_reason.clone().unwrap_or_default());
        let step = UnknownStep::of(&key, &log);
        Ok(Unknown { key, generation: record.generation, since: record.unknown_for, held_because, step })
    }
}

impl Unknown {
    /// Of a key that was held just now.
    pub(crate) fn held(key: &Key, generation: i64, because: String, log: &Log) -> Self {
        let step = UnknownStep::of(key, log);
        Self { key: key.clone(), generation, since: Duration::ZERO, held_because: Some(because), step }
    }
}

impl UnknownStep {
    pub(crate) fn of(key: &Key, log: &Log) -> Option<Self> {
        let (_, name, attempts) = log.open_step()?;
        Some(Self { name: name.to_owned(), provider_key: ProviderKey::derive(key, name), attempts })
    }
}
