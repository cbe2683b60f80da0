//! ZooKeeper: a user, whose nodes nobody else can read or write. Not over TLS: see the guide.

use leastlock_lease::ZooKeeperLeaseStore;
use leastlock_lease_secure::zookeeper_connector;
use leastlock_testkit::ZOOKEEPER_CONNECT;
use zookeeper_client::Client;

use crate::world::{LIMIT, SECRET, refuses, serves};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_user_has_leases_on_nodes_of_its_own_and_nobody_else_has() {
    let servers = std::env::var(ZOOKEEPER_CONNECT).expect("eval \"$(scripts/services env)\"");
    let root = format!("/secure-{}", std::process::id());
    let store_of = |user, password| {
        let (connector, acl) = zookeeper_connector(user, password, LIMIT);
        ZooKeeperLeaseStore::new(&*servers, connector).root(&*root).acl(acl)
    };
    serves(|| store_of("leases", SECRET), async || {}).await;
    refuses(store_of("elsewhere", SECRET), "not authorized").await;
    refuses(store_of("leases", "wrong"), "not authorized").await;
    let anybody = || ZooKeeperLeaseStore::new(&*servers, Client::connector()).root(&*root);
    refuses(anybody(), "not authorized").await;
    // The double leaves the nodes to everybody.
    let open = || anybody().root(format!("{root}-open"));
    serves(open, async || {}).await;
}
