//! Three ZooKeeper on free ports; killed and removed with the value.

use std::fmt::Write;
use std::net::{Ipv4Addr, TcpListener};

use leastlock_lease::ZooKeeperLeaseStore;
use zookeeper_client::Client;

use super::{Cluster, TTL};
use crate::world::{eventually, lock};
use crate::zookeeper_server::server::Server;

pub(super) struct ZooKeeperEnsemble {
    members: Vec<Server>,
}

impl ZooKeeperEnsemble {
    fn cluster(&self, first: usize) -> String {
        [0, 1, 2].map(|next| self.members[(first + next) % 3].address()).join(",")
    }
}

impl Cluster for ZooKeeperEnsemble {
    type Store = ZooKeeperLeaseStore;

    async fn start() -> Self {
        let listeners = [[(); 2]; 3].map(|pair| pair.map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()));
        let ports = listeners.map(|pair| pair.map(|listener| listener.local_addr().unwrap().port()));
        // In ticks: ten seconds, for members that start one after the other.
        let mut ensemble = String::from("initLimit=20\nsyncLimit=10\n");
        for (member, [quorum, election]) in ports.iter().enumerate() {
            writeln!(ensemble, "server.{}=127.0.0.1:{quorum}:{election}", member + 1).unwrap();
        }
        let members = (1..=3).map(|number| Server::member(number, &ensemble)).collect();
        let mut started = Self { members };
        started.members.iter_mut().for_each(Server::spawn);
        started.leader().await;
        for member in &started.members {
            member.answers().await;
        }
        started
    }

    /// The client begins with any of them, whatever it is told.
    fn store(&self, first: usize) -> ZooKeeperLeaseStore {
        ZooKeeperLeaseStore::new(self.cluster(first), Client::connector().with_session_timeout(TTL))
    }

    async fn leader(&self) -> usize {
        let mut leader = None;
        eventually("a member leads", async || {
            for (number, member) in self.members.iter().enumerate() {
                if member.says().await.contains("Mode: leader") {
                    leader = Some(number);
                }
            }
            leader.is_some()
        })
        .await;
        leader.expect("it was waited for")
    }

    async fn claims(&self) -> usize {
        let Ok(client) = Client::connector().connect(&self.cluster(0)).await else { return 0 };
        let lock = format!("{}/{}", ZooKeeperLeaseStore::DEFAULT_ROOT, lock());
        client.list_children(&lock).await.map_or(0, |claims| claims.len())
    }

    fn kill(&mut self, member: usize) {
        self.members[member].kill();
    }

    fn restart(&mut self, member: usize) {
        self.members[member].spawn();
    }
}
