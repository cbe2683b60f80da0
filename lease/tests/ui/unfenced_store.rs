use std::time::Duration;

use leastlock_lease::{
    Claim, CorrectnessLease, Error, Grant, Hold, LeaseStore, Leases, LockName, Pause, Release, Renewal, StoreError,
};

struct BestEffort;

impl LeaseStore for BestEffort {
    type Token = ();

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<()>, StoreError> {
        Ok(Grant::Granted { token: (), ttl: claim.ttl })
    }

    async fn wait(&self, _claim: Claim<'_>, _pause: Pause) {}

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
