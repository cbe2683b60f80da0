//! Where the figures of both modes are taken. Without the feature `metrics` nothing in here does or keeps anything, so that what
//! calls it reads the same with it and without.

#![cfg_attr(
    not(feature = "metrics"),
    allow(dead_code, unused_variables, clippy::unused_self, reason = "nothing is measured")
)]

#[cfg(feature = "metrics")]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "metrics")]
use ::metrics::{counter, gauge};

use crate::error::Error;
use crate::keys::{Begin, BeginIn};
#[cfg(feature = "metrics")]
use crate::metrics as names;
use crate::phased::{PhasedBegin, PhasedSql, Resolved, Unknown};
use crate::sql::IdempotencySql;

/// What a begin can come to.
pub(crate) trait Begun {
    const MODE: &'static str;

    fn outcome(&self) -> &'static str;
}

impl<DB: IdempotencySql, R> Begun for Begin<DB, R> {
    const MODE: &'static str = "transactional";

    fn outcome(&self) -> &'static str {
        match self {
            Self::First(_) => "first",
            Self::Replay(_) => "replay",
            Self::Mismatch => "mismatch",
            Self::InFlight { .. } => "in_flight",
        }
    }
}

impl<R> Begun for BeginIn<R> {
    const MODE: &'static str = "transactional";

    fn outcome(&self) -> &'static str {
        match self {
            Self::First(_) => "first",
            Self::Replay(_) => "replay",
            Self::Mismatch => "mismatch",
            Self::InFlight { .. } => "in_flight",
        }
    }
}

impl<DB: PhasedSql, R> Begun for PhasedBegin<DB, R> {
    const MODE: &'static str = "phased";

    fn outcome(&self) -> &'static str {
        match self {
            Self::First(run) if run.resumed_at().is_some() => "resumed",
            Self::First(_) => "first",
            Self::Replay(_) => "replay",
            Self::Mismatch => "mismatch",
            Self::InFlight { .. } => "in_flight",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// A begin has come to its answer, which is given back.
pub(crate) fn begun<B: Begun>(answer: Result<B, Error>) -> Result<B, Error> {
    #[cfg(feature = "metrics")]
    {
        let outcome = answer.as_ref().map_or("error", Begun::outcome);
        counter!(names::IDEMPOTENCY_BEGINS_TOTAL, "mode" => B::MODE, "outcome" => outcome).increment(1);
    }
    answer
}

/// A unit of the transactional mode. One that is dropped before it has said how it ended was rolled back.
#[derive(Debug, Default)]
pub(crate) struct UnitEnd {
    #[cfg(feature = "metrics")]
    said: bool,
}

impl UnitEnd {
    pub(crate) fn completed<T>(self, result: Result<T, Error>) -> Result<T, Error> {
        self.ended(match &result {
            Ok(_) => "completed",
            Err(Error::CommitUnknown { .. }) => "unknown",
            Err(_) => "failed",
        });
        result
    }

    pub(crate) fn released(self) {
        self.ended("released");
    }

    fn ended(mut self, how: &'static str) {
        self.say(how);
    }

    fn say(&mut self, how: &'static str) {
        #[cfg(feature = "metrics")]
        if !std::mem::replace(&mut self.said, true) {
            counter!(names::IDEMPOTENCY_UNITS_TOTAL, "ended" => how).increment(1);
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for UnitEnd {
    fn drop(&mut self) {
        self.say("dropped");
    }
}

/// A run of the phased mode, which ends once, whoever notices. One that is dropped before was left to its lease.
#[derive(Debug, Default)]
pub(crate) struct RunEnd {
    #[cfg(feature = "metrics")]
    said: AtomicBool,
}

impl RunEnd {
    pub(crate) fn ended(&self, how: &'static str) {
        #[cfg(feature = "metrics")]
        if !self.said.swap(true, Ordering::Relaxed) {
            counter!(names::IDEMPOTENCY_RUNS_TOTAL, "ended" => how).increment(1);
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for RunEnd {
    fn drop(&mut self) {
        self.ended("left");
    }
}

/// A step at work. One that is dropped before it has said how it ended has the outcome that it was begun with.
#[derive(Debug)]
pub(crate) struct Step {
    #[cfg(feature = "metrics")]
    kind: &'static str,
    #[cfg(feature = "metrics")]
    outcome: &'static str,
}

impl Step {
    pub(crate) fn local() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            kind: "local",
            #[cfg(feature = "metrics")]
            outcome: "rolled_back",
        }
    }

    pub(crate) fn external() -> Self {
        Self {
            #[cfg(feature = "metrics")]
            kind: "external",
            #[cfg(feature = "metrics")]
            outcome: "unknown",
        }
    }

    /// What it comes to, as far as is known; counted when it is dropped.
    pub(crate) fn comes_to(&mut self, outcome: &'static str) {
        #[cfg(feature = "metrics")]
        {
            self.outcome = outcome;
        }
    }
}

#[cfg(feature = "metrics")]
impl Drop for Step {
    fn drop(&mut self) {
        counter!(names::IDEMPOTENCY_STEPS_TOTAL, "kind" => self.kind, "outcome" => self.outcome).increment(1);
    }
}

/// A renewal failed, and is tried again.
pub(crate) fn renewal_failed() {
    #[cfg(feature = "metrics")]
    counter!(names::IDEMPOTENCY_RENEWALS_FAILED_TOTAL).increment(1);
}

/// A reconciler has asked a provider.
pub(crate) fn asked(answer: &'static str) {
    #[cfg(feature = "metrics")]
    counter!(names::IDEMPOTENCY_ASKS_TOTAL, "answer" => answer).increment(1);
}

/// A resolution has come to its answer, which is given back.
pub(crate) fn resolved(
    by: &'static str,
    resolution: &'static str,
    answer: Result<Resolved, Error>,
) -> Result<Resolved, Error> {
    #[cfg(feature = "metrics")]
    {
        let outcome = match &answer {
            Ok(Resolved::Applied) => "applied",
            Ok(Resolved::Changed) => "changed",
            Err(_) => "error",
        };
        let labels = [("by", by), ("resolution", resolution), ("outcome", outcome)];
        counter!(names::IDEMPOTENCY_RESOLUTIONS_TOTAL, &labels).increment(1);
    }
    answer
}

/// What is unknown was listed, the oldest first.
pub(crate) fn listed(unknown: &[Unknown]) {
    #[cfg(feature = "metrics")]
    {
        let keys = u32::try_from(unknown.len()).unwrap_or(u32::MAX);
        let oldest = unknown.first().map_or(0.0, |oldest| oldest.since.as_secs_f64());
        gauge!(names::IDEMPOTENCY_UNKNOWN_KEYS).set(keys);
        gauge!(names::IDEMPOTENCY_UNKNOWN_OLDEST_SECONDS).set(oldest);
    }
}
