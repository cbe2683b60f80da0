//! What the command line says.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

/// Fewer rounds make no median worth quoting.
const QUOTABLE_ROUNDS: u32 = 5;

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    /// Guarded conditional UPDATE of one hot row and of 1,000 rows, against plain sqlx and a check of the row count.
    Stock(Options),
    /// Idempotency keys around one INSERT, first request and replay, against the same by hand and against the bare INSERT.
    Idempotency(Options),
}

impl Scenario {
    /// The options that every scenario has.
    pub(crate) const fn options(&self) -> &Options {
        match self {
            Self::Stock(options) | Self::Idempotency(options) => options,
        }
    }
}

/// The options that every scenario has.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// PostgreSQL server to make a database on; it is dropped at the end. Without it, the one that
    /// `LEASTLOCK_POSTGRES_URL` names.
    #[arg(long, value_name = "URL", value_parser = postgres_url)]
    pub(crate) database: Option<String>,

    /// Use a temporary SQLite file instead.
    #[arg(long, conflicts_with = "database")]
    pub(crate) sqlite: bool,

    /// How many clients run at once; a list.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,16,64",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) clients: Vec<u32>,

    /// Rounds that count, after one of warm-up; below 5 the medians are not to be quoted.
    #[arg(long, value_name = "N", default_value_t = QUOTABLE_ROUNDS, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// How long each contender runs in a round.
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

impl Options {
    /// The command line that repeats the run, without the server's address.
    pub(crate) fn command(&self, scenario: &str) -> String {
        let clients: Vec<_> = self.clients.iter().map(ToString::to_string).collect();
        let (clients, rounds, seconds, seed) = (clients.join(","), self.rounds, self.seconds.as_secs_f64(), self.seed);
        let mut command = format!("cargo run --release -p leastlock-bench -- {scenario}");
        if self.sqlite {
            command.push_str(" --sqlite");
        }
        // Writing into a string cannot fail.
        let _ = write!(command, " --clients {clients} --rounds {rounds} --seconds {seconds} --seed {seed}");
        command
    }

    /// Whether the medians may be quoted.
    pub(crate) const fn is_quotable(&self) -> bool {
        self.rounds >= QUOTABLE_ROUNDS
    }
}

fn postgres_url(text: &str) -> Result<String, String> {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Ok(text.to_owned());
    }
    Err("must begin with postgres://; for SQLite use --sqlite".to_owned())
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

    #[test]
    fn the_printed_command_means_the_same_run() {
        let line =
            ["bench", "stock", "--sqlite", "--clients", "2,8", "--rounds", "7", "--seconds", "0.5", "--seed", "9"];
        let command = Line::parse_from(line).scenario.options().command("stock");
        let (_, arguments) = command.split_once(" -- ").unwrap();
        let again = Line::parse_from(["bench"].into_iter().chain(arguments.split(' ')));
        assert_eq!(again.scenario.options().command("stock"), command);
        assert_eq!(again.scenario.options().clients, [2, 8]);
    }

    #[test]
    fn limits_are_checked_before_anything_runs() {
        for wrong in [
            ["--clients", "0"],
            ["--clients", "1,257"],
            ["--rounds", "0"],
            ["--seconds", "0"],
            ["--seconds", "nan"],
            ["--database", "mysql://localhost"],
        ] {
            assert!(Line::try_parse_from(["bench", "stock"].into_iter().chain(wrong)).is_err(), "{wrong:?}");
        }
    }
}
