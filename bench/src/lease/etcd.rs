//! The backend in etcd: a lease of one's own and a transaction that puts the key on it if it is absent, and the end of that lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use etcd_client::{Client, Compare, CompareOp, ConnectOptions, DeleteOptions, Error, PutOptions, Txn, TxnOp};
use leastlock_lease::{EtcdLeaseStore, LockName};
use leastlock_testkit::ETCD_ENDPOINTS;

use super::locks::{Locks, TTL_MS};

/// etcd's answer for a lease that has run out.
const NOT_FOUND: i32 = 5;

/// Keys under a namespace of their own, on the first member that the environment names.
#[derive(Debug)]
pub(super) struct Etcd {
    endpoint: String,
    namespace: String,
}

impl Etcd {
    /// Where the server is, and the namespace of the keys.
    pub(super) fn address(&self) -> (String, String) {
        (self.endpoint.clone(), self.namespace.clone())
    }

    async fn connect(&self) -> anyhow::Result<Client> {
        Ok(Client::connect([&*self.endpoint], None).await?)
    }
}

/// One connection for all clients, as the store has it.
pub(super) struct Driver {
    client: Client,
    namespace: String,
    /// What one who writes it by hand keeps in a variable: who asks again while the key is taken asks with the lease that it has.
    leases: Mutex<HashMap<Vec<u8>, i64>>,
}

impl Driver {
    fn leases(&self) -> MutexGuard<'_, HashMap<Vec<u8>, i64>> {
        // Nothing panics while it is locked.
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The owner's lease, granted at its first attempt.
    async fn lease(&self, owner: &[u8]) -> anyhow::Result<i64> {
        let known = self.leases().get(owner).copied();
        if let Some(lease) = known {
            return Ok(lease);
        }
        let lease = self.client.lease_client().grant(TTL_MS / 1000, None).await?.id();
        self.leases().insert(owner.to_vec(), lease);
        Ok(lease)
    }
}

impl Locks for Etcd {
    type Store = EtcdLeaseStore;
    type Driver = Driver;

    const SERVER: Option<&'static str> = Some(ETCD_ENDPOINTS);

    async fn create() -> anyhow::Result<Self> {
        let endpoints = std::env::var(ETCD_ENDPOINTS).context(ETCD_ENDPOINTS)?;
        let endpoint = endpoints.split(',').next().unwrap_or_default().to_owned();
        Ok(Self { endpoint, namespace: format!("bench-{:016x}", fastrand::u64(..)) })
    }

    async fn about(&self) -> anyhow::Result<String> {
        let mut client = self.connect().await?;
        Ok(format!("etcd {}", client.status().await?.version()))
    }

    async fn open(&self, _clients: u32) -> anyhow::Result<Driver> {
        let (client, namespace) = (self.connect().await?, self.namespace.clone());
        Ok(Driver { client, namespace, leases: Mutex::default() })
    }

    fn store(&self, _driver: &Driver) -> EtcdLeaseStore {
        EtcdLeaseStore::new([&*self.endpoint], ConnectOptions::new()).namespace(&*self.namespace)
    }

    async fn take(driver: &Driver, name: &LockName, owner: &[u8]) -> anyhow::Result<bool> {
        let key = format!("{}/plain/{name}", driver.namespace);
        let put = PutOptions::new().with_lease(driver.lease(owner).await?);
        let absent = Compare::create_revision(&*key, CompareOp::Equal, 0);
        let take = Txn::new().when([absent]).and_then([TxnOp::put(&*key, owner, Some(put))]);
        Ok(driver.client.kv_client().txn(take).await?.succeeded())
    }

    /// The key goes with its lease, on which nobody else's is.
    async fn give_up(driver: &Driver, _name: &LockName, owner: &[u8]) -> anyhow::Result<bool> {
        let lease = driver.leases().remove(owner);
        let Some(lease) = lease else { return Ok(false) };
        match driver.client.lease_client().revoke(lease).await {
            Ok(_) => Ok(true),
            Err(Error::GRpcStatus(status)) if i32::from(status.code()) == NOT_FOUND => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// It closes with its last clone.
    async fn close(&self, _driver: Arc<Driver>) -> anyhow::Result<()> {
        Ok(())
    }

    /// Leases end by themselves.
    async fn end(self) -> anyhow::Result<()> {
        let all = DeleteOptions::new().with_prefix();
        self.connect().await?.delete(format!("{}/", self.namespace), Some(all)).await?;
        Ok(())
    }
}
