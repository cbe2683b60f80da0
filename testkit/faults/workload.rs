//! What runs while faults are injected.

use std::fmt::Debug;
use std::ops::Range;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::ground::{Ground, Server};
use crate::inject::Blow;
use crate::part::Part;
use crate::record::Journal;

pub(crate) mod intake;
pub(crate) mod ledger;
pub(crate) mod payments;
mod transfers;
mod writer;

/// A workload: processes that use a mechanism, and what their histories have to satisfy.
///
/// # Contract
/// Every process writes each call down before it makes it, and an answer only if it is definite. [`check`](Self::check) may be
/// asked while the processes run; it then judges only what must hold at any time.
pub(crate) trait Workload: Debug + Send + Sync {
    /// Its name, such as `writer/redis`.
    fn name(&self) -> &'static str;

    /// Its processes.
    fn roles(&self) -> Vec<Role>;

    /// What may happen to it; a kind that stands there twice comes twice as often.
    fn menu(&self) -> Vec<Choice>;

    /// The longest lease and the longest session time-out together: 10 s later, at most, everything is finished after the last fault.
    fn longest_lease(&self) -> Duration;

    /// Makes what the processes need, and says by which addresses they find it.
    fn prepare<'a>(&'a self, ground: &'a mut Ground) -> BoxFuture<'a, anyhow::Result<()>>;

    /// One process, until [`Part::shutdown`]. After [`Part::draining`] it begins nothing new, but finishes what it has begun.
    fn play(&self, part: Part) -> BoxFuture<'_, anyhow::Result<()>>;

    /// What is not finished yet, after all faults have ended and [`Part::draining`] was told.
    fn unfinished<'a>(
        &'a self,
        ground: &'a Ground,
        journal: &'a Journal,
    ) -> BoxFuture<'a, anyhow::Result<Option<String>>>;

    /// Judges the history and what is there. While the processes run, `stage` is [`Stage::Running`].
    fn check<'a>(
        &'a self,
        ground: &'a Ground,
        journal: &'a Journal,
        stage: Stage,
    ) -> BoxFuture<'a, anyhow::Result<Verdict>>;
}

/// When a history is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The processes run.
    Running,
    /// All has ended.
    Settled,
}

/// Processes of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Role {
    pub(crate) name: &'static str,
    pub(crate) count: u32,
}

/// Something that may happen.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) blow: Blow,
    /// Only to processes of this role.
    pub(crate) role: Option<&'static str>,
    /// For how long, in milliseconds.
    pub(crate) lasts_ms: Range<u64>,
}

impl Choice {
    /// To any process.
    pub(crate) fn any(blow: Blow, lasts_ms: Range<u64>) -> Self {
        Self { blow, role: None, lasts_ms }
    }

    /// What may become of the way to a database: of any process, or only of a role's.
    pub(crate) fn on_the_way_to(database: Server, role: Option<&'static str>) -> [Self; 6] {
        [
            (Blow::Delay(database), 500..2_000),
            (Blow::BlackHole(database), 1_000..6_000),
            (Blow::Mute(database), 1_000..6_000),
            (Blow::Cut(database), 200..2_000),
            (Blow::SwallowCommit(database), 500..2_000),
            (Blow::LoseCommit(database), 500..2_000),
        ]
        .map(|(blow, lasts_ms)| Self { blow, role, lasts_ms })
    }

    /// To a process of a role.
    pub(crate) fn of(role: &'static str, blow: Blow, lasts_ms: Range<u64>) -> Self {
        Self { blow, role: Some(role), lasts_ms }
    }
}

/// What came of a check.
#[derive(Debug, Clone, Default)]
pub(crate) struct Verdict {
    /// Each guarantee that was broken, with the events that show it.
    pub(crate) breaches: Vec<String>,
    /// What was done, for the report.
    pub(crate) volumes: Vec<(&'static str, u64)>,
    /// How many independent trials of the guarantee there were.
    pub(crate) cycles: u64,
}

impl Verdict {
    /// Takes in what a checker says.
    pub(crate) fn expect<E: std::fmt::Display>(&mut self, checked: Result<(), E>) {
        if let Err(breach) = checked {
            self.breaches.push(breach.to_string());
        }
    }

    pub(crate) fn count(&mut self, what: &'static str, count: usize) {
        self.volumes.push((what, count as u64));
    }
}

/// All workloads.
pub(crate) fn all() -> Vec<Box<dyn Workload>> {
    let mut all: Vec<Box<dyn Workload>> = Vec::new();
    all.extend(intake::all());
    all.extend(ledger::all());
    all.extend(payments::all());
    all.extend(transfers::all());
    all.extend(writer::all());
    all
}

/// The workload of this name.
pub(crate) fn named(name: &str) -> Option<Box<dyn Workload>> {
    all().into_iter().find(|workload| workload.name() == name)
}
