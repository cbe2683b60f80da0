//! What the command line says.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use leastlock_core::Engine;

use crate::stock::{Contender, Scene};

/// Fewer rounds make no median worth quoting.
const QUOTABLE_ROUNDS: u32 = 5;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Units taken from hot and from cold rows, in every way there is: conditional UPDATE, version column, row lock, combiner.
    Stock(StockOptions),
    /// Idempotency keys around one INSERT, first request and replay, against the same by hand and against the bare INSERT.
    Idempotency(Options),
}

impl Scenario {
    /// The options that every scenario has.
    pub(crate) const fn options(&self) -> &Options {
        match self {
            Self::Stock(stock) => &stock.common,
            Self::Idempotency(options) => options,
        }
    }

    /// What is left to the scenario is filled in.
    pub(crate) fn with_defaults(mut self) -> Self {
        let (options, clients) = match &mut self {
            Self::Stock(stock) => (&mut stock.common, [1, 16, 64, 256].as_slice()),
            Self::Idempotency(options) => (options, [1, 16, 64].as_slice()),
        };
        if options.clients.is_empty() {
            options.clients = clients.to_vec();
        }
        self
    }
}

/// The options of `stock`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StockOptions {
    /// Which rows are written; a list [default: all].
    #[arg(long = "scenario", visible_alias = "scene", value_name = "LIST", value_delimiter = ',')]
    pub(crate) scenes: Vec<Scene>,

    /// Which contenders run; a list [default: all that are right].
    #[arg(long = "contender", value_name = "LIST", value_delimiter = ',')]
    pub(crate) contenders: Vec<Contender>,

    #[command(flatten)]
    pub(crate) common: Options,
}

/// The options that every scenario has.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Server to make a database on, which is dropped at the end: postgres://… or, for `stock`, mysql://… Without it, the
    /// PostgreSQL server that `LEASTLOCK_POSTGRES_URL` names.
    #[arg(long, value_name = "URL", value_parser = server_url)]
    pub(crate) database: Option<String>,

    /// Use a temporary SQLite file instead.
    #[arg(long, conflicts_with = "database")]
    pub(crate) sqlite: bool,

    /// How many clients run at once; a list [default: 1,16,64, and 256 for `stock`].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) clients: Vec<u32>,

    /// Rounds that count, after one of warm-up; below 5 the medians are not to be quoted.
    #[arg(long, value_name = "N", default_value_t = QUOTABLE_ROUNDS, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// How long each contender is measured in a round.
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Seed of the random choices [default: random, printed].
    #[arg(long, value_name = "N", default_value_t = fastrand::u64(..=u64::from(u32::MAX)), hide_default_value = true)]
    pub(crate) seed: u64,

    /// Folder for the plot, the rounds as CSV, and the report as JSON.
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) out: PathBuf,

    /// Print the table as Markdown, with the command that makes it.
    #[arg(long)]
    pub(crate) markdown: bool,
}

impl StockOptions {
    /// The command line that repeats the run, without the server's address.
    pub(crate) fn command(&self) -> String {
        let mut command = self.common.command("stock");
        for (flag, names) in [("scenario", names(&self.scenes)), ("contender", names(&self.contenders))] {
            if !names.is_empty() {
                // Writing into a string cannot fail.
                let _ = write!(command, " --{flag} {names}");
            }
        }
        command
    }
}

impl Options {
    /// The command line that repeats the run, without the server's address.
    pub(crate) fn command(&self, scenario: &str) -> String {
        let clients: Vec<_> = self.clients.iter().map(ToString::to_string).collect();
        let (clients, rounds, seconds, seed) = (clients.join(","), self.rounds, self.seconds.as_secs_f64(), self.seed);
        let mut command = format!("cargo run --release -p leastlock-bench -- {scenario}");
        command.push_str(match self.engine() {
            Engine::Sqlite => " --sqlite",
            Engine::MySql => " --database \"$LEASTLOCK_MYSQL_URL\"",
            _ => "",
        });
        // Writing into a string cannot fail.
        let _ = write!(command, " --clients {clients} --rounds {rounds} --seconds {seconds} --seed {seed}");
        command
    }

    /// The engine that was chosen.
    pub(crate) fn engine(&self) -> Engine {
        match &self.database {
            _ if self.sqlite => Engine::Sqlite,
            Some(url) if url.starts_with("mysql://") => Engine::MySql,
            _ => Engine::Postgres,
        }
    }

    /// Whether the medians may be quoted.
    pub(crate) const fn is_quotable(&self) -> bool {
        self.rounds >= QUOTABLE_ROUNDS
    }
}

fn names<T: ValueEnum>(values: &[T]) -> String {
    let names = values.iter().filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()));
    names.collect::<Vec<_>>().join(",")
}

fn server_url(text: &str) -> Result<String, String> {
    let known = ["postgres://", "postgresql://", "mysql://"];
    if known.iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(text.to_owned());
    }
    Err("must begin with postgres:// or mysql://; for SQLite use --sqlite".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.01..=600.0).contains(&seconds) {
        return Err("must be from 0.01 to 600".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        scenario: Scenario,
    }

    fn stock(arguments: &[&str]) -> StockOptions {
        let line = Line::parse_from(["bench", "stock"].iter().chain(arguments));
        let Scenario::Stock(options) = line.scenario.with_defaults() else { panic!("another scenario") };
        options
    }

    #[test]
    fn the_printed_command_means_the_same_run() {
        let command = stock(&[
            "--sqlite",
            "--clients",
            "2,8",
            "--rounds",
            "7",
            "--seconds",
            "0.5",
            "--seed",
            "9",
            "--scenario",
            "hot-row,cold-rows",
            "--contender",
            "update,guarded",
        ])
        .command();
        let (_, arguments) = command.split_once(" -- stock ").unwrap();
        let again = stock(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!(again.command(), command);
        assert_eq!(again.common.clients, [2, 8]);
        assert_eq!(again.scenes, [Scene::HotRow, Scene::ColdRows]);
        assert_eq!(again.contenders, [Contender::Update, Contender::Guarded]);
    }

    #[test]
    fn each_scenario_has_its_own_numbers_of_clients() {
        assert_eq!(stock(&[]).common.clients, [1, 16, 64, 256]);
        let line = Line::parse_from(["bench", "idempotency"]).scenario.with_defaults();
        assert_eq!(line.options().clients, [1, 16, 64]);
    }

    #[test]
    fn the_address_chooses_the_engine_and_is_not_printed() {
        let options = stock(&["--database", "mysql://somebody:secret@127.0.0.1/"]).common;
        assert_eq!(options.engine(), Engine::MySql);
        assert!(!options.command("stock").contains("secret"));
        assert_eq!(stock(&["--database", "postgres://127.0.0.1/"]).common.engine(), Engine::Postgres);
        assert_eq!(stock(&["--sqlite"]).common.engine(), Engine::Sqlite);
    }

    #[test]
    fn limits_are_checked_before_anything_runs() {
        for wrong in [
            ["--clients", "0"],
            ["--clients", "1,257"],
            ["--rounds", "0"],
            ["--seconds", "0"],
            ["--seconds", "nan"],
            ["--database", "sqlite://file"],
            ["--scenario", "no-such"],
            ["--contender", "no-such"],
        ] {
            assert!(Line::try_parse_from(["bench", "stock"].into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }
}
