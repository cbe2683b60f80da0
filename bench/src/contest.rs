//! Contenders in turn, round by round, each round verified.

mod rounds;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use fastrand::Rng;

pub(crate) use self::rounds::{Comparison, Entry, Round};

use crate::cpu::Cpu;
use crate::load::{Load, WARM};
use crate::options::Options;
use crate::progress::Progress;
use crate::statistics::Quotient;

/// The warm-up round need not last longer.
const WARM_UP: Duration = Duration::from_millis(500);

/// Several ways to do one thing.
///
/// # Contract
/// - Every contender does equal work, except where its name says that it does less.
/// - [`verify`](Self::verify) finds out from the database alone whether the effects that the calls claim are there.
pub(crate) trait Contest: Sized + Send + Sync + 'static {
    /// One way to do it.
    type Contender: Copy + Send + Sync + 'static;
    /// What all clients of a turn share, such as their pool.
    type Arena: Send + Sync + 'static;
    /// What one client keeps to itself during a turn.
    type Client: Send + 'static;

    /// What is done.
    fn measure(&self) -> &'static str;

    /// All ways, in the order of their turns.
    fn entrants(&self) -> Vec<Entrant<Self::Contender>>;

    /// Whether there is a [`Supply::Scarce`], of which a wrong contender would give away more than there is.
    fn can_run_out(&self) -> bool;

    /// Opens what so many clients need, all its connections included.
    fn open(&self, clients: u32) -> impl Future<Output = anyhow::Result<Self::Arena>> + Send;

    /// How many connections there are.
    fn connections(&self, arena: &Self::Arena) -> u32;

    /// Ends an arena, all its connections included.
    fn close(&self, arena: Arc<Self::Arena>) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Makes the state that a turn begins with, equal for all.
    fn prepare(&self, contender: Self::Contender, supply: Supply) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// One client, before its first call.
    fn client(&self, contender: Self::Contender, seat: Seat) -> Self::Client;

    /// One operation.
    fn call(
        &self,
        arena: &Self::Arena,
        contender: Self::Contender,
        client: &mut Self::Client,
    ) -> impl Future<Output = anyhow::Result<Done>> + Send;

    /// Puts the load of one turn on and measures it for so long: [`Load::run_for`], unless the clients are another program's.
    /// The claims are those of all calls since [`prepare`](Self::prepare).
    fn run(
        &self,
        load: &Load<'_, Self>,
        time: Duration,
        cpu: Cpu,
    ) -> impl Future<Output = anyhow::Result<(Round, Claims)>> + Send;

    /// Compares the claims made since [`prepare`](Self::prepare) with the database; answers how much was given away that was
    /// not there. Fails at any other difference.
    fn verify(
        &self,
        contender: Self::Contender,
        supply: Supply,
        claims: Claims,
    ) -> impl Future<Output = anyhow::Result<u64>> + Send;
}

/// A way, and how it stands in the report.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entrant<C> {
    /// Its name in the report.
    pub(crate) name: &'static str,
    /// The way.
    pub(crate) contender: C,
    /// The ratio that is reported beside it.
    pub(crate) quotient: Option<Quotient>,
    /// Whether it tries again after a conflict, so that conflicts are worth a column.
    pub(crate) retries: bool,
    /// It stands there to show a mistake, and what it gives away too much fails no run.
    pub(crate) is_wrong_on_purpose: bool,
}

/// How much there is to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// More than a turn can take.
    Ample,
    /// Soon gone, whatever the number of clients.
    Scarce,
}

/// What a client is told at the beginning.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    /// Its number, from 0.
    pub(crate) number: u32,
    /// How many there are.
    pub(crate) of: u32,
    /// What there is to begin with.
    pub(crate) supply: Supply,
    /// Seeded the same for all contenders of a round, so that they draw the same rows and keys.
    pub(crate) rng: Rng,
}

/// What came of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It had its effect.
    Effect,
    /// It was answered, and rightly had none: a refusal, a replay.
    NoEffect,
    /// It met conflicts until a limit. No effect, and no answer that a caller could use.
    GaveUp,
}

/// One call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// What came of it.
    pub(crate) outcome: Outcome,
    /// How many attempts met a conflict.
    pub(crate) conflicts: u64,
}

impl Done {
    /// A call that met no conflict.
    pub(crate) const fn at_once(had_effect: bool) -> Self {
        Self { outcome: if had_effect { Outcome::Effect } else { Outcome::NoEffect }, conflicts: 0 }
    }
}

/// What the calls claim in sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Claims {
    /// Calls that had their effect.
    pub(crate) effects: u64,
    /// Calls that were answered and had none.
    pub(crate) without_effect: u64,
    /// Calls that gave up.
    pub(crate) gave_up: u64,
    /// Calls whose client went away before the answer: each may have had its effect, or not.
    pub(crate) unanswered: u64,
    /// Attempts that met a conflict.
    pub(crate) conflicts: u64,
}

impl Claims {
    /// Counts a call.
    pub(crate) fn count(&mut self, done: Done) {
        match done.outcome {
            Outcome::Effect => self.effects += 1,
            Outcome::NoEffect => self.without_effect += 1,
            Outcome::GaveUp => self.gave_up += 1,
        }
        self.conflicts += done.conflicts;
    }

    /// Counts another client's calls.
    pub(crate) fn add(&mut self, other: Self) {
        self.effects += other.effects;
        self.without_effect += other.without_effect;
        self.gave_up += other.gave_up;
        self.unanswered += other.unanswered;
        self.conflicts += other.conflicts;
    }

    /// Calls that were answered.
    pub(crate) const fn answered(&self) -> u64 {
        self.effects + self.without_effect
    }
}

/// What all contests of a run share.
#[derive(Debug)]
pub(crate) struct Course<'a> {
    /// What the command line says.
    pub(crate) options: &'a Options,
    /// Where the database's processor time is read.
    pub(crate) cpu: Cpu,
    /// Says how far the run has come.
    pub(crate) progress: Progress,
}

/// How many turns a contest of so many contenders takes, and how long about.
pub(crate) fn turns(contenders: usize, options: &Options) -> (u64, Duration) {
    let a_round = contenders as u64 * options.clients.len() as u64;
    let counted = (options.seconds + WARM) * options.rounds;
    let time = counted + WARM_UP.min(options.seconds) + WARM;
    (a_round * u64::from(options.rounds + 1), time * u32::try_from(a_round).unwrap_or(u32::MAX))
}

/// Runs the contenders in turn, at each number of clients in turn: A1 B1 A16 B16, A1 B1 A16 B16, …
///
/// # Errors
/// When an operation fails or a round's result does not add up.
pub(crate) async fn compare<C: Contest>(contest: C, course: &Course<'_>) -> anyhow::Result<Vec<Comparison>> {
    let contest = Arc::new(contest);
    let entrants = contest.entrants();
    let mut comparisons = Vec::new();
    for &clients in &course.options.clients {
        let entries = entrants.iter().map(Entry::without_rounds).collect();
        comparisons.push(Comparison { measure: contest.measure(), clients, connections: 0, entries });
    }
    for number in 0..=course.options.rounds {
        for comparison in &mut comparisons {
            let arena = Arc::new(contest.open(comparison.clients).await?);
            comparison.connections = contest.connections(&arena);
            for (entrant, entry) in entrants.iter().zip(&mut comparison.entries) {
                let turn = Turn {
                    contest: &contest,
                    arena: &arena,
                    clients: comparison.clients,
                    contender: entrant.contender,
                };
                let place = || format!("{}, clients: {}, {}", comparison.measure, comparison.clients, entrant.name);
                turn.run(number, entry, course).await.with_context(place)?;
            }
            contest.close(arena).await?;
        }
    }
    Ok(comparisons)
}

/// A contender at a number of clients.
struct Turn<'a, C: Contest> {
    contest: &'a Arc<C>,
    arena: &'a Arc<C::Arena>,
    clients: u32,
    contender: C::Contender,
}

impl<C: Contest> Turn<'_, C> {
    async fn run(&self, number: u32, entry: &mut Entry, course: &Course<'_>) -> anyhow::Result<()> {
        let options = course.options;
        if number == 0 && self.contest.can_run_out() {
            entry.oversold_warming_up += self.sell_out(options.seed).await.context("while the supply ran out")?;
        }
        let supply = Supply::Ample;
        self.contest.prepare(self.contender, supply).await.context("preparing")?;
        let load = self.load(supply, options.seed ^ (u64::from(number) << 40));
        let time = if number == 0 { WARM_UP.min(options.seconds) } else { options.seconds };
        let (mut round, claims) = self.contest.run(&load, time, course.cpu).await?;
        round.oversold = self.contest.verify(self.contender, supply, claims).await.context("wrong results")?;
        course.progress.turn_ended(&format!(
            "{}, clients: {}, {}: {:.0} ops/s",
            self.contest.measure(),
            self.clients,
            entry.name,
            round.per_second
        ));
        if number == 0 {
            entry.oversold_warming_up += round.oversold;
        } else {
            entry.rounds.push(round);
        }
        Ok(())
    }

    /// All take what there is until there is no more; answers how much was given away that was not there.
    async fn sell_out(&self, seed: u64) -> anyhow::Result<u64> {
        let supply = Supply::Scarce;
        self.contest.prepare(self.contender, supply).await.context("preparing")?;
        let claims = self.load(supply, seed).run_out().await?;
        self.contest.verify(self.contender, supply, claims).await
    }

    fn load(&self, supply: Supply, seed: u64) -> Load<'_, C> {
        let Self { contest, arena, clients, contender } = *self;
        Load { contest, arena, contender, clients, supply, seed }
    }
}

#[cfg(test)]
mod tests;
