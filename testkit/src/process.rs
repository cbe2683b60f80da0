//! Child processes that a test can kill, stop and let go on.
//!
//! What a crash or a long pause does to a protocol cannot be shown inside one process: dropping a future runs
//! destructors, which `kill -9` does not. So the test runs its own binary a second time. The child's part is an ordinary
//! test function that returns at once unless it was started for that part:
//!
//! ```no_run
//! use std::time::Duration;
//! use leastlock_testkit::process::{Child, child_role, hear, speak};
//!
//! // #[test]
//! fn holder() {
//!     if !child_role("holder") {
//!         return;
//!     }
//!     speak("holding");
//!     hear(); // until the test says a line, which a killed child never hears
//!     speak("written");
//! }
//!
//! // #[test]
//! fn l1_late_holder_is_refused() {
//!     let mut child = Child::rerun("holder", &[("URL", "postgres://…")]);
//!     child.line_containing("holding", Duration::from_secs(20));
//!     child.stop();
//!     // … somebody else takes over …
//!     child.resume();
//!     child.send_line("go on");
//!     child.line_containing("written", Duration::from_secs(20));
//! }
//! ```
//!
//! The waits block their thread: call them from the body of a `#[tokio::test(flavor = "multi_thread")]`, whose other
//! tasks go on meanwhile.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child as StdChild, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use transcript::Transcript;

mod transcript;

/// Says in a child which test function it was started for.
pub const CHILD: &str = "LEASTLOCK_CHILD";

/// How long a signalled child may take to stop or to be gone; the kernel needs microseconds.
const SIGNAL_LIMIT: Duration = Duration::from_secs(30);

/// How often the end of a child is looked for.
const POLL: Duration = Duration::from_millis(2);

/// Whether this process is the child that was started for the test function `test_name` (with its module path).
///
/// A child does not outlive its parent: on Linux the kernel kills it, even if it is stopped.
#[must_use]
pub fn child_role(test_name: &str) -> bool {
    let chosen = std::env::var(CHILD).is_ok_and(|name| name == test_name);
    if chosen {
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("the kernel takes the signal");
        // libtest has printed `test name ... ` without an end of line; what is spoken begins on a line of its own.
        speak("");
    }
    chosen
}

/// Says a line to the parent, from a child.
pub fn speak(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the parent listens");
}

/// Waits in a child for the next line that the parent sends; `None` once there can be no more.
#[must_use]
pub fn hear() -> Option<String> {
    let mut line = String::new();
    let length = std::io::stdin().read_line(&mut line).expect("stdin is readable");
    (length > 0).then(|| line.trim_end_matches('\n').to_owned())
}

/// A child process and all that it has printed. When the value is dropped the child is killed and reaped.
#[derive(Debug)]
pub struct Child {
    process: StdChild,
    stdin: Option<ChildStdin>,
    transcript: Transcript,
}

impl Child {
    /// Runs the current test binary again, for the one test function `test_name` (with its module path, such as
    /// `sqlite::holder`), with `envs` added to the environment.
    ///
    /// # Panics
    /// When the process cannot be started.
    #[must_use]
    pub fn rerun(test_name: &str, envs: &[(&str, &str)]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("a test binary knows its path"));
        command.args([test_name, "--exact", "--nocapture", "--test-threads=1"]);
        command.envs(envs.iter().copied()).env(CHILD, test_name);
        Self::spawn(command)
    }

    /// Starts `command` with its stdin, stdout and stderr tied to the value.
    ///
    /// # Panics
    /// When the process cannot be started.
    #[must_use]
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let transcript = Transcript::new();
        let (started, start) = mpsc::sync_channel(1);
        let stdout_side = transcript.clone();
        // The kernel's parent-death signal means the *thread* that forked. The one that reads stdout lives as long as
        // the child does, where a thread of a test's runtime may end before.
        thread::spawn(move || {
            let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
            let stdout = child.stdout.take().expect("stdout is piped");
            started.send(child).expect("the spawning thread waits");
            gather(stdout, |line| stdout_side.spoken(line));
            stdout_side.end();
        });
        let mut process = start.recv().expect("the child starts");
        let stderr = process.stderr.take().expect("stderr is piped");
        let stderr_side = transcript.clone();
        thread::spawn(move || gather(stderr, |line| stderr_side.complaint(line)));
        let stdin = process.stdin.take();
        Self { process, stdin, transcript }
    }

    /// The child's process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for a line on stdout that contains `text`; see [`wait_for_line`](Self::wait_for_line).
    ///
    /// # Panics
    /// When there is none within `limit`, with all that was printed.
    pub fn line_containing(&mut self, text: &str, limit: Duration) -> String {
        self.transcript
            .next(|line| line.contains(text), limit)
            .unwrap_or_else(|why| self.fail(&format!("{text:?}: {why}")))
    }

    /// Waits for a line on stdout for which `predicate` holds, among those after the last line that a wait answered
    /// with; so the same words can be waited for again.
    ///
    /// # Panics
    /// When there is none within `limit`, or the child ends without it; the message shows all that was printed.
    pub fn wait_for_line(&mut self, predicate: impl Fn(&str) -> bool, limit: Duration) -> String {
        self.transcript.next(predicate, limit).unwrap_or_else(|why| self.fail(&format!("the awaited line: {why}")))
    }

    /// All lines on stdout so far.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.transcript.lines()
    }

    /// Sends a line to the child's stdin.
    ///
    /// # Panics
    /// When the child has ended.
    pub fn send_line(&mut self, line: &str) {
        let sent = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}").and_then(|()| stdin.flush()));
        if !matches!(sent, Some(Ok(()))) {
            self.fail(&format!("it does not take the line {line:?}: {sent:?}"));
        }
    }

    /// Closes the child's stdin, so that [`hear`] answers `None`.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Stops the child (SIGSTOP), as a long garbage collection or a suspended machine would. When this returns, none of
    /// its threads runs.
    ///
    /// # Panics
    /// When the child has ended.
    pub fn stop(&mut self) {
        self.signal(Signal::STOP);
        let deadline = Instant::now() + SIGNAL_LIMIT;
        let kinds = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        loop {
            match rustix::process::waitid(WaitId::Pid(Pid::from_child(&self.process)), kinds) {
                Ok(Some(status)) if status.stopped() => return,
                Ok(Some(_)) => self.fail("it ended instead of stopping"),
                Ok(None) | Err(rustix::io::Errno::INTR) if Instant::now() < deadline => thread::sleep(POLL),
                other => self.fail(&format!("it does not stop: {other:?}")),
            }
        }
    }

    /// Lets a stopped child go on (SIGCONT).
    ///
    /// # Panics
    /// When the child has ended.
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
    }

    /// Asks the child to end (SIGTERM).
    ///
    /// # Panics
    /// When the child has ended.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Kills the child (SIGKILL), stopped or not. When this returns it is gone, its sockets and file locks with it.
    pub fn kill(&mut self) -> ExitStatus {
        self.process.kill().expect("a child that is not reaped can be signalled");
        self.wait(SIGNAL_LIMIT)
    }

    /// Whether the child has ended.
    ///
    /// # Panics
    /// When the child cannot be asked for.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().expect("the child is ours to wait for").is_some()
    }

    /// Waits for the child to end.
    ///
    /// # Panics
    /// When it does not within `limit`, with all that was printed.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.process.try_wait().expect("the child is ours to wait for") {
                return status;
            }
            if Instant::now() >= deadline {
                self.fail(&format!("it did not end within {limit:?}"));
            }
            thread::sleep(POLL);
        }
    }

    fn signal(&mut self, signal: Signal) {
        // An id is signalled only while the child is not reaped: after that it may be another process's.
        if let Some(status) = self.process.try_wait().expect("the child is ours to wait for") {
            self.fail(&format!("it cannot be sent {signal:?}: it ended with {status}"));
        }
        rustix::process::kill_process(Pid::from_child(&self.process), signal).expect("a child can be signalled");
    }

    fn fail(&self, what: &str) -> ! {
        panic!("child {}: {what}\n{}", self.process.id(), self.transcript);
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SIGKILL ends a stopped process too. Failing here would hide why the test failed.
        if self.process.kill().is_ok() {
            let _ = self.process.wait();
        }
    }
}

/// Hands over each line until the other side closes the pipe. Bytes that are not UTF-8 are shown as U+FFFD.
fn gather(pipe: impl Read, mut line_is: impl FnMut(String)) {
    for line in BufReader::new(pipe).split(b'\n') {
        match line {
            Ok(line) => line_is(String::from_utf8_lossy(&line).into_owned()),
            Err(_) => return,
        }
    }
}
