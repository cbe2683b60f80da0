//! A holder on etcd that makes the classic mistake.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, LeaseKeepAliveStream, LeaseKeeper};
use leastlock_lease::{
    Capabilities, Claim, EtcdLeaseStore, EtcdWaiter, FencedStore, FencingToken, Grant, LeaseStore, OwnerNonce, Release,
    Renewal, StoreError,
};
use tokio::sync::Mutex;

use super::server::Server;
use crate::rig::{Etcd, Rig};

/// Renews on one stream, and takes that a request could be put on it for the answer.
pub(super) struct BelievesItsOwnSending {
    rig: Etcd,
    store: EtcdLeaseStore,
    client: Client,
    stream: Mutex<Option<(LeaseKeeper, LeaseKeepAliveStream)>>,
}

impl BelievesItsOwnSending {
    pub(super) async fn new(rig: &Etcd, endpoint: &str) -> Self {
        let client = Client::connect([endpoint], None).await.unwrap();
        Self { rig: rig.clone(), store: rig.store(), client, stream: Mutex::default() }
    }
}

impl LeaseStore for BelievesItsOwnSending {
    type Token = FencingToken;
    type Waiter = EtcdWaiter;

    const CAPABILITIES: Capabilities = EtcdLeaseStore::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        let grant = self.store.acquire(claim).await?;
        let lease = self.rig.owners_lease().await;
        let stream = self.client.lease_client().keep_alive(lease).await.map_err(StoreError::retryable)?;
        *self.stream.lock().await = Some(stream);
        Ok(grant)
    }

    fn waiter(&self, claim: Claim<'_>) -> EtcdWaiter {
        self.store.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, _token: FencingToken) -> Result<Renewal, StoreError> {
        let mut stream = self.stream.lock().await;
        let sent = stream.as_mut().expect("it was acquired").0.keep_alive().await;
        sent.map(|()| Renewal::Renewed { ttl: claim.ttl }).map_err(StoreError::retryable)
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.store.release(claim).await
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.store.let_expire(claim, remaining);
    }
}

impl FencedStore for BelievesItsOwnSending {}

/// Takes what a user is told who has logged in before a change for a judgement on the request.
pub(super) struct LogsInOnce {
    store: EtcdLeaseStore,
    client: Client,
}

impl LogsInOnce {
    pub(super) async fn new(store: EtcdLeaseStore, server: &Server) -> Self {
        let client = Client::connect([server.endpoint()], Some(Server::user())).await.unwrap();
        Self { store, client }
    }

    async fn ask(&self) -> Result<(), StoreError> {
        let answer = self.client.kv_client().get("leastlock/any", None).await;
        answer.map(drop).map_err(StoreError::permanent)
    }
}

impl LeaseStore for LogsInOnce {
    type Token = FencingToken;
    type Waiter = EtcdWaiter;

    const CAPABILITIES: Capabilities = EtcdLeaseStore::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        self.ask().await?;
        self.store.acquire(claim).await
    }

    fn waiter(&self, claim: Claim<'_>) -> EtcdWaiter {
        self.store.waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        self.ask().await?;
        self.store.renew(claim, token).await
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.store.release(claim).await
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.store.let_expire(claim, remaining);
    }
}

impl FencedStore for LogsInOnce {}

/// Takes a store of its own for each claim, and so a name that nobody uses again.
pub(super) struct NamesEachClaim {
    rig: Etcd,
    stores: std::sync::Mutex<HashMap<OwnerNonce, Arc<EtcdLeaseStore>>>,
}

impl NamesEachClaim {
    pub(super) fn new(rig: &Etcd) -> Self {
        Self { rig: rig.clone(), stores: std::sync::Mutex::default() }
    }

    fn store(&self, nonce: OwnerNonce) -> Arc<EtcdLeaseStore> {
        let mut stores = self.stores.lock().unwrap();
        Arc::clone(stores.entry(nonce).or_insert_with(|| Arc::new(self.rig.store())))
    }
}

impl LeaseStore for NamesEachClaim {
    type Token = FencingToken;
    type Waiter = EtcdWaiter;

    const CAPABILITIES: Capabilities = EtcdLeaseStore::CAPABILITIES;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        self.store(claim.nonce).acquire(claim).await
    }

    fn waiter(&self, claim: Claim<'_>) -> EtcdWaiter {
        self.store(claim.nonce).waiter(claim)
    }

    async fn renew(&self, claim: Claim<'_>, token: FencingToken) -> Result<Renewal, StoreError> {
        self.store(claim.nonce).renew(claim, token).await
    }

    async fn release(&self, claim: Claim<'_>) -> Result<Release, StoreError> {
        self.store(claim.nonce).release(claim).await
    }

    fn let_expire(&self, claim: Claim<'_>, remaining: Duration) {
        self.store(claim.nonce).let_expire(claim, remaining);
    }
}

impl FencedStore for NamesEachClaim {}
