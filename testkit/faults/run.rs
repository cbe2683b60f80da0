//! Scenarios, a few side by side: each workload once as it is, and each mutant.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::{Mutants, Options};
use crate::fleet::Fleet;
use crate::ground::{Ground, Server};
use crate::mutant::{self, CAUGHT_WITHIN, Mutant};
use crate::record::{Counts, Journal, Success, now};
use crate::schedule::{self, Injection, Pace};
use crate::servers::Restart;
use crate::workload::{self, Stage, Verdict, Workload};

/// How often processes and injections are looked after.
const TICK: Duration = Duration::from_millis(20);
/// How often the history of a mutant is judged while it runs.
const LOOK: Duration = Duration::from_millis(1_500);
/// Beyond the longest lease and session time-out, so long may it take after the last fault until all is finished.
const SETTLE: Duration = Duration::from_secs(10);
/// For so long all has to stay finished.
const STILL: Duration = Duration::from_secs(1);
/// How long it is tried again to read what is there, and how often.
const PATIENCE: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(300);

/// One workload under the injections of a seed.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) workload: &'static str,
    pub(crate) mutant: Option<&'static Mutant>,
    pub(crate) seed: u64,
    pub(crate) time: Duration,
}

impl Scenario {
    /// What it is called in the report.
    pub(crate) fn name(&self) -> String {
        match self.mutant {
            None => self.workload.to_owned(),
            Some(mutant) => format!("{}, mutant: {}", self.workload, mutant.name),
        }
    }

    /// What will be done to it.
    pub(crate) fn injections(&self) -> anyhow::Result<Vec<Injection>> {
        let workload = self.named()?;
        let menu = self.mutant.map_or_else(|| workload.menu(), |mutant| mutant.menu(workload.menu()));
        let is_alone = self.mutant.is_some_and(|mutant| !mutant.blows.is_empty());
        let pace = if is_alone { Pace::OneByOne } else { Pace::Overlapping };
        Ok(schedule::draw(self.seed, &menu, &workload.roles(), self.time, pace))
    }

    fn named(&self) -> anyhow::Result<Box<dyn Workload>> {
        workload::named(self.workload).with_context(|| format!("no workload is called {}", self.workload))
    }
}

/// All that the options ask for.
pub(crate) fn scenarios(options: &Options, seed: u64) -> Vec<Scenario> {
    let (mut all, time) = (Vec::new(), options.time());
    if options.mutants != Mutants::Only {
        all.extend(workload::all().iter().map(|workload| Scenario {
            workload: workload.name(),
            mutant: None,
            seed,
            time,
        }));
    }
    if options.mutants != Mutants::No {
        let time = CAUGHT_WITHIN + Duration::from_secs(5);
        all.extend(mutant::all().map(|mutant| Scenario {
            workload: mutant.workload,
            mutant: Some(mutant),
            seed,
            time,
        }));
    }
    all.retain(|scenario| options.wants(&scenario.name()));
    all
}

/// What came of an injection.
#[derive(Debug, Clone)]
pub(crate) struct Struck {
    pub(crate) injection: Injection,
    /// The process that met it, and its place in the fleet.
    pub(crate) target: String,
    pub(crate) place: usize,
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
}

/// What came of a scenario.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) scenario: Scenario,
    pub(crate) began: Duration,
    /// When the last fault was over.
    pub(crate) ended: Duration,
    /// What it talked to.
    pub(crate) servers: Vec<Server>,
    pub(crate) struck: Vec<Struck>,
    /// Of servers that it talked to.
    pub(crate) restarts: Vec<Restart>,
    pub(crate) verdict: Verdict,
    pub(crate) counts: Counts,
    pub(crate) successes: Vec<Success>,
    /// Of a mutant that was caught: how long after its first injection, or after it began where nothing needs to be injected.
    pub(crate) caught_after: Option<Duration>,
    /// How long it took after the last fault until all was finished.
    pub(crate) settled_after: Option<Duration>,
    /// The histories of the processes.
    pub(crate) histories: PathBuf,
}

impl Outcome {
    /// Takes note of what happened meanwhile to servers that it talked to.
    pub(crate) fn meanwhile(&mut self, restarts: &[Restart]) {
        let met = restarts.iter().filter(|restart| restart.began >= self.began && restart.began <= self.ended);
        self.restarts.extend(met.filter(|restart| self.servers.contains(&restart.server)).cloned());
    }

    /// Whether it is what it should be.
    pub(crate) fn is_good(&self) -> bool {
        match self.scenario.mutant {
            None => self.verdict.breaches.is_empty(),
            Some(_) => self.caught_after.is_some_and(|after| after <= CAUGHT_WITHIN),
        }
    }
}

/// Runs scenarios, so many at once, and hands each outcome over as it comes. One that could not be run to its end is told of, and
/// has none. The last fault of each is over only when `servers_stay_up` is cancelled.
pub(crate) async fn run(
    scenarios: Vec<Scenario>,
    at_once: usize,
    folder: &Path,
    servers_stay_up: &CancellationToken,
    mut ended: impl FnMut(&Outcome),
) -> Vec<Outcome> {
    let (places, mut running) = (Arc::new(Semaphore::new(at_once.max(1))), JoinSet::new());
    for (number, scenario) in scenarios.into_iter().enumerate() {
        let (places, folder) = (Arc::clone(&places), folder.join(number.to_string()));
        let servers_stay_up = servers_stay_up.clone();
        running.spawn(async move {
            let _place = places.acquire().await?;
            let name = scenario.name();
            one(scenario, folder, &servers_stay_up).await.context(name)
        });
    }
    let mut outcomes = Vec::new();
    while let Some(outcome) = running.join_next().await {
        match outcome.context("a scenario ended early").flatten() {
            Ok(outcome) => {
                ended(&outcome);
                outcomes.push(outcome);
            }
            Err(error) => eprintln!("NOT RUN: {error:#}"),
        }
    }
    outcomes
}

async fn one(scenario: Scenario, folder: PathBuf, servers_stay_up: &CancellationToken) -> anyhow::Result<Outcome> {
    let workload = scenario.named()?;
    let mut ground = Ground::new(scenario.seed, scenario.mutant.map(|mutant| mutant.name), folder);
    std::fs::create_dir_all(ground.histories())?;
    workload.prepare(&mut ground).await?;
    let mut fleet = Fleet::launch(&*workload, &ground).await?;
    let began = now();
    let mut under = Under { scenario: &scenario, workload: &*workload, ground: &ground, struck: Vec::new() };
    let caught_after = under.faults(&mut fleet).await?;
    while !servers_stay_up.is_cancelled() {
        fleet.revive()?;
        tokio::time::sleep(TICK).await;
    }
    let struck = under.struck;
    let mut outcome = Outcome {
        histories: ground.histories(),
        began,
        ended: now(),
        servers: ground.addresses().keys().copied().collect(),
        struck,
        restarts: Vec::new(),
        verdict: Verdict::default(),
        counts: Counts::default(),
        successes: Vec::new(),
        caught_after,
        settled_after: None,
        scenario: scenario.clone(),
    };
    let mut unfinished = None;
    if caught_after.is_none() {
        let (after, what) = settle(&mut fleet, &*workload, &ground).await?;
        (outcome.settled_after, unfinished) = (Some(after), what);
    }
    tokio::task::block_in_place(|| fleet.end());
    let stage = if caught_after.is_some() { Stage::Running } else { Stage::Settled };
    let (journal, verdict) = judge(&*workload, &ground, stage).await?;
    outcome.verdict = verdict;
    outcome.verdict.breaches.extend(unfinished);
    (outcome.counts, outcome.successes) = (journal.counts(), journal.successes());
    if scenario.mutant.is_some() && caught_after.is_none() && !outcome.verdict.breaches.is_empty() {
        let first = outcome.struck.first().map_or(began, |struck| struck.began);
        outcome.caught_after = Some(now().saturating_sub(first));
    }
    Ok(outcome)
}

/// Reads the histories, and judges them. The database may have ended the connection that this is read by: so it is tried again.
async fn judge(workload: &dyn Workload, ground: &Ground, stage: Stage) -> anyhow::Result<(Journal, Verdict)> {
    let begun = Instant::now();
    loop {
        // First what was told, then what is there: so nothing that was told can be missing because it came later.
        let journal = Journal::load(&ground.histories())?;
        match caught(workload.check(ground, &journal, stage)).await {
            Ok(verdict) => return Ok((journal, verdict)),
            Err(error) if begun.elapsed() > PATIENCE => return Err(error),
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// What the testkit panics with, where a test would fail, is an error here: a server that is away comes back.
async fn caught<T>(reading: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let caught = AssertUnwindSafe(reading).catch_unwind().await;
    caught.unwrap_or_else(|_| Err(anyhow::anyhow!("it could not be read")))
}

/// A scenario while faults are injected.
struct Under<'a> {
    scenario: &'a Scenario,
    workload: &'a dyn Workload,
    ground: &'a Ground,
    struck: Vec<Struck>,
}

impl Under<'_> {
    /// Injects all; of a mutant, until it is caught. Answers how long that took.
    async fn faults(&mut self, fleet: &mut Fleet) -> anyhow::Result<Option<Duration>> {
        let (clock, began) = (Instant::now(), now());
        let mut due = self.scenario.injections()?.into_iter().peekable();
        let mut active: Vec<(Instant, usize)> = Vec::new();
        let mut looked = Instant::now();
        while clock.elapsed() < self.scenario.time {
            fleet.revive()?;
            while let Some(injection) = due.next_if(|injection| injection.at <= clock.elapsed()) {
                if let Some(number) = self.strike(fleet, injection).await? {
                    active.push((Instant::now() + self.struck[number].injection.lasts, number));
                }
            }
            for (_, number) in active.extract_if(.., |(until, _)| *until <= Instant::now()) {
                self.relieve(fleet, number).await?;
            }
            if self.scenario.mutant.is_some() && looked.elapsed() >= LOOK {
                looked = Instant::now();
                let verdict = judge(self.workload, self.ground, Stage::Running).await?.1;
                if !verdict.breaches.is_empty() {
                    let first = self.struck.first().map_or(began, |struck| struck.began);
                    return Ok(Some(now().saturating_sub(first)));
                }
            }
            tokio::time::sleep(TICK).await;
        }
        for (_, number) in active {
            self.relieve(fleet, number).await?;
        }
        Ok(None)
    }

    /// Answers its number, if the process was there to meet it.
    async fn strike(&mut self, fleet: &mut Fleet, injection: Injection) -> anyhow::Result<Option<usize>> {
        let latest = if injection.is_for_the_latest { Journal::latest(&self.ground.histories())? } else { None };
        let of_latest = latest.and_then(|by| fleet.members.iter().position(|member| member.is(&by)));
        let place = of_latest.unwrap_or(injection.target);
        let member = &mut fleet.members[place];
        let (began, target) = (now(), member.name());
        // What the database refuses at the moment does not happen.
        if !injection.blow.strike(member, self.ground).await.unwrap_or(false) {
            return Ok(None);
        }
        self.struck.push(Struck { injection, target, place, began, ended: began });
        Ok(Some(self.struck.len() - 1))
    }

    async fn relieve(&mut self, fleet: &mut Fleet, number: usize) -> anyhow::Result<()> {
        let struck = &mut self.struck[number];
        let begun = Instant::now();
        while let Err(error) = struck.injection.blow.relieve(&mut fleet.members[struck.place], self.ground).await {
            anyhow::ensure!(begun.elapsed() < PATIENCE, "{}: {error}", struck.injection);
            tokio::time::sleep(AGAIN).await;
        }
        struck.ended = now();
        Ok(())
    }
}

/// Heals everything, and waits until all is finished, and still is a little later: a commit whose sender was killed may have been on
/// its way. Answers how long that took, and what is not finished if it never is.
async fn settle(
    fleet: &mut Fleet,
    workload: &dyn Workload,
    ground: &Ground,
) -> anyhow::Result<(Duration, Option<String>)> {
    fleet.drain();
    let limit = workload.longest_lease() + SETTLE;
    let (healed, mut finished) = (Instant::now(), None::<Duration>);
    loop {
        fleet.revive()?;
        fleet.heal();
        let journal = Journal::load(&ground.histories())?;
        let unfinished =
            caught(workload.unfinished(ground, &journal)).await.unwrap_or_else(|error| Some(error.to_string()));
        if let Some(unfinished) = unfinished {
            finished = None;
            if healed.elapsed() >= limit {
                let what = format!("{limit:?} after the last fault there is still unfinished: {unfinished}");
                return Ok((healed.elapsed(), Some(what)));
            }
        } else {
            let since = *finished.get_or_insert_with(|| healed.elapsed());
            if healed.elapsed() >= since + STILL {
                return Ok((since, None));
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
