//! The program under test, run as a user runs it.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long one run may take on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// How a run ended, and what it said.
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the program to the end; a run that outlasts its time is killed and fails the test.
pub(crate) fn payments<S: AsRef<str>>(arguments: impl IntoIterator<Item = S>) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
    // Files, not pipes: a run that says more than a pipe holds would wait for a reader.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (stdout, stderr) = (folder.path().join("stdout"), folder.path().join("stderr"));
    let file = |path: &Path| std::fs::File::create(path).expect("a file");
    command.stdin(Stdio::null()).stdout(file(&stdout)).stderr(file(&stderr));
    let mut child = command.spawn().expect("the example starts");
    let deadline = Instant::now() + PATIENCE;
    let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("its output")).into_owned();
    loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            return Output { code: status.code(), stdout: text(&stdout), stderr: text(&stderr) };
        }
        if Instant::now() > deadline {
            child.kill().expect("the child can be killed");
            child.wait().expect("the child can be waited for");
            panic!("{command:?} outlasted {PATIENCE:?}: {}\n{}", text(&stdout), text(&stderr));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The first line of a run that is killed as soon as it has said it. Its servers end with it: their stdin closes.
pub(crate) fn first_line_and_kill(arguments: &[&str]) -> String {
    let mut command = Command::new(binary());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the example starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("stdout is piped");
    let read = BufReader::new(stdout).read_line(&mut line);
    child.kill().expect("the child can be killed");
    child.wait().expect("the child can be waited for");
    read.expect("its stdout is text");
    line.trim_end().to_owned()
}

/// A server of the program, which ends with the value.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    _stdin: Option<ChildStdin>,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command.args(arguments).args(["--listen", "127.0.0.1:0", "--until-stdin-closes"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the example starts");
        let stdin = child.stdin.take();
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        let address = line.trim_end().strip_prefix("listening on ");
        let address = address.unwrap_or_else(|| panic!("{arguments:?} does not listen: {line:?}")).to_owned();
        Self { child, _stdin: stdin, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.kill().is_ok() {
            let _ = self.child.wait();
        }
    }
}

impl Output {
    /// The figure beside `name` in the table.
    pub(crate) fn figure(&self, name: &str) -> u64 {
        let row = self.stdout.lines().find_map(|line| line.trim_matches(['│', ' ']).strip_prefix(name));
        let figure = row.unwrap_or_else(|| panic!("no figure {name}: {self}"));
        figure.trim().parse().unwrap_or_else(|_| panic!("no figure {name}: {self}"))
    }
}

impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "exit code {:?}\n{}\n{}", self.code, self.stdout, self.stderr)
    }
}

/// The example's binary, built once if this test was not built together with it; with the test's own features, so that
/// nothing is built twice.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().expect("the test's own path");
        let profile = test.ancestors().nth(2).expect("target/<profile>/deps/<test>");
        let example = profile.join("examples").join("payments");
        // Another build, with fewer features, would build half of the dependencies again.
        if std::env::var_os("LEASTLOCK_EXAMPLES_ARE_BUILT").is_some() {
            return example;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--example", "payments", "--features", "tower"]);
        let optional = [
            ("mysql", cfg!(feature = "mysql")),
            ("http", cfg!(feature = "http")),
            ("metrics", cfg!(feature = "metrics")),
        ];
        for (feature, _) in optional.into_iter().filter(|(_, is_on)| *is_on) {
            cargo.args(["--features", feature]);
        }
        let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.expect("cargo runs").success(), "the example does not build");
        example
    })
}
