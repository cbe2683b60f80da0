//! The process of the holder that is stopped, from outside.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::engine::BoxError;

/// How long each step may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// Killed when it is dropped, stopped or not.
pub(crate) struct Holder {
    process: Child,
    pid: Pid,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    /// This program, with these arguments.
    pub(crate) fn start(arguments: &[String]) -> Result<Self, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed())).ok_or("the holder has ended")?;
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take());
        let (stdin, stdout) = stdin.zip(stdout).ok_or("the holder has no pipes")?;
        Ok(Self { process, pid, stdin, lines: BufReader::new(stdout).lines() })
    }

    /// Waits until it says `line`.
    pub(crate) async fn says(&mut self, line: &str) -> Result<(), BoxError> {
        match timeout(PATIENCE, self.lines.next_line()).await?? {
            Some(said) if said == line => Ok(()),
            other => Err(format!("the holder says {other:?} instead of {line:?}").into()),
        }
    }

    /// Stops it, as a long pause or a suspended machine would; when this returns none of its threads runs.
    pub(crate) async fn stop(&self) -> Result<(), BoxError> {
        kill_process(self.pid, Signal::STOP)?;
        let kinds = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let deadline = Instant::now() + PATIENCE;
        while waitid(WaitId::Pid(self.pid), kinds)?.is_none() {
            if Instant::now() > deadline {
                return Err("the holder does not stop".into());
            }
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// Lets it go on, and waits until it has ended.
    pub(crate) async fn go_on(mut self) -> Result<(), BoxError> {
        kill_process(self.pid, Signal::CONT)?;
        self.stdin.write_all(b"go on\n").await?;
        let status = timeout(PATIENCE, self.process.wait()).await??;
        if status.success() { Ok(()) } else { Err(format!("the holder ended with {status}").into()) }
    }
}
