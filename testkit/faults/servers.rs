//! Servers of the suite's own, made with scripts/services, which may be killed and started again while everything runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fastrand::Rng;
use rustix::process::{Pid, Signal, kill_process};

use crate::ground::Server;
use crate::record::now;

/// Says in a process of the suite where its own servers are.
pub(crate) const OWN: &str = "LEASTLOCK_FAULTS_SERVICES";

/// So long nothing is restarted at first and at last.
const QUIET: Duration = Duration::from_secs(5);
/// Between two restarts.
const GAP_MS: std::ops::Range<u64> = 8_000..25_000;
/// How long a killed server stays away, beside the time that its start takes.
const AWAY_MS: std::ops::Range<u64> = 200..2_000;
/// The jars that are not worth loading twice.
const JARS: &str = "jars-";

/// A server was killed, and answered again.
#[derive(Debug, Clone)]
pub(crate) struct Restart {
    pub(crate) server: Server,
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
}

/// What was restarted so far.
pub(crate) type Restarts = Arc<Mutex<Vec<Restart>>>;

/// Servers of the suite's own.
#[derive(Debug)]
pub(crate) struct Servers {
    folder: PathBuf,
}

/// Those that this process has started; they end with the value.
struct Started(Servers);

/// Starts servers of its own, runs this program again with them, and ends them.
pub(crate) fn with_own() -> anyhow::Result<ExitCode> {
    let parent = tempfile::tempdir()?;
    let servers = Servers { folder: parent.path().join("services") };
    fs::create_dir_all(&servers.folder)?;
    link_jars(&servers.folder)?;
    // What was started before something failed is ended too.
    let started = Started(servers);
    started.0.run(&["up"])?;
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).envs(started.0.environment()?).env(OWN, &started.0.folder);
    let status = again.status().context("this program runs again")?;
    drop(started);
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Servers {
    /// Those that this process was started with.
    pub(crate) fn of_environment() -> Option<Self> {
        std::env::var_os(OWN).map(|folder| Self { folder: folder.into() })
    }

    fn environment(&self) -> anyhow::Result<Vec<(String, String)>> {
        let printed = self.run(&["env"])?;
        let lines = printed.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
        Ok(lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Kills one server after another for so long, and starts it again.
    pub(crate) fn disturb(&self, seed: u64, time: Duration, restarts: &Restarts) -> anyhow::Result<()> {
        let (mut rng, clock) = (Rng::with_seed(seed), Instant::now());
        std::thread::sleep(QUIET);
        let mut round: Vec<Server> = Vec::new();
        while clock.elapsed() + QUIET < time {
            if round.is_empty() {
                round = GROUPS.iter().map(|(server, ..)| *server).collect();
                rng.shuffle(&mut round);
            }
            let server = round.pop().expect("it was filled");
            let began = now();
            self.restart(server, Duration::from_millis(rng.u64(AWAY_MS)))?;
            let restart = Restart { server, began, ended: now() };
            let away = restart.ended.saturating_sub(began);
            println!("{} was killed, and answered again after {away:.1?}", server.name());
            restarts.lock().unwrap_or_else(PoisonError::into_inner).push(restart);
            std::thread::sleep(Duration::from_millis(rng.u64(GAP_MS)));
        }
        Ok(())
    }

    /// Kills a server, and starts it again; when this returns it answers.
    fn restart(&self, server: Server, away: Duration) -> anyhow::Result<()> {
        let (_, group, name) = GROUPS.iter().find(|(of, ..)| *of == server).context("it cannot be restarted")?;
        let file = self.folder.join(name).join("pid");
        let pid = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let pid = pid.split_whitespace().next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        // It may have ended by itself.
        let _gone = kill_process(pid.context("a process id")?, Signal::KILL);
        std::thread::sleep(away);
        self.run(&["up", group]).map(drop)
    }

    fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/services");
        let mut command = Command::new(script);
        command.args(arguments).env("LEASTLOCK_SERVICES_DIR", &self.folder).env_remove("LEASTLOCK_SERVICES_BASE_PORT");
        let output = command.output().context("scripts/services runs")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "scripts/services {arguments:?}: {}\n{said}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Err(error) = self.0.run(&["down", "--wipe"]) {
            eprintln!("{error}");
        }
    }
}

/// Each server that may be restarted, its group, and the name of the process that scenarios talk to.
const GROUPS: &[(Server, &str, &str)] = &[
    (Server::Postgres, "postgres", "postgres"),
    (Server::MariaDb, "mariadb", "mariadb"),
    (Server::Redis, "redis", "redis-2"),
    (Server::Etcd, "etcd", "etcd"),
    (Server::ZooKeeper, "zookeeper", "zookeeper"),
    (Server::Kafka, "kafka", "kafka"),
];

/// Takes the jars of the servers for tests, where there are some.
fn link_jars(folder: &Path) -> anyhow::Result<()> {
    let there = std::env::var_os("LEASTLOCK_SERVICES_DIR");
    let there = there.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/services"), PathBuf::from);
    let Ok(entries) = fs::read_dir(there) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(JARS) {
            symlink(entry.path(), folder.join(entry.file_name()))?;
        }
    }
    Ok(())
}
