//! Worker processes, which can be killed and stopped.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::ended::Ended;

/// How long a worker's answer is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// A worker, which does what it is told a line at a time. It ends with this process, whatever becomes of it: its stdin is closed then.
pub(crate) struct Worker {
    name: String,
    child: Child,
    told: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts this program again, as a worker.
    pub(crate) fn start(name: &str, arguments: &[(&str, &str)]) -> Result<Self, Ended> {
        let program = std::env::current_exe().map_err(|error| Ended::refused("this program is not found", &error))?;
        let mut command = Command::new(program);
        command.args(["worker", "--name", name]);
        for (option, value) in arguments {
            command.arg(option).arg(value);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| Ended::refused("a worker does not start", &error))?;
        let (Some(told), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Ended::Refused("a worker has no pipes".to_owned()));
        };
        Ok(Self { name: name.to_owned(), child, told, answers: BufReader::new(answers).lines() })
    }

    /// Tells it what to do.
    pub(crate) async fn tell(&mut self, line: &str) -> Result<(), Ended> {
        let told = self.told.write_all(format!("{line}\n").as_bytes()).await;
        told.map_err(|error| Ended::refused(&format!("worker {} does not listen", self.name), &error))
    }

    /// Waits for what it says.
    pub(crate) async fn answer(&mut self) -> Result<String, Ended> {
        match tokio::time::timeout(PATIENCE, self.answers.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(_) => Err(Ended::Breach(vec![format!("worker {} ended by itself", self.name)])),
            Err(_elapsed) => Err(Ended::Breach(vec![format!("worker {} says nothing for {PATIENCE:?}", self.name)])),
        }
    }

    /// Kills it. When this returns it is gone.
    #[allow(dead_code, reason = "one of the examples that use this file does")]
    pub(crate) async fn kill(mut self) -> Result<(), Ended> {
        self.child.kill().await.map_err(|error| Ended::refused("a worker cannot be killed", &error))
    }

    /// Stops it, as a long garbage collection or a suspended machine does.
    #[allow(dead_code, reason = "one of the examples that use this file does")]
    pub(crate) fn stop(&self) -> Result<(), Ended> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on.
    #[allow(dead_code, reason = "one of the examples that use this file does")]
    pub(crate) fn resume(&self) -> Result<(), Ended> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Ended> {
        // `None` once it was waited for: then the number may be another process's.
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| Ended::Breach(vec![format!("worker {} ended by itself", self.name)]))?;
        kill_process(pid, signal).map_err(|error| Ended::refused("a worker cannot be signalled", &error))
    }
}
