//! A PostgreSQL cluster of a test's own, with transaction ids and a system identifier of its own.
//!
//! For what a database on the common server cannot show: a dump restored elsewhere, other settings. It takes a second or two to make.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use crate::process::Child;

/// How long the new server may take until it answers.
const START_LIMIT: Duration = Duration::from_mins(1);

/// The user that a server runs as where the tests run as root, which the server refuses to be.
const SERVER_USER: &str = "postgres";

/// A cluster that ends with the value, its files included.
#[derive(Debug)]
pub struct PostgresCluster {
    /// Its database `postgres`, as a superuser.
    pub url: String,
    server: Child,
    port: u16,
    settings: Vec<String>,
    folder: tempfile::TempDir,
}

impl PostgresCluster {
    /// A new, empty cluster on a free port of the loopback interface. It does not flush: a crash of the machine may lose it.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same with settings (`name=value`) besides.
    pub async fn start_with(settings: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        run(Command::new("chown").arg(server_user()).arg(folder.path()));
        let data = folder.path().join("data");
        let make = ["--username=leastlock", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
        run(as_server("initdb").arg("-D").arg(&data).args(make));
        let port = free_port();
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let server = Child::spawn(server(&data, port, &settings));
        let url = format!("postgres://leastlock@127.0.0.1:{port}/postgres");
        let mut cluster = Self { url, server, port, settings, folder };
        cluster.answers().await;
        cluster
    }

    /// Kills the server (SIGKILL), and starts it again: it recovers from its log. When this returns it answers.
    pub async fn crash(&mut self) {
        self.server.kill();
        self.server = self.serve();
        self.answers().await;
    }

    fn serve(&self) -> Child {
        Child::spawn(server(&self.folder.path().join("data"), self.port, &self.settings))
    }

    async fn answers(&mut self) {
        let deadline = Instant::now() + START_LIMIT;
        let options: PgConnectOptions = self.url.parse().expect("a PostgreSQL URL");
        while options.connect().await.is_err() {
            assert!(Instant::now() < deadline, "the PostgreSQL cluster does not answer: {:?}", self.server);
            // It refuses to start while processes of a killed one live on.
            if self.server.has_ended() {
                self.server = self.serve();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Restores the database at the URL `from` into this cluster's database `postgres`, by `pg_dump` and `psql`.
    pub async fn restore(&self, from: &str) {
        self.copy(from, &self.url).await;
    }

    /// Copies the database at the URL `from` into the empty one at `to`.
    pub async fn copy(&self, from: &str, to: &str) {
        // What follows the name is sqlx's, and pg_dump knows nothing of it.
        let plain = |url: &str| url.split('?').next().unwrap_or_default().to_owned();
        let (from, to) = (plain(from), plain(to));
        let restored = tokio::task::spawn_blocking(move || {
            let dump = Command::new(program("pg_dump")).arg(from).output().expect("pg_dump runs");
            assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(file.path(), dump.stdout).expect("it is written");
            let options = ["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file"];
            run(Command::new(program("psql")).arg(to).args(options).arg(file.path()));
        });
        restored.await.expect("the dump is restored");
    }
}

fn server(data: &Path, port: u16, settings: &[String]) -> Command {
    let mut command = as_server("postgres");
    command.arg("-D").arg(data);
    let port = format!("port={port}");
    for setting in ["listen_addresses=127.0.0.1", &port, "unix_socket_directories=", "fsync=off", "shared_buffers=16MB"]
    {
        command.args(["-c", setting]);
    }
    for setting in settings {
        command.args(["-c", setting]);
    }
    command
}

/// A program of the server's, as the user that may run it.
fn as_server(name: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program(name));
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid", SERVER_USER, "--regid", SERVER_USER, "--init-groups", "--pdeathsig", "KILL", "--"])
        .arg(program(name));
    // The folder of the tests may be closed to that user.
    command.current_dir("/");
    command
}

fn server_user() -> String {
    if rustix::process::geteuid().is_root() {
        SERVER_USER.to_owned()
    } else {
        rustix::process::geteuid().as_raw().to_string()
    }
}

/// The packaged servers go first: one in PATH may be anybody's build.
fn program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |path: &Path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = versions.map(|version| version.path()).filter(|path| path.join("bin").join(name).exists());
    newest.max_by_key(|path| number(path)).map_or_else(|| PathBuf::from(name), |path| path.join("bin").join(name))
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port of the loopback interface");
    listener.local_addr().expect("it is bound").port()
}

fn run(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?} does not run: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}
