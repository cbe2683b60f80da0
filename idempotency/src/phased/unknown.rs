//! Keys whose outcome is unknown.

use std::time::Duration;

use crate::key::Key;
use crate::phased::log::Log;
use crate::phased::owner::Owner;
use crate::phased::provider_key::ProviderKey;
use crate::phased::record::{Record, State};
use crate::phased::settings::Phased;
use crate::phased::sql::PhasedSql;

/// A key whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// The key.
    pub key: Key,
    /// Its generation: a resolution that is meant for this state names it.
    pub generation: i64,
    /// How often its steps had been written: an owner whose lease is over may still wake up and go on, with its generation.
    pub step_seq: i64,
    /// How long it has been held, or how long its lease has been over.
    pub since: Duration,
    /// Why it was held; `None` if it was not, and its owner has not been heard of since its lease was over.
    pub held_because: Option<String>,
    /// The external step of which it is unknown whether it happened, if there is one.
    pub step: Option<UnknownStep>,
    /// Why its steps cannot be read here, if they cannot: sealed by a cipher that these settings do not have, or written by a later
    /// version. Then `step` says nothing; the key can still be completed or released by a resolution.
    pub unreadable: Option<String>,
    /// Which claim it was: the record of a released key begins anew, with the same numbers.
    pub(crate) owner: Option<Vec<u8>>,
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
    /// What is unknown of a record. One that cannot be read is listed all the same, or it would hide all the others.
    pub(crate) fn unknown(&self, key: Key, record: &Record) -> Unknown {
        let read = self.decode_steps(&key, record.steps.as_deref());
        let held_because = (record.state == State::Held).then(|| record.hold_reason.clone().unwrap_or_default());
        Unknown {
            generation: record.generation,
            step_seq: record.step_seq,
            since: record.unknown_for,
            held_because,
            step: read.as_ref().ok().and_then(|log| UnknownStep::of(&key, log)),
            unreadable: read.err().map(|error| error.to_string()),
            owner: record.owner.clone(),
            key,
        }
    }
}

impl Unknown {
    /// Of a key that its owner has held just now.
    pub(crate) fn held<DB: PhasedSql>(owner: &Owner<DB>, step_seq: i64, because: String, log: &Log) -> Self {
        Self {
            key: owner.key.clone(),
            generation: owner.generation,
            step_seq,
            since: Duration::ZERO,
            held_because: Some(because),
            step: UnknownStep::of(&owner.key, log),
            unreadable: None,
            owner: Some(owner.nonce.as_bytes().to_vec()),
        }
    }

    /// Whether the record is still as it was when this was listed.
    pub(crate) fn is_still(&self, record: &Record) -> bool {
        self.generation == record.generation && self.owner == record.owner && self.step_seq == record.step_seq
    }

    /// Whether it speaks of the step of the record that is open.
    pub(crate) fn speaks_of(&self, open_step: Option<&str>) -> bool {
        self.step.as_ref().map(|step| step.name.as_str()) == open_step
    }
}

impl UnknownStep {
    pub(crate) fn of(key: &Key, log: &Log) -> Option<Self> {
        let (_, name, attempts) = log.open_step()?;
        Some(Self { name: name.to_owned(), provider_key: ProviderKey::derive(key, name), attempts })
    }
}
