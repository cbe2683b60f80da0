//! A relay, or the loop, in a process of its own, so that it can be killed.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use leastlock_testkit::process::{Child, hear, speak};
use tokio_util::sync::CancellationToken;

use super::producer::Plain;
use super::site::{Settings, connection, relay_pool};
use super::{OutboxEngine, Way, by_hand};
use crate::options::OutboxOptions;

/// What a child says once it is about to publish.
const READY: &str = "publishing";
/// How long a child may take to begin or to end.
const LIMIT: Duration = Duration::from_mins(1);

/// What a child is told. It publishes until its standard input ends.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChildOptions {
    #[arg(long)]
    way: Way,
    #[arg(long)]
    url: String,
    #[arg(long)]
    brokers: String,
    #[arg(long)]
    batch: u32,
    #[arg(long)]
    lease_ms: u64,
    #[arg(long)]
    page: Option<u32>,
    #[arg(long)]
    in_flight: Option<u32>,
}

impl ChildOptions {
    pub(super) fn new(way: Way, url: &str, brokers: &str, options: &OutboxOptions, lease: Duration) -> Self {
        let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
        let OutboxOptions { batch, page, in_flight, .. } = *options;
        Self { way, url: url.to_owned(), brokers: brokers.to_owned(), batch, lease_ms, page, in_flight }
    }

    /// A child that is about to publish. It does not outlive the value.
    pub(super) fn start(&self) -> anyhow::Result<Child> {
        let mut child = self.launch()?;
        child.line_containing(READY, LIMIT);
        Ok(child)
    }

    /// A child that has just begun.
    pub(super) fn launch(&self) -> anyhow::Result<Child> {
        let way = if self.way == Way::Loop { "loop" } else { "relay" };
        let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
        command.args(["outbox-child", "--way", way, "--url", &self.url, "--brokers", &self.brokers]);
        command.args(["--batch", &self.batch.to_string(), "--lease-ms", &self.lease_ms.to_string()]);
        for (flag, setting) in [("--page", self.page), ("--in-flight", self.in_flight)] {
            if let Some(setting) = setting {
                command.args([flag, &setting.to_string()]);
            }
        }
        Ok(Child::spawn(command))
    }
}

/// Ends a child in order: what is under way is noted, shards are given back.
pub(super) fn end(child: &mut Child) -> anyhow::Result<()> {
    child.close_stdin();
    let status = child.wait(LIMIT);
    anyhow::ensure!(status.success(), "a child ended with {status}: {:?}", child.lines());
    Ok(())
}

/// The child's part.
pub(crate) async fn run(options: &ChildOptions) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let shutdown = CancellationToken::new();
    let ended = shutdown.clone();
    std::thread::spawn(move || {
        while hear().is_some() {}
        ended.cancel();
    });
    match options.url.split(':').next() {
        Some("sqlite") => publish::<Sqlite>(options, shutdown).await,
        Some("mysql") => publish::<MySql>(options, shutdown).await,
        _ => publish::<Postgres>(options, shutdown).await,
    }
}

async fn publish<DB: OutboxEngine>(options: &ChildOptions, shutdown: CancellationToken) -> anyhow::Result<()> {
    let pool = relay_pool::<DB>(&options.url).await?;
    speak(READY);
    if options.way == Way::Loop {
        let mut connection = connection(&pool).await?;
        let mut producer = Plain::to(&options.brokers)?;
        by_hand::run::<DB>(&mut connection, &mut producer, options.batch, u64::MAX, &shutdown).await?;
        return Ok(());
    }
    let lease = Some(Duration::from_millis(options.lease_ms));
    let settings = Settings { lease, page: options.page, in_flight: options.in_flight };
    settings.relay(&pool, &options.brokers)?.build()?.run(shutdown).await?;
    Ok(())
}
