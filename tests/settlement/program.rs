//! The program under test, run as a user runs it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::EXAMPLE;

/// How long a run may take.
const LIMIT: Duration = Duration::from_mins(3);

/// How a run ended, and what it said.
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs it to the end; a run that outlasts the limit is killed and fails the test.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the example starts");
    let deadline = Instant::now() + LIMIT;
    while child.try_wait().expect("the child can be waited for").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("the child can be killed");
            let output = Output::from(child.wait_with_output().expect("its output"));
            panic!("{arguments:?} outlasted {LIMIT:?}: {output}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Output::from(child.wait_with_output().expect("its output"))
}

impl Output {
    /// The figure beside `name` in the table.
    pub(crate) fn figure<T: FromStr>(&self, name: &str) -> T {
        let row = self.stdout.lines().find_map(|line| line.trim_matches(['│', ' ']).strip_prefix(name));
        let figure = row.and_then(|figure| figure.trim().parse().ok());
        figure.unwrap_or_else(|| panic!("no figure {name}: {self}"))
    }
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "exit code {:?}\n{}\n{}", self.code, self.stdout, self.stderr)
    }
}

/// The example's binary, built once if this test was not built together with it.
fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().expect("the test's own path");
        let profile = test.ancestors().nth(2).expect("target/<profile>/deps/<test>");
        let example = profile.join("examples").join(EXAMPLE);
        // Another build, with fewer features, would build half of the dependencies again.
        if std::env::var_os("LEASTLOCK_EXAMPLES_ARE_BUILT").is_some() {
            return example;
        }
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", EXAMPLE])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.expect("cargo runs").success(), "the example does not build");
        example
    })
}
