//! Places of child processes that are killed and stopped, and come back.

use std::time::{Duration, Instant};

use fastrand::Rng;
use leastlock_testkit::process::Child;

/// A child, or the place of one.
#[derive(Debug)]
pub(crate) enum Slot {
    /// At work.
    Running(Child),
    /// Stopped, until then.
    Stopped(Child, Instant),
    /// Gone, until then.
    Dead(Instant),
}

impl Slot {
    /// Whether it is to come back by now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        match self {
            Self::Running(_) => false,
            Self::Stopped(_, until) | Self::Dead(until) => *until <= now,
        }
    }

    /// Stops a child that runs; answers whether one did.
    pub(crate) fn stop(&mut self, until: Instant) -> bool {
        match std::mem::replace(self, Self::Dead(until)) {
            Self::Running(mut child) => {
                child.stop();
                *self = Self::Stopped(child, until);
                true
            }
            other => {
                *self = other;
                false
            }
        }
    }

    /// Kills a child, stopped or not; answers whether there was one.
    pub(crate) fn kill(&mut self, until: Instant) -> bool {
        match std::mem::replace(self, Self::Dead(until)) {
            Self::Running(mut child) | Self::Stopped(mut child, _) => {
                child.kill();
                true
            }
            Self::Dead(until) => {
                *self = Self::Dead(until);
                false
            }
        }
    }

    /// Brings back whatever is missing.
    pub(crate) fn revive(&mut self, launch: impl FnOnce() -> anyhow::Result<Child>) -> anyhow::Result<()> {
        *self = match std::mem::replace(self, Self::Dead(Instant::now())) {
            Self::Running(child) => Self::Running(child),
            Self::Stopped(mut child, _) => {
                child.resume();
                Self::Running(child)
            }
            Self::Dead(_) => Self::Running(launch()?),
        };
        Ok(())
    }
}

/// A moment in the range, in milliseconds from now.
pub(crate) fn later(rng: &mut Rng, pause_ms: std::ops::Range<u64>) -> Instant {
    Instant::now() + Duration::from_millis(rng.u64(pause_ms))
}
