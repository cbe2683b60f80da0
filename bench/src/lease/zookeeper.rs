//! The backend in ZooKeeper: an ephemeral node that is created, and deleted.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use leastlock_lease::{LockName, ZooKeeperLeaseStore};
use leastlock_testkit::ZOOKEEPER_CONNECT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zookeeper_client::{Acls, Client, Connector, CreateMode, Error};

use super::locks::{Locks, TTL_MS};

/// How long a server may take to say which version it is.
const LIMIT: Duration = Duration::from_secs(10);

/// Nodes below one of their own, on the first server that the environment names.
#[derive(Debug)]
pub(super) struct ZooKeeper {
    address: String,
    namespace: String,
}

impl ZooKeeper {
    /// Where the server is, and the node that all others are below, without its `/`.
    pub(super) fn address(&self) -> (String, String) {
        (self.address.clone(), self.namespace.clone())
    }

    fn plain(&self) -> String {
        format!("/{}/plain", self.namespace)
    }

    async fn connect(&self) -> anyhow::Result<Client> {
        Ok(connector()?.connect(&self.address).await?)
    }
}

/// Its sessions last as long as a lock does.
fn connector() -> anyhow::Result<Connector> {
    Ok(Client::connector().with_session_timeout(Duration::from_millis(u64::try_from(TTL_MS)?)))
}

/// One session for all clients, as the store has it.
pub(super) struct Driver {
    client: Client,
    connector: Connector,
    plain: String,
}

impl Locks for ZooKeeper {
    type Store = ZooKeeperLeaseStore;
    type Driver = Driver;

    const SERVER: Option<&'static str> = Some(ZOOKEEPER_CONNECT);

    async fn create() -> anyhow::Result<Self> {
        let addresses = std::env::var(ZOOKEEPER_CONNECT).context(ZOOKEEPER_CONNECT)?;
        let address = addresses.split(',').next().unwrap_or_default().to_owned();
        Ok(Self { address, namespace: format!("bench-{:016x}", fastrand::u64(..)) })
    }

    /// By its four letters, which the client does not know.
    async fn about(&self) -> anyhow::Result<String> {
        let answer = async {
            let mut stream = TcpStream::connect(self.address.split('/').next().unwrap_or_default()).await?;
            stream.write_all(b"srvr").await?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await?;
            std::io::Result::Ok(answer)
        };
        let answer = timeout(LIMIT, answer).await??;
        let version = answer.strip_prefix("Zookeeper version: ").and_then(|rest| rest.split(['-', ',']).next());
        Ok(format!("ZooKeeper {}", version.unwrap_or("?")))
    }

    async fn open(&self, _clients: u32) -> anyhow::Result<Driver> {
        let (client, plain) = (self.connect().await?, self.plain());
        client.mkdir(&plain, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        Ok(Driver { client, connector: connector()?, plain })
    }

    fn store(&self, driver: &Driver) -> ZooKeeperLeaseStore {
        ZooKeeperLeaseStore::new(&*self.address, driver.connector.clone()).root(format!("/{}/fair", self.namespace))
    }

    async fn take(driver: &Driver, name: &LockName, owner: &[u8]) -> anyhow::Result<bool> {
        let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        match driver.client.create(&format!("{}/{name}", driver.plain), owner, &ephemeral).await {
            Ok(_) => Ok(true),
            Err(Error::NodeExists) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whoever created the node in this session deletes it: if the session had ended, this would fail.
    async fn give_up(driver: &Driver, name: &LockName, _owner: &[u8]) -> anyhow::Result<bool> {
        match driver.client.delete(&format!("{}/{name}", driver.plain), None).await {
            Ok(()) => Ok(true),
            Err(Error::NoNode) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The session ends with its last clone.
    async fn close(&self, _driver: Arc<Driver>) -> anyhow::Result<()> {
        Ok(())
    }

    async fn end(self) -> anyhow::Result<()> {
        let client = self.connect().await?;
        // Each node behind those below it.
        let mut left = vec![format!("/{}", self.namespace)];
        while let Some(node) = left.last().cloned() {
            let children = there(client.list_children(&node).await)?.unwrap_or_default();
            if children.is_empty() {
                match there(client.delete(&node, None).await) {
                    // Somebody who is about to end was there meanwhile.
                    Err(Error::NotEmpty) => continue,
                    gone => gone?,
                };
                left.pop();
            }
            left.extend(children.iter().map(|child| format!("{node}/{child}")));
        }
        Ok(())
    }
}

/// The server removes what is not used as well.
fn there<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
