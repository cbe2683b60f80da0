//! What the suite is asked to do.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// The short profile: all scenarios and all mutants come to six minutes on two cores.
const SHORT_MINUTES: f64 = 0.9;
const SHORT_AT_ONCE: usize = 7;
const SHORT_SEED: u64 = 9;
const LONG_MINUTES: f64 = 60.0;

/// Runs the mechanisms of leastlock in several processes under kills, pauses, cut networks and swallowed replies, and checks what
/// they answered against what is there. Exits with 1 if a guarantee was broken, or a mutant was not caught.
#[derive(Debug, Parser)]
#[command(name = "faults")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) hidden: Option<Hidden>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Hidden {
    /// One process of a workload.
    #[command(hide = true)]
    Part {
        /// What it is told, as JSON.
        task: String,
    },
}

/// A run.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// How long faults are injected into each scenario; what comes before and after it is not counted.
    #[arg(long, default_value_t = 5.0)]
    pub(crate) minutes: f64,
    /// What all injections are drawn from; drawn and printed if it is not given.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Only scenarios whose name contains this; may be given several times.
    #[arg(long)]
    pub(crate) scenario: Vec<String>,
    /// Whether mutants are run, and whether anything else is.
    #[arg(long, value_enum, default_value_t = Mutants::Also)]
    pub(crate) mutants: Mutants,
    /// How many scenarios run side by side.
    #[arg(long, default_value_t = 7)]
    pub(crate) at_once: usize,
    /// Where the report is written.
    #[arg(long, default_value = "report")]
    pub(crate) report: PathBuf,
    /// Starts servers of its own with scripts/services, so that they can be restarted; else those of the environment are used.
    #[arg(long)]
    pub(crate) own_servers: bool,
    /// Six minutes in all with fixed seeds, or one hour.
    #[arg(long, value_enum)]
    pub(crate) profile: Option<Profile>,
    /// Prints what there is to run, with the injections that the seed makes, and ends.
    #[arg(long)]
    pub(crate) list: bool,
}

/// Which scenarios are run as mutants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mutants {
    /// None.
    No,
    /// All, after the scenarios.
    Also,
    /// Nothing else.
    Only,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Six minutes in all.
    Short,
    /// An hour of faults.
    Long,
}

impl Options {
    /// As the profile says, if there is one.
    pub(crate) fn profiled(mut self) -> Self {
        match self.profile {
            None => {}
            Some(Profile::Short) => {
                (self.minutes, self.at_once) = (SHORT_MINUTES, SHORT_AT_ONCE);
                self.seed.get_or_insert(SHORT_SEED);
            }
            Some(Profile::Long) => self.minutes = LONG_MINUTES,
        }
        self
    }

    /// How long faults are injected.
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs_f64(self.minutes * 60.0)
    }

    /// Whether a scenario of this name is asked for.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.scenario.is_empty() || self.scenario.iter().any(|part| name.contains(part.as_str()))
    }
}
