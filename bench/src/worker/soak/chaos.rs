//! What goes wrong, and when: drawn from the seed.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use fastrand::Rng;
use leastlock_testkit::process::Child;

use super::super::child;
use super::super::task::{Task, Work};
use super::member::READY;
use crate::slot::{Slot, later};

const WORKERS: usize = 3;
/// Between two faults.
const PAUSE_MS: Range<u64> = 500..5_000;
/// Beyond the session time-out.
const BEYOND_MS: Range<u64> = 500..4_000;
/// Short of any.
const SHORT_MS: Range<u64> = 100..4_000;
const DEAD_MS: Range<u64> = 0..2_000;
/// How long a passer-by takes part.
const PASSING_MS: Range<u64> = 1_000..6_000;
/// How long a child may take to begin or to end.
const LIMIT: Duration = Duration::from_mins(2);

/// How often what went wrong.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Faults {
    pub(super) kills: u64,
    /// Longer than the session.
    pub(super) long_stops: u64,
    pub(super) short_stops: u64,
    /// Members that came or went in good order.
    pub(super) rebalances: u64,
}

impl fmt::Display for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kills, long_stops, short_stops, rebalances } = self;
        write!(
            formatter,
            "{kills} kills, {long_stops} stops beyond the session, {short_stops} short ones, {rebalances} rebalances"
        )
    }
}

/// The workers.
pub(super) struct Chaos {
    task: Task,
    session_ms: u64,
    rng: Rng,
    slots: Vec<Slot>,
    /// One more, which takes part for a while and leaves in good order.
    passer_by: Option<(Child, Instant)>,
    launched: i64,
    next: Instant,
    pub(super) faults: Faults,
}

impl Chaos {
    pub(super) fn begin(task: Task, session: Duration, seed: u64) -> anyhow::Result<Self> {
        let mut rng = Rng::with_seed(seed);
        let (next, session_ms) = (later(&mut rng, PAUSE_MS), u64::try_from(session.as_millis())?);
        let (slots, faults) = (Vec::new(), Faults::default());
        let mut chaos = Self { task, session_ms, rng, slots, passer_by: None, launched: 0, next, faults };
        for _ in 0..WORKERS {
            let mut child = launch(&mut chaos.task, &mut chaos.launched)?;
            child.line_containing(READY, LIMIT);
            chaos.slots.push(Slot::Running(child));
        }
        Ok(chaos)
    }

    /// Does what is due. Blocks its thread while a member leaves.
    pub(super) fn step(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        self.notice_ends()?;
        for slot in self.slots.iter_mut().filter(|slot| slot.is_due(now)) {
            slot.revive(|| launch(&mut self.task, &mut self.launched))?;
        }
        if let Some((child, _)) = self.passer_by.take_if(|(_, until)| *until <= now) {
            leave(child)?;
            self.faults.rebalances += 1;
        }
        if now >= self.next {
            self.harm()?;
            self.next = later(&mut self.rng, PAUSE_MS);
        }
        Ok(())
    }

    /// Ends all that is wrong.
    pub(super) fn all_up(&mut self) -> anyhow::Result<()> {
        self.slots.iter_mut().try_for_each(|slot| slot.revive(|| launch(&mut self.task, &mut self.launched)))
    }

    /// Ends the workers in order.
    pub(super) fn end(self) -> anyhow::Result<Faults> {
        let running = self.slots.into_iter().filter_map(|slot| match slot {
            Slot::Running(child) => Some(child),
            Slot::Stopped(..) | Slot::Dead(_) => None,
        });
        running.chain(self.passer_by.map(|(child, _)| child)).try_for_each(leave)?;
        Ok(self.faults)
    }

    fn harm(&mut self) -> anyhow::Result<()> {
        let number = self.rng.usize(..self.slots.len());
        let kind = self.rng.u8(..10);
        let slot = &mut self.slots[number];
        match kind {
            0..3 => self.faults.kills += u64::from(slot.kill(later(&mut self.rng, DEAD_MS))),
            3..6 => {
                let until = later(&mut self.rng, BEYOND_MS) + Duration::from_millis(self.session_ms);
                self.faults.long_stops += u64::from(slot.stop(until));
            }
            6..7 => self.faults.short_stops += u64::from(slot.stop(later(&mut self.rng, SHORT_MS))),
            _ if self.passer_by.is_none() => {
                let child = launch(&mut self.task, &mut self.launched)?;
                self.passer_by = Some((child, later(&mut self.rng, PASSING_MS)));
                self.faults.rebalances += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// A worker that ends without being told to is a fault of its own.
    fn notice_ends(&mut self) -> anyhow::Result<()> {
        for slot in &mut self.slots {
            if let Slot::Running(child) = slot
                && child.has_ended()
            {
                anyhow::bail!("a worker ended by itself: {child:?}");
            }
        }
        Ok(())
    }
}

/// A member with a number of its own.
fn launch(task: &mut Task, launched: &mut i64) -> anyhow::Result<Child> {
    *launched += 1;
    if let Work::Soak { process, .. } = &mut task.work {
        *process = *launched;
    }
    child::launch(task)
}

/// A member leaves the group in good order.
fn leave(mut child: Child) -> anyhow::Result<()> {
    child.close_stdin();
    let status = child.wait(LIMIT);
    anyhow::ensure!(status.success(), "a worker ended with {status}: {child:?}");
    Ok(())
}
