//! What an idempotency key costs: around one conditional UPDATE, a phased step, and over HTTP.
//!
//! | module | concept |
//! |---|---|
//! | `order` | what clients ask for, and what they are answered |
//! | `by_hand` | the statements, in sqlx alone |
//! | `site` | the database, and whether it is as it has to be |
//! | `requests` | the contest of the transactional mode |
//! | `steps`, `round_trips` | the contest of the phased mode, and how many messages a run takes |
//! | `http` | the contest of the HTTP layer |
//! | `aims` | the ratios that the project aims at |

mod aims;
mod by_hand;
mod http;
mod order;
mod requests;
mod round_trips;
mod site;
mod steps;

use std::sync::Arc;

use anyhow::ensure;
use clap::ValueEnum;
use leastlock_idempotency::phased::PhasedSql;

pub(crate) use self::by_hand::IdempotencyByHand;
pub(crate) use self::round_trips::Watchable;

use self::http::{MISSING, Wrk};
use self::site::Site;
use crate::contest::{Comparison, Contest, Course, compare, turns};
use crate::cpu::Cpu;
use crate::engine::BenchEngine;
use crate::options::{IdempotencyOptions, Options, chosen};
use crate::progress::Progress;
use crate::report::Report;

/// An engine with all statements of this scenario.
pub(crate) trait KeyEngine: BenchEngine + PhasedSql + IdempotencyByHand + Watchable {}

impl<DB: BenchEngine + PhasedSql + IdempotencyByHand + Watchable> KeyEngine for DB {}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The transactional mode: first requests and replays, against the bare transaction and the same by hand.
    Keys,
    /// The phased mode: runs of local and external steps, against the bare transaction.
    Phased,
    /// The HTTP layer in both of its modes, against the bare handler. Needs wrk.
    Http,
}

impl Part {
    /// The numbers of clients, if none are named.
    const fn clients(self) -> &'static [u32] {
        match self {
            Self::Keys => &[1, 16, 64],
            Self::Phased | Self::Http => &[1, 16],
        }
    }

    const fn contenders(self) -> usize {
        match self {
            Self::Keys => requests::Way::ALL.len(),
            Self::Phased => steps::Work::ALL.len(),
            Self::Http => http::Way::ALL.len(),
        }
    }

    fn options(self, common: &Options) -> Options {
        let options = common.with_clients(self.clients());
        if self == Self::Http { Options { seconds: http::whole_seconds(options.seconds), ..options } } else { options }
    }
}

/// Measures the scenario.
pub(crate) async fn run<DB: KeyEngine>(options: &IdempotencyOptions) -> anyhow::Result<Report> {
    let common = &options.common;
    let needs_wrk = chosen(&options.parts).contains(&Part::Http);
    let wrk = if needs_wrk { Wrk::find().await?.map(Arc::new) } else { None };
    let (parts, left_out) = possible(&options.parts, wrk.is_some())?;
    let site = Site::<DB>::create().await?;
    let cpu = DB::cpu(&site.database).await?;
    let mut report = Report::begin("idempotency", options.command(), common, &site.database).await?;
    report.ratio = "this / base";
    if let Some(left_out) = left_out {
        eprintln!("{left_out}");
        report.notes.push(left_out);
    }
    if let Some(wrk) = &wrk {
        report.notes.push(format!("HTTP load: {}.", wrk.version));
    }

    let planned = parts.iter().map(|part| turns(part.contenders(), &part.options(common)));
    let (turns, time) = planned.reduce(|sum, next| (sum.0 + next.0, sum.1 + next.1)).unwrap_or_default();
    let host = Host { common, cpu, progress: Progress::begin(turns, time) };
    let mut round_trips = None;
    for part in parts {
        let site = site.share();
        report.comparisons.extend(match (part, &wrk) {
            (Part::Keys, _) => host.hold(part, requests::Requests::new(site, common.seed).await?).await?,
            (Part::Phased, _) => {
                let steps = steps::Steps::new(site);
                round_trips = steps.round_trips().await?;
                host.hold(part, steps).await?
            }
            (Part::Http, Some(wrk)) => host.hold(part, http::Requests::new(site, Arc::clone(wrk)).await?).await?,
            (Part::Http, None) => Vec::new(),
        });
    }
    host.progress.end();
    report.aims = aims::of(&report.comparisons, round_trips.as_ref());
    Ok(report)
}

/// The parts that can be measured here, and what is to be said of one that cannot; an error if that one was named.
fn possible(named: &[Part], has_wrk: bool) -> anyhow::Result<(Vec<Part>, Option<String>)> {
    let mut parts = chosen(named);
    if has_wrk || !parts.contains(&Part::Http) {
        return Ok((parts, None));
    }
    ensure!(!named.contains(&Part::Http), "{MISSING}");
    parts.retain(|part| *part != Part::Http);
    Ok((parts, Some(format!("The part http is left out: {MISSING}."))))
}

/// What all parts of a run share.
struct Host<'a> {
    common: &'a Options,
    cpu: Cpu,
    progress: Progress,
}

impl Host<'_> {
    async fn hold<C: Contest>(&self, part: Part, contest: C) -> anyhow::Result<Vec<Comparison>> {
        let options = part.options(self.common);
        compare(contest, &Course { options: &options, cpu: self.cpu, progress: self.progress.clone() }).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_wrk_is_left_out_aloud_or_refused() {
        let all = [Part::Keys, Part::Phased, Part::Http];
        assert_eq!(possible(&[], true).unwrap(), (all.to_vec(), None));
        let (parts, left_out) = possible(&[], false).unwrap();
        assert_eq!(parts, [Part::Keys, Part::Phased]);
        assert!(left_out.unwrap().contains("apt-get install wrk"));
        assert!(possible(&all, false).unwrap_err().to_string().contains("apt-get install wrk"));
        assert_eq!(possible(&[Part::Phased], false).unwrap(), (vec![Part::Phased], None));
    }

    #[test]
    fn http_is_measured_in_whole_seconds_and_named_clients_hold_everywhere() {
        let options = |arguments: &[&str]| {
            let line = [&["bench"], arguments].concat();
            <Options as clap::FromArgMatches>::from_arg_matches(
                &<Options as clap::Args>::augment_args(clap::Command::new("bench")).get_matches_from(line),
            )
            .unwrap()
        };
        let of = |part: Part, arguments: &[&str]| {
            let options = part.options(&options(arguments));
            (options.clients, options.seconds.as_millis())
        };
        let short = ["--seconds", "0.2"];
        assert_eq!(of(Part::Keys, &short), (vec![1, 16, 64], 200));
        assert_eq!(of(Part::Http, &short), (vec![1, 16], 1000));
        assert_eq!(of(Part::Http, &["--clients", "4"]), (vec![4], 2000));
    }
}
