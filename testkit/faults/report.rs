//! What is told of a run: a page with plots, the same as JSON, and the history of every breach.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::run::Outcome;

use self::recovery::Recovery;

mod html;
mod plots;
mod recovery;

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    /// How long faults were injected into each scenario that is no mutant.
    pub(crate) minutes: f64,
    pub(crate) own_servers: bool,
    pub(crate) scenarios: Vec<Told>,
    pub(crate) mutants: Vec<Told>,
    /// How long nothing succeeded, by kind of injection.
    pub(crate) recoveries: Vec<Recovery>,
}

/// A scenario.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) injections: usize,
    pub(crate) calls: u64,
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) volumes: Vec<(&'static str, u64)>,
    /// Independent trials of the guarantee.
    pub(crate) cycles: u64,
    /// Without a failure in so many, the rate of failures is below this at 95 %: 3 / cycles (the "rule of three": Hanley and
    /// Lippman-Hand, 1983).
    pub(crate) rate_below: Option<f64>,
    pub(crate) settled_after_s: Option<f64>,
    pub(crate) caught_after_s: Option<f64>,
    pub(crate) breaches: Vec<String>,
    /// The command that makes it happen again.
    pub(crate) again: String,
    /// In the folder of the report.
    pub(crate) plot: Option<String>,
    /// In the folder of the report, of a breach and of a mutant that was not caught.
    pub(crate) history: Option<String>,
}

/// One line of a scenario that has ended.
pub(crate) fn line(outcome: &Outcome) -> String {
    let counts = outcome.counts;
    let verdict = match (outcome.scenario.mutant, outcome.caught_after) {
        (None, _) if outcome.is_good() => "no breach".to_owned(),
        (None, _) => format!("BREACH: {}", outcome.verdict.breaches.join("\n")),
        (Some(_), Some(after)) => {
            let first = outcome.verdict.breaches.first().and_then(|breach| breach.lines().next());
            format!("caught after {:.1} s: {}", after.as_secs_f64(), first.unwrap_or_default())
        }
        (Some(_), None) => "NOT CAUGHT".to_owned(),
    };
    format!(
        "{}: {} injections, {} calls ({} done, {} refused, {} unknown), settled after {:.1?}; {verdict}",
        outcome.scenario.name(),
        outcome.struck.len(),
        counts.calls,
        counts.done,
        counts.refused,
        counts.unknown(),
        outcome.settled_after.unwrap_or_default(),
    )
}

/// Writes the report into a folder.
pub(crate) fn write(
    folder: &Path,
    seed: u64,
    minutes: f64,
    own_servers: bool,
    outcomes: &[Outcome],
) -> anyhow::Result<Report> {
    fs::create_dir_all(folder)?;
    let mut told = Vec::new();
    for (number, outcome) in outcomes.iter().enumerate() {
        told.push((outcome.scenario.mutant.is_some(), tell(folder, number, outcome)?));
    }
    told.sort_by(|one, other| one.1.name.cmp(&other.1.name));
    let (mutants, scenarios): (Vec<_>, Vec<_>) = told.into_iter().partition(|(is_mutant, _)| *is_mutant);
    let only = |told: Vec<(bool, Told)>| told.into_iter().map(|(_, told)| told).collect();
    let real = outcomes.iter().filter(|outcome| outcome.scenario.mutant.is_none());
    let recoveries = recovery::by_kind(real);
    let report = Report { seed, minutes, own_servers, scenarios: only(scenarios), mutants: only(mutants), recoveries };
    plots::recoveries(&report.recoveries, &folder.join("recoveries.svg"))?;
    fs::write(folder.join("report.json"), serde_json::to_vec_pretty(&report)?)?;
    fs::write(folder.join("index.html"), html::page(&report))?;
    Ok(report)
}

#[expect(clippy::cast_precision_loss, reason = "cycles of a run are far below 2^53")]
fn tell(folder: &Path, number: usize, outcome: &Outcome) -> anyhow::Result<Told> {
    let (counts, verdict, scenario) = (outcome.counts, &outcome.verdict, &outcome.scenario);
    let mut told = Told {
        name: scenario.name(),
        injections: outcome.struck.len() + outcome.restarts.len(),
        calls: counts.calls,
        done: counts.done,
        refused: counts.refused,
        unknown: counts.unknown(),
        volumes: verdict.volumes.clone(),
        cycles: verdict.cycles,
        rate_below: (verdict.cycles > 0).then(|| 3.0 / verdict.cycles as f64),
        settled_after_s: outcome.settled_after.map(|after| after.as_secs_f64()),
        caught_after_s: outcome.caught_after.map(|after| after.as_secs_f64()),
        breaches: verdict.breaches.clone(),
        again: again(outcome),
        plot: None,
        history: None,
    };
    if scenario.mutant.is_none() {
        let name = format!("scenario-{number}.svg");
        plots::scenario(outcome, &folder.join(&name))?;
        told.plot = Some(name);
    }
    if !outcome.is_good() {
        told.history = Some(keep(folder, number, outcome)?);
    }
    Ok(told)
}

fn again(outcome: &Outcome) -> String {
    let scenario = &outcome.scenario;
    let (minutes, seed) = (scenario.time.as_secs_f64() / 60.0, scenario.seed);
    let mutants = if scenario.mutant.is_some() { "only" } else { "no" };
    let name = scenario.mutant.map_or(scenario.workload, |mutant| mutant.name);
    format!(
        "cargo run --release -p leastlock-testkit --bin faults -- \
         --minutes {minutes} --seed {seed} --mutants {mutants} --scenario '{name}'"
    )
}

/// Keeps what the processes wrote, and what was injected.
fn keep(folder: &Path, number: usize, outcome: &Outcome) -> anyhow::Result<String> {
    let name = format!("history-{number}");
    let to = folder.join(&name);
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(&outcome.histories)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name())).context("a history is kept")?;
    }
    let injections = outcome.struck.iter().map(|struck| {
        let (began, ended) = (struck.began.as_nanos(), struck.ended.as_nanos());
        format!("{began} {ended} {} {}\n", struck.target, struck.injection)
    });
    fs::write(to.join("injections.txt"), injections.collect::<String>())?;
    fs::write(to.join("breaches.txt"), outcome.verdict.breaches.join("\n\n"))?;
    Ok(name)
}
