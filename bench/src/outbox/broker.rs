//! A Kafka broker of the run's own, which it may kill: started by `scripts/services` in a folder of its own, on free ports.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The checkout that this program was built in.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const SERVICES_DIR: &str = "LEASTLOCK_SERVICES_DIR";
const KAFKA: &str = "kafka";
const ADDRESS: &str = "export LEASTLOCK_KAFKA_BROKERS=";

/// A broker; it and its data end with the value.
#[derive(Debug)]
pub(super) struct OwnBroker {
    folder: TempDir,
    pub(super) address: String,
}

impl OwnBroker {
    pub(super) fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut broker = Self { folder, address: String::new() };
        broker.share_jars()?;
        broker.up()?;
        let lines = broker.services(&["env"])?;
        let address = lines.lines().find_map(|line| line.strip_prefix(ADDRESS));
        let address = address.context("scripts/services does not say where the broker is")?;
        address.clone_into(&mut broker.address);
        Ok(broker)
    }

    /// Starts it again, on the same data and address.
    pub(super) fn up(&self) -> anyhow::Result<()> {
        self.services(&["up", KAFKA]).map(drop)
    }

    /// Ends it in order.
    pub(super) fn down(&self) -> anyhow::Result<()> {
        self.services(&["down", KAFKA]).map(drop)
    }

    /// kill -9.
    pub(super) fn kill(&self) -> anyhow::Result<()> {
        let file = self.folder.path().join(KAFKA).join("pid");
        let text = std::fs::read_to_string(&file).with_context(|| format!("{} cannot be read", file.display()))?;
        let pid = text.split_whitespace().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        Ok(kill_process(pid.context("the broker has no process id")?, Signal::KILL)?)
    }

    /// The jars of the servers for tests, if they were installed, so that they are not fetched again.
    fn share_jars(&self) -> anyhow::Result<()> {
        let installed =
            std::env::var_os(SERVICES_DIR).map_or_else(|| Path::new(ROOT).join("target/services"), PathBuf::from);
        let Ok(entries) = std::fs::read_dir(installed) else { return Ok(()) };
        for entry in entries {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            if name.to_string_lossy().starts_with("jars-kafka-") && path.is_dir() {
                std::os::unix::fs::symlink(path.canonicalize()?, self.folder.path().join(name))?;
            }
        }
        Ok(())
    }

    fn services(&self, arguments: &[impl AsRef<OsStr>]) -> anyhow::Result<String> {
        let mut command = Command::new(Path::new(ROOT).join("scripts/services"));
        command.args(arguments).env(SERVICES_DIR, self.folder.path()).env_remove("LEASTLOCK_SERVICES_BASE_PORT");
        let done = command.stdin(Stdio::null()).output().context("scripts/services does not start")?;
        let complaint = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "scripts/services ended with {}: {complaint}", done.status);
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        if let Err(error) = self.services(&["down", "--wipe", KAFKA]) {
            eprintln!("the broker was left behind: {error:#}");
        }
    }
}
