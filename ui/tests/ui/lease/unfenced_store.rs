use std::time::Duration;

use leastlock_lease::{
    Capabilities, Claim, CorrectnessLease, Error, Grant, Hold, LeaseStore, Leases, LockName, Polling, Release, Renewal,
    StoreError,
};

struct BestEffort;

impl LeaseStore for BestEffort {
    type Token = ();
    type Waiter = Polling;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN;

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<()>, StoreError> {
        Ok(Grant::Granted { token: (), ttl: claim.ttl })
    }

    fn waiter(&self, _claim: Claim<'_>) -> Polling {
        Polling
    }

    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}

    async fn renew(&self, claim: Claim<'_>, _token: ()) -> Result<Renewal, StoreError> {
        Ok(Renewal::Renewed { ttl: claim.ttl })
    }

    async fn release(&self, _claim: Claim<'_>) -> Result<Release, StoreError> {
        Ok(Release::Released)
    }
}

async fn lease(name: &LockName) -> Result<CorrectnessLease, Error> {
    Leases::new(BestEffort).acquire(name, Hold::fixed(Duration::from_secs(1))).await
}

fn main() {
    let _ = lease;
}
