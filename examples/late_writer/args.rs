//! The command line.

use std::time::Duration;

use clap::Parser;

/// Stops the holder of a lease for longer than the lease lasts, lets another one take over, and lets the first go on.
///
/// It prints three lines: whether the late release of the first ended the lease of the second, and whose result stands in a row
/// that is unprotected and in one that is fenced.
///
/// Exit codes: 0 the lease survives, the unprotected row has the late result and the fenced row has not; 1 it came out otherwise; 2
/// bad arguments or an unreachable server.
#[derive(Debug, Parser)]
#[command(name = "late_writer")]
pub(crate) struct Args {
    /// postgres://…, mysql://… (MariaDB; needs --features mysql) or sqlite://…; default: a temporary SQLite file. A table
    /// `late_writer_example` is made in it, and emptied
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,

    /// How long the lease of the holder lasts that is stopped
    #[arg(long, value_name = "MS", default_value_t = 500, value_parser = clap::value_parser!(u64).range(50..=60_000))]
    pub(crate) ttl: u64,

    /// How often all of it is done; the lines are those of the first round that comes out otherwise, or of the last
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rounds: u32,

    /// The mistake: the late holder's release does not compare the owner
    #[arg(long)]
    pub(crate) without_owner: bool,

    /// The mistake: the late holder writes to the fenced row without a check
    #[arg(long)]
    pub(crate) without_fence: bool,

    /// The part of the holder that is stopped, as the program runs it itself
    #[arg(long, hide = true)]
    pub(crate) holder: bool,
}

impl Args {
    pub(crate) const fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl)
    }

    /// The command line of the holder that is stopped.
    pub(crate) fn of_the_holder(&self, url: &str) -> Vec<String> {
        let mut arguments = vec!["--holder".to_owned(), "--database".to_owned(), url.to_owned()];
        arguments.extend(["--ttl".to_owned(), self.ttl.to_string()]);
        for (flag, is_set) in [("--without-owner", self.without_owner), ("--without-fence", self.without_fence)] {
            if is_set {
                arguments.push(flag.to_owned());
            }
        }
        arguments
    }
}
