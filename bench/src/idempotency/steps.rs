//! The contest of the phased mode: runs of some steps, each of which takes a unit, against the bare transaction that takes one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{bail, ensure};
use fastrand::Rng;
use leastlock_idempotency::phased::{External, Local, Phased, PhasedBegin, ProviderKey, RetryWithSameKey};
use leastlock_idempotency::{Fingerprint, Key, Scope};
use sqlx::Pool;

use super::order::{Order, Receipt};
use super::round_trips::{self, RoundTrips};
use super::site::Site;
use super::{KeyEngine, by_hand};
use crate::contest::{Claims, Contest, Done, Entrant, Round, Seat, Supply};
use crate::cpu::Cpu;
use crate::load::Load;
use crate::statistics::Quotient;

/// What is done, in the report.
pub(super) const MEASURE: &str = "phased run";

const LOCAL_STEPS: [&str; 4] = ["take-1", "take-2", "take-3", "take-4"];

/// What a run consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// No run: the effect of one local step in a transaction of its own, without a key.
    Bare,
    /// The claim and the completion alone.
    NoStep,
    OneLocal,
    TwoLocal,
    FourLocal,
    OneExternal,
}

impl Work {
    pub(super) const ALL: [Self; 6] =
        [Self::Bare, Self::NoStep, Self::OneLocal, Self::TwoLocal, Self::FourLocal, Self::OneExternal];

    /// Its name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare transaction",
            Self::NoStep => "no step",
            Self::OneLocal => "1 local step",
            Self::TwoLocal => "2 local steps",
            Self::FourLocal => "4 local steps",
            Self::OneExternal => "1 external step",
        }
    }

    /// How many units it takes.
    const fn units(self) -> usize {
        match self {
            Self::NoStep | Self::OneExternal => 0,
            Self::Bare | Self::OneLocal => 1,
            Self::TwoLocal => 2,
            Self::FourLocal => 4,
        }
    }
}

/// The provider of the external step: counts, and answers at once.
#[derive(Debug, Default)]
struct Provider(AtomicU64);

impl Provider {
    fn call(&self, key: &ProviderKey) -> u64 {
        debug_assert!(!key.as_str().is_empty(), "a provider deduplicates by its key");
        self.0.fetch_add(1, Relaxed)
    }
}

/// Runs of the phased mode.
#[derive(Debug)]
pub(super) struct Steps<DB: KeyEngine> {
    site: Site<DB>,
    phased: Phased,
    provider: Provider,
}

impl<DB: KeyEngine> Steps<DB> {
    pub(super) fn new(site: Site<DB>) -> Self {
        Self { site, phased: Phased::default(), provider: Provider::default() }
    }

    /// How many messages of each work wait for an answer: see [`round_trips::of`].
    pub(super) async fn round_trips(&self) -> anyhow::Result<Option<RoundTrips>> {
        self.site.reopen().await?;
        round_trips::of(self, &self.site.database.url).await
    }

    /// Does the work once, with rows and keys of the client's choice.
    pub(super) async fn work(&self, pool: &Pool<DB>, work: Work, rng: &mut Rng) -> anyhow::Result<()> {
        let order = Order::random(rng);
        if work == Work::Bare {
            by_hand::bare(pool, &order).await?;
            return Ok(());
        }
        let key = Key::new(&Scope::new("tenant-7", "user-3", "place-orders-runs")?, &order.key)?;
        let fingerprint = Fingerprint::request("POST", "/orders", "").json(&order.body()?);
        let begun = self.phased.begin::<DB, Receipt>(pool, &key, &fingerprint).await?;
        let PhasedBegin::First(mut run) = begun else { bail!("a request that never came before got {begun:?}") };
        for name in LOCAL_STEPS.iter().take(work.units()) {
            let taken = Order::random(rng);
            let Local::Todo(mut step) = run.local(name).await? else { bail!("{name} was done before") };
            by_hand::effect::<DB>(&mut *step.tx(), &taken).await?;
            step.done(()).await?;
        }
        if work == Work::OneExternal {
            let asked = run.external("notify", RetryWithSameKey).await?;
            let External::Todo(attempt) = asked else { bail!("the provider was asked before") };
            let number = self.provider.call(attempt.provider_key());
            attempt.done(number).await?;
        }
        run.complete(order.receipt()).await?;
        Ok(())
    }
}

impl<DB: KeyEngine> Contest for Steps<DB> {
    type Contender = Work;
    type Arena = Pool<DB>;
    type Client = Rng;

    fn measure(&self) -> &'static str {
        MEASURE
    }

    fn entrants(&self) -> Vec<Entrant<Work>> {
        let entrant = |work: Work| {
            let quotient = (work != Work::Bare).then_some(Quotient { of: work.name(), by: Work::Bare.name() });
            Entrant { name: work.name(), contender: work, quotient, retries: false, is_wrong_on_purpose: false }
        };
        Work::ALL.map(entrant).into()
    }

    fn can_run_out(&self) -> bool {
        false
    }

    async fn open(&self, clients: u32) -> anyhow::Result<Pool<DB>> {
        self.site.pool(clients).await
    }

    fn connections(&self, arena: &Pool<DB>) -> u32 {
        arena.size()
    }

    async fn close(&self, arena: Arc<Pool<DB>>) -> anyhow::Result<()> {
        arena.close().await;
        Ok(())
    }

    async fn prepare(&self, _contender: Work, _supply: Supply) -> anyhow::Result<()> {
        self.provider.0.store(0, Relaxed);
        self.site.reopen().await
    }

    fn client(&self, _contender: Work, seat: Seat) -> Rng {
        seat.rng
    }

    async fn call(&self, arena: &Pool<DB>, contender: Work, rng: &mut Rng) -> anyhow::Result<Done> {
        self.work(arena, contender, rng).await?;
        Ok(Done::at_once(true))
    }

    async fn run(&self, load: &Load<'_, Self>, time: Duration, cpu: Cpu) -> anyhow::Result<(Round, Claims)> {
        load.run_for(time, cpu).await
    }

    async fn verify(&self, contender: Work, _supply: Supply, claims: Claims) -> anyhow::Result<u64> {
        let units = claims.effects * contender.units() as u64;
        let records = if contender == Work::Bare { 0 } else { claims.effects };
        self.site.holds(units..=units, records..=records).await?;
        let asked = self.provider.0.load(Relaxed);
        let expected = if contender == Work::OneExternal { claims.effects } else { 0 };
        ensure!(asked == expected, "the provider was asked {asked} times, where {expected} are right");
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
