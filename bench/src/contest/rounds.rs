//! What contenders did: rounds, by contender and by number of clients.

use serde::Serialize;

use super::Entrant;
use crate::statistics::Quotient;

/// What one contender did in one round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    /// Operations that were answered in the time that is measured.
    pub(crate) operations: u64,
    /// That time.
    pub(crate) seconds: f64,
    /// The one divided by the other.
    pub(crate) per_second: f64,
    /// Half of the operations took no longer.
    pub(crate) p50_us: f64,
    /// 99 of 100 operations took no longer.
    pub(crate) p99_us: f64,
    /// Attempts that met a conflict.
    pub(crate) conflicts: u64,
    /// Calls that met conflicts until a limit, and are no operations.
    pub(crate) gave_up: u64,
    /// Processor time of the database, where it can be read.
    pub(crate) cpu_seconds: Option<f64>,
    /// How much was given away that was not there.
    pub(crate) oversold: u64,
}

/// One contender's rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Entry {
    /// The contender.
    pub(crate) name: &'static str,
    /// The ratio that is reported beside it.
    pub(crate) quotient: Option<Quotient>,
    /// Whether conflicts are worth a column.
    pub(crate) retries: bool,
    /// It stands there to show a mistake.
    pub(crate) is_wrong_on_purpose: bool,
    /// How much it gave away that was not there, in the warm-up.
    pub(crate) oversold_warming_up: u64,
    /// In the order in which they ran, without the warm-up.
    pub(crate) rounds: Vec<Round>,
}

/// All contenders' rounds at one number of clients.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Comparison {
    /// What was done.
    pub(crate) measure: &'static str,
    /// How many clients did it at once.
    pub(crate) clients: u32,
    /// How many connections they had.
    pub(crate) connections: u32,
    /// In the order of their turns.
    pub(crate) entries: Vec<Entry>,
}

impl Entry {
    /// How much it gave away that was not there, in all rounds, the warm-up included.
    pub(crate) fn oversold(&self) -> u64 {
        self.oversold_warming_up + self.rounds.iter().map(|round| round.oversold).sum::<u64>()
    }

    /// A contender that has had no turn yet.
    pub(super) fn without_rounds<C>(entrant: &Entrant<C>) -> Self {
        let Entrant { name, quotient, retries, is_wrong_on_purpose, .. } = *entrant;
        Self { name, quotient, retries, is_wrong_on_purpose, oversold_warming_up: 0, rounds: Vec::new() }
    }
}
