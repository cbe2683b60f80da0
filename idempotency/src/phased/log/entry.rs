//! What a log consists of, and what it is asked and answers.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::phased::step_error::StepError;

/// Longest name of a step, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Where a step has its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// In the database, in one transaction with its record.
    Local,
    /// Somewhere else.
    External,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Progress {
    /// Known to have had no effect, and to be run (again).
    Waiting,
    /// Its call may have been made.
    Started,
    Done,
    /// Known to have had no effect, for good.
    Failed,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) progress: Progress,
    #[serde(default)]
    pub(super) attempts: u32,
    /// How many of these an operator has looked into: the limit begins anew behind them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) excused: u32,
    /// What it came to, or why it failed, as JSON, of which `null` is a result like any other.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    pub(super) outcome: Option<Box<RawValue>>,
    /// The step that undoes this one; its kind is known once it has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) undo: Option<Box<Entry>>,
}

/// What a caller asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    pub(crate) undo: Option<&'a str>,
}

/// The place of a step in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// The step of this number.
    Forward(usize),
    /// The compensation of the step of this number.
    Back(usize),
}

/// What the log says of a step.
#[derive(Debug)]
pub(crate) enum Found {
    /// Run it. Of all `attempts`, `recent` ones count towards the limit.
    Todo { at: At, attempts: u32, recent: u32 },
    /// It was started and not heard of again.
    Open { at: At, attempts: u32, recent: u32 },
    /// It happened, and came to this.
    Done(Box<RawValue>),
    /// It did not happen and will not, because of this.
    Failed(Box<RawValue>),
}

/// What somebody else has found out about a step whose outcome was unknown.
#[derive(Debug)]
pub(crate) enum FoundOut {
    Done(Box<RawValue>),
    Failed(Box<RawValue>),
    NotDone,
}

/// Where a run takes the work up again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveryPoint {
    /// No step is recorded: whatever the owner before did outside of steps is not known.
    Start,
    /// After this step, which is settled.
    After {
        /// Its name.
        step: String,
    },
    /// Inside this step: it was started, and what became of it is unknown. Its policy decides.
    Within {
        /// Its name.
        step: String,
    },
}

impl Entry {
    pub(super) fn new(name: &str, kind: Kind) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            progress: Progress::Waiting,
            attempts: 0,
            excused: 0,
            outcome: None,
            undo: None,
        }
    }
}

/// serde takes `null` for `None`.
fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

pub(super) fn null() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

pub(super) fn check_name(name: &str) -> Result<(), StepError> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(legal) {
        return Err(StepError::Name { step: name.to_owned() });
    }
    Ok(())
}
