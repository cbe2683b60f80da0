//! A ZooKeeper of the test's own, which it may kill and set back.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use leastlock_testkit::process::Child;
use leastlock_testkit::{ZOOKEEPER_JARS, ZOOKEEPER_JAVA};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::world::eventually;

/// A server on a free port, with its data in a folder of its own; killed and removed with the value.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
}

impl Server {
    /// One alone, that answers.
    pub(crate) async fn start() -> Self {
        let mut server = Self::member(1, "");
        server.restart().await;
        server
    }

    /// One of the ensemble that these lines describe. It does not run yet.
    pub(crate) fn member(number: u32, ensemble: &str) -> Self {
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap().port();
        let server = Self { folder: tempfile::tempdir().unwrap(), port, process: None };
        std::fs::create_dir(server.data()).unwrap();
        std::fs::write(server.data().join("myid"), number.to_string()).unwrap();
        let data = server.data();
        // As `scripts/services` has it.
        let settings = format!(
            "dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={port}\ntickTime=500\nminSessionTimeout=1000\n\
             maxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n{ensemble}",
            data.display()
        );
        std::fs::write(server.folder.path().join("zoo.cfg"), settings).unwrap();
        server
    }

    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it, with what is left of its data.
    pub(crate) fn spawn(&mut self) {
        let [java, jars] = [ZOOKEEPER_JAVA, ZOOKEEPER_JARS].map(|variable| {
            std::env::var(variable)
                .unwrap_or_else(|_| panic!("{variable} is not set: eval \"$(scripts/services env)\""))
        });
        let mut command = Command::new(java);
        // It lives for seconds, and on a machine that has other things to do.
        command.args(["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        // No digest of the tree, which a log that was written in by hand does not have.
        command.args(["-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=64", "-Dzookeeper.digest.enabled=false"]);
        command.args(["-cp", &format!("{jars}/*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain"]);
        command.arg(self.folder.path().join("zoo.cfg"));
        self.process = Some(Child::spawn(command));
    }

    pub(crate) async fn restart(&mut self) {
        self.spawn();
        self.answers().await;
    }

    pub(crate) async fn answers(&self) {
        eventually("the ZooKeeper of the test answers", async || self.says().await.contains("Mode: ")).await;
    }

    /// What it says of itself; nothing if it says nothing.
    pub(crate) async fn says(&self) -> String {
        let ask = async {
            let mut stream = TcpStream::connect(self.address()).await?;
            stream.write_all(b"srvr").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        timeout(Duration::from_secs(1), ask).await.ok().and_then(Result::ok).unwrap_or_default()
    }

    pub(crate) fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    /// The killed server has as little as before its first start.
    pub(crate) fn forget_all(&self) {
        std::fs::remove_dir_all(self.versioned()).unwrap();
    }

    /// Where its snapshots and logs of transactions are.
    pub(crate) fn versioned(&self) -> PathBuf {
        self.data().join("version-2")
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}
