//! Three etcd on free ports, with their data in a folder of their own; killed and removed with the value.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, GetOptions};
use leastlock_lease::EtcdLeaseStore;
use leastlock_testkit::process::Child;

use super::Cluster;
use crate::world::{eventually, lock};

pub(super) struct EtcdCluster {
    folder: tempfile::TempDir,
    /// For clients and for peers, of each member.
    ports: [[u16; 2]; 3],
    members: [Option<Child>; 3],
}

impl EtcdCluster {
    fn endpoint(&self, member: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[member][0])
    }

    fn spawn(&self, member: usize) -> Child {
        let peer = |member: usize| format!("http://127.0.0.1:{}", self.ports[member][1]);
        let name = |member: usize| format!("member-{member}");
        let all = [0, 1, 2].map(|member| format!("{}={}", name(member), peer(member))).join(",");
        let mut command = Command::new("etcd");
        command.args(["--name", &name(member), "--logger", "zap", "--log-level", "error"]);
        command.arg("--data-dir").arg(self.folder.path().join(name(member)));
        command.args([
            "--listen-client-urls",
            &self.endpoint(member),
            "--advertise-client-urls",
            &self.endpoint(member),
        ]);
        command.args(["--listen-peer-urls", &peer(member), "--initial-advertise-peer-urls", &peer(member)]);
        command.args(["--initial-cluster", &all, "--heartbeat-interval", "50", "--election-timeout", "500"]);
        // For what etcd calls unsupported and runs on nevertheless.
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        Child::spawn(command)
    }

    /// One that answers within a second, if there is one.
    async fn client(&self, member: usize) -> Option<Client> {
        let patience = ConnectOptions::new().with_timeout(Duration::from_secs(1));
        Client::connect([self.endpoint(member)], Some(patience)).await.ok()
    }

    async fn leads(&self, member: usize) -> bool {
        let Some(mut client) = self.client(member).await else { return false };
        let Ok(status) = client.status().await else { return false };
        status.leader() != 0 && status.header().is_some_and(|header| header.member_id() == status.leader())
    }
}

impl Cluster for EtcdCluster {
    type Store = EtcdLeaseStore;

    async fn start() -> Self {
        let listeners = [[(); 2]; 3].map(|pair| pair.map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()));
        let ports = listeners.map(|pair| pair.map(|listener| listener.local_addr().unwrap().port()));
        let mut cluster = Self { folder: tempfile::tempdir().unwrap(), ports, members: [const { None }; 3] };
        for member in 0..3 {
            cluster.restart(member);
        }
        cluster.leader().await;
        cluster
    }

    fn store(&self, first: usize) -> EtcdLeaseStore {
        let endpoints = [0, 1, 2].map(|next| self.endpoint((first + next) % 3));
        EtcdLeaseStore::new(endpoints, ConnectOptions::new())
    }

    async fn leader(&self) -> usize {
        let mut leader = None;
        eventually("a member leads", async || {
            for member in 0..3 {
                if self.members[member].is_some() && self.leads(member).await {
                    leader = Some(member);
                }
            }
            leader.is_some()
        })
        .await;
        leader.expect("it was waited for")
    }

    async fn claims(&self) -> usize {
        let prefix = format!("{}/{}/queue/", EtcdLeaseStore::DEFAULT_NAMESPACE, lock());
        let count = GetOptions::new().with_prefix().with_count_only();
        let Some(mut client) = self.client(0).await else { return 0 };
        client.get(prefix, Some(count)).await.map_or(0, |found| usize::try_from(found.count()).unwrap())
    }

    fn kill(&mut self, member: usize) {
        self.members[member].take().expect("it runs").kill();
    }

    fn restart(&mut self, member: usize) {
        self.members[member] = Some(self.spawn(member));
    }
}
