//! A server of this program, as a child process.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::ended::Ended;

/// How long a server may take to start, and to end when it is told to.
const PATIENCE: Duration = Duration::from_mins(1);
const LISTENING: &str = "listening on ";

/// A server that listens. It ends with this process, whatever becomes of it: its stdin is closed then.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    /// Kept open: a server that has nobody to print to would fail.
    _stdout: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Server {
    /// Starts this program again with `arguments`, and waits until it listens.
    pub(crate) async fn start(arguments: &[String]) -> Result<Self, Ended> {
        let name = arguments.first().map_or("", String::as_str);
        let refused = |error: std::io::Error| Ended::refused(&format!("the {name} does not start"), &error);
        let program = std::env::current_exe().map_err(refused)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(refused)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let Some(stdout) = stdout else { return Err(Ended::Refused(format!("the {name} has no stdout"))) };
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        match tokio::time::timeout(PATIENCE, stdout.read_line(&mut line)).await {
            Ok(read) => read.map_err(refused)?,
            Err(_) => return Err(Ended::Refused(format!("the {name} does not listen after {PATIENCE:?}"))),
        };
        match line.trim_end().strip_prefix(LISTENING) {
            Some(address) => Ok(Self { address: address.to_owned(), child, stdin, _stdout: stdout }),
            // It has said why on stderr.
            None => Err(Ended::Refused(format!("the {name} did not start"))),
        }
    }

    /// SIGKILL: no destructor runs, no transaction is rolled back by it.
    pub(crate) async fn kill(mut self) -> Result<(), Ended> {
        self.child.kill().await.map_err(|error| Ended::refused("the service cannot be killed", &error))
    }

    /// SIGSTOP, as a suspended machine or a long pause would.
    pub(crate) fn stop(&self) -> Result<(), Ended> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub(crate) fn go_on(&self) -> Result<(), Ended> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Ended> {
        // `None` once it was waited for: then the number may be another process's.
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let Some(pid) = pid else { return Err(Ended::Breach(vec!["the service ended by itself".to_owned()])) };
        kill_process(pid, signal).map_err(|error| Ended::refused("the service cannot be signalled", &error))
    }

    /// Resolves if it ends by itself, which it should not.
    pub(crate) async fn ended(&mut self, name: &str) -> Ended {
        match self.child.wait().await {
            Ok(status) => Ended::Breach(vec![format!("the {name} ended by itself: {status}")]),
            Err(error) => Ended::refused(&format!("the {name} cannot be waited for"), &error),
        }
    }

    /// Ends it in good order.
    pub(crate) async fn end(mut self, name: &str) -> Result<(), Ended> {
        self.stdin = None;
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(Ended::Breach(vec![format!("the {name} did not end well: {status}")])),
            Ok(Err(error)) => Err(Ended::refused(&format!("the {name} cannot be waited for"), &error)),
            Err(_) => Err(Ended::Breach(vec![format!("the {name} did not end within {PATIENCE:?}")])),
        }
    }
}
