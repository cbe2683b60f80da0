//! The program under test, run as a user runs it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use leastlock_testkit::broker::KAFKA_BROKERS;

/// One run of the example, as it is put together.
#[derive(Debug)]
pub(crate) struct Ledger(Command);

/// How a run ended, and what it said.
pub(crate) struct Output {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The real broker. A missing one fails the test.
pub(crate) fn brokers() -> String {
    std::env::var(KAFKA_BROKERS)
        .unwrap_or_else(|_| panic!("{KAFKA_BROKERS} is not set: eval \"$(scripts/services env)\""))
}

impl Ledger {
    pub(crate) fn new() -> Self {
        let mut command = Command::new(binary());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command)
    }

    pub(crate) fn argument(mut self, name: &str, value: &str) -> Self {
        self.0.args([name, value]);
        self
    }

    pub(crate) fn flag(mut self, name: &str) -> Self {
        self.0.arg(name);
        self
    }

    pub(crate) fn on(self, database: &str, brokers: &str) -> Self {
        self.argument("--database", database).argument("--brokers", brokers)
    }

    /// Runs to the end; a run that outlasts `limit` is killed and fails the test.
    pub(crate) fn run(mut self, limit: Duration) -> Output {
        let mut child = self.0.spawn().expect("the example starts");
        let deadline = Instant::now() + limit;
        while child.try_wait().expect("the child can be waited for").is_none() {
            if Instant::now() > deadline {
                child.kill().expect("the child can be killed");
                let output = Output::from(child.wait_with_output().expect("its output"));
                panic!("{:?} outlasted {limit:?}: {output}", self.0);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Output::from(child.wait_with_output().expect("its output"))
    }
}

impl Output {
    /// The figure beside `name` in the table.
    pub(crate) fn figure<T: FromStr>(&self, name: &str) -> T {
        let figure = self.row(name).unwrap_or_else(|| panic!("no figure {name}: {self}"));
        figure.trim().parse().unwrap_or_else(|_| panic!("no figure {name}: {self}"))
    }

    /// Whether the table has such a row.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.row(name).is_some()
    }

    fn row(&self, name: &str) -> Option<&str> {
        self.stdout.lines().find_map(|line| line.trim_matches(['│', ' ']).strip_prefix(name))
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
        let example = profile.join("examples").join("ledger");
        // Another build, with fewer features, would build half of the dependencies again.
        if std::env::var_os("LEASTLOCK_EXAMPLES_ARE_BUILT").is_some() {
            return example;
        }
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--example", "ledger"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(built.expect("cargo runs").success(), "the example does not build");
        example
    })
}
