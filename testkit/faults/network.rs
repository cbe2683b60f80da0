//! The way of one process to its servers: a proxy in front of each.

use std::collections::BTreeMap;

use leastlock_testkit::proxy::{FaultProxy, mysql, postgres};

use crate::ground::{Addresses, Server};

/// The proxies of one process.
#[derive(Debug)]
pub(crate) struct Network {
    proxies: BTreeMap<Server, FaultProxy>,
    /// By which addresses the process finds its servers.
    pub(crate) addresses: Addresses,
}

impl Network {
    /// Puts a proxy in front of each server that there is a network to.
    pub(crate) async fn to(servers: &Addresses) -> anyhow::Result<Self> {
        let mut network = Self { proxies: BTreeMap::new(), addresses: Addresses::new() };
        for (server, address) in servers {
            let (proxy, through) = match server {
                Server::Sqlite => {
                    network.addresses.insert(*server, address.clone());
                    continue;
                }
                Server::Postgres => {
                    let proxy = FaultProxy::to_postgres(address).await;
                    let through = postgres::through(&proxy, address);
                    (proxy, through)
                }
                Server::MariaDb => {
                    let proxy = FaultProxy::to_mysql(address).await;
                    let through = mysql::through(&proxy, address);
                    (proxy, through)
                }
                Server::Kafka => {
                    let proxy = FaultProxy::to_kafka(address).await;
                    let through = proxy.address().to_string();
                    (proxy, through)
                }
                Server::Redis | Server::Etcd | Server::ZooKeeper | Server::Provider => {
                    FaultProxy::to_server_in(address).await?
                }
            };
            network.addresses.insert(*server, through);
            network.proxies.insert(*server, proxy);
        }
        Ok(network)
    }

    /// The proxy in front of a server; none if there is no network to it.
    pub(crate) fn proxy(&self, server: Server) -> Option<&FaultProxy> {
        self.proxies.get(&server)
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.proxies.values().for_each(FaultProxy::heal);
    }
}
