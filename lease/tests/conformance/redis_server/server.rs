//! A Redis of the test's own, which it may kill.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use leastlock_testkit::process::Child;
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{Client, cmd};

use crate::world::{eventually, lock};

/// A server on a free port, with its data in a folder of its own; killed and removed with the value.
pub(crate) struct Server {
    folder: tempfile::TempDir,
    port: u16,
    settings: Vec<(String, String)>,
    process: Option<Child>,
}

impl Server {
    pub(crate) async fn start(settings: &[(&str, &str)]) -> Self {
        let port =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr()).unwrap().port();
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut server = Self { folder: tempfile::tempdir().unwrap(), port, settings, process: None };
        server.restart().await;
        server
    }

    pub(crate) async fn replica_of(primary: &Self, settings: &[(&str, &str)]) -> Self {
        let follow = format!("127.0.0.1 {}", primary.port);
        let replica = Self::start(&[settings, &[("replicaof", &*follow)]].concat()).await;
        eventually("the replica follows", async || {
            let mut connection = replica.connection().await;
            let state: String = cmd("INFO").arg("replication").query_async(&mut connection).await.unwrap();
            state.contains("master_link_status:up")
        })
        .await;
        replica
    }

    /// Starts it, with what is left of its data.
    pub(crate) async fn restart(&mut self) {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--save", ""]);
        command.arg("--dir").arg(self.folder.path()).args(["--repl-diskless-sync-delay", "0"]);
        if self.settings.iter().any(|(name, _)| name == "cluster-enabled") {
            command.args(["--cluster-port", &self.bus_port().to_string()]);
        }
        for (name, value) in &self.settings {
            command.arg(format!("--{name}")).args(value.split(' '));
        }
        self.process = Some(Child::spawn(command));
        let client = self.client();
        eventually("the Redis of the test answers", async || {
            let Ok(mut connection) = client.get_multiplexed_async_connection().await else { return false };
            cmd("PING").exec_async(&mut connection).await.is_ok()
        })
        .await;
    }

    /// As a crash of the process does: what was not written is lost.
    pub(crate) fn kill(&mut self) {
        self.process.take().expect("it runs").kill();
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_as("")
    }

    fn client_as(&self, user: &str) -> Client {
        Client::open(format!("redis://{user}127.0.0.1:{}/", self.port)).unwrap()
    }

    pub(crate) async fn set(&self, name: &str, value: &str) {
        cmd("CONFIG").arg("SET").arg(name).arg(value).exec_async(&mut self.connection().await).await.unwrap();
    }

    /// A user with these rights.
    pub(crate) async fn user(&self, rules: &str) -> Client {
        let user = cmd("ACL").arg(&["SETUSER", "limited", "reset", "on", ">secret"]).clone();
        let user = rules.split_whitespace().fold(user, |mut user, rule| user.arg(rule).clone());
        user.exec_async(&mut self.connection().await).await.unwrap();
        self.client_as("limited:secret@")
    }

    /// What a Sentinel does to a server that it watches: it listens for others.
    pub(crate) async fn sentinel(&self) -> PubSub {
        let mut sentinel = self.client().get_async_pubsub().await.unwrap();
        sentinel.subscribe("__sentinel__:hello").await.unwrap();
        sentinel
    }

    /// All connections but the one that asks for it are cut.
    pub(crate) async fn cut_all(&self) {
        let kill = cmd("CLIENT").arg(&["KILL", "TYPE", "normal", "SKIPME", "yes"]).clone();
        kill.exec_async(&mut self.connection().await).await.unwrap();
    }

    /// Makes one cluster of two servers, in which the second has the slot of the lock and the first all others.
    pub(crate) async fn share_slots(&self, second: &Self) {
        let key = format!("leastlock:{{{}}}:owner", lock());
        let cluster = |words: Vec<String>| cmd("CLUSTER").arg(words).clone();
        let mut connections = [self.connection().await, second.connection().await];
        let slot: u16 = cluster(vec!["KEYSLOT".into(), key]).query_async(&mut connections[0]).await.unwrap();
        let range = |from: u16, to: u16| cluster(vec!["ADDSLOTSRANGE".into(), from.to_string(), to.to_string()]);
        range(0, slot - 1).exec_async(&mut connections[0]).await.unwrap();
        range(slot + 1, 16_383).exec_async(&mut connections[0]).await.unwrap();
        range(slot, slot).exec_async(&mut connections[1]).await.unwrap();
        // Two that count their changes alike would have to settle first whose is the newer.
        cluster(vec!["SET-CONFIG-EPOCH".into(), "2".into()]).exec_async(&mut connections[1]).await.unwrap();
        let bus = second.bus_port().to_string();
        let meet = vec!["MEET".into(), "127.0.0.1".into(), second.port.to_string(), bus];
        cluster(meet).exec_async(&mut connections[0]).await.unwrap();
        eventually("the cluster has all its slots", async || {
            let mut whole = true;
            for connection in &mut connections {
                let info: String = cluster(vec!["INFO".into()]).query_async(connection).await.unwrap();
                whole &= info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384");
            }
            whole
        })
        .await;
    }

    /// By which the servers of a cluster speak with each other; by default it is above what a port may be.
    fn bus_port(&self) -> u16 {
        self.port ^ 0x2000
    }

    /// It goes its own way from here on.
    pub(crate) async fn stop_following(&self) {
        cmd("REPLICAOF").arg(&["NO", "ONE"]).exec_async(&mut self.connection().await).await.unwrap();
    }

    /// Waits until it has this token.
    pub(crate) async fn has_token(&self, token: &str) {
        let key = format!("leastlock:{{{}}}:fence", lock());
        eventually("the replica has the token", async || {
            let mut connection = self.connection().await;
            let found: Option<String> = cmd("HGET").arg(&key).arg("token").query_async(&mut connection).await.unwrap();
            found.as_deref() == Some(token)
        })
        .await;
    }

    async fn connection(&self) -> MultiplexedConnection {
        let connect = self.client();
        let connect = connect.get_multiplexed_async_connection();
        tokio::time::timeout(Duration::from_secs(20), connect).await.expect("it answers").unwrap()
    }
}
