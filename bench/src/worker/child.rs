//! A contender in a process of its own, so that its processor time and memory are its own, and so that it can be killed.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use leastlock_partition_worker::{Error, Summary};
use leastlock_testkit::process::{Child, speak};
use rdkafka::ClientConfig;
use tokio_util::sync::CancellationToken;

use super::tally::Tally;
use super::task::{Measured, Task, Work};
use super::{row, sleep, soak};

/// A child's line with its answer begins with this.
const ANSWER: &str = "measured ";
/// How long a child may take beyond what it was told.
const PATIENCE: Duration = Duration::from_mins(2);

/// What a child is told.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChildOptions {
    /// A task, as JSON.
    task: String,
}

/// Starts a child; it does not outlive the value.
pub(super) fn launch(task: &Task) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
    command.arg("worker-child").arg(serde_json::to_string(task)?);
    Ok(Child::spawn(command))
}

/// Lets a child do its task; answers what it has measured. Meanwhile other tasks go on, on other threads.
pub(super) fn measure(task: &Task) -> anyhow::Result<Measured> {
    let time = match &task.work {
        Work::Sleep { time, .. } | Work::Row { time, .. } => *time,
        Work::Soak { .. } => Duration::ZERO,
    };
    tokio::task::block_in_place(|| {
        let mut child = launch(task)?;
        let answer = child.line_containing(ANSWER, time + PATIENCE);
        let status = child.wait(PATIENCE);
        anyhow::ensure!(status.success(), "a child ended with {status}");
        Ok(serde_json::from_str(answer.trim_start_matches(ANSWER))?)
    })
}

/// The child's part.
pub(crate) async fn run(options: &ChildOptions) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let task: Task = serde_json::from_str(&options.task)?;
    let measured = match &task.work {
        Work::Sleep { .. } => sleep::in_child(&task).await?,
        Work::Row { .. } => row::in_child(&task).await?,
        Work::Soak { .. } => return soak::in_child(&task).await,
    };
    speak(format!("{ANSWER}{}", serde_json::to_string(&measured)?));
    Ok(())
}

/// The settings of a worker's consumer.
pub(super) fn kafka(task: &Task) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &task.brokers).set("group.id", &task.group);
    config
}

/// Runs a worker until it is measured, and then to its end.
pub(super) async fn until_measured<W>(
    tally: &Tally,
    time: Duration,
    run: impl FnOnce(CancellationToken) -> W,
) -> anyhow::Result<Measured>
where
    W: Future<Output = Result<Summary, Error>> + Send + 'static,
{
    let shutdown = CancellationToken::new();
    let mut running = tokio::spawn(run(shutdown.clone()));
    let measured = tokio::select! {
        ended = &mut running => anyhow::bail!("the worker ended early: {:?}", ended?),
        measured = tally.measured(time) => measured,
    };
    shutdown.cancel();
    running.await??;
    measured
}
