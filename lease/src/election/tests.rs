use std::collections::HashSet;
use std::sync::Mutex;

use super::*;
use crate::capabilities::Capabilities;
use crate::store::{Claim, Grant, Holder, LeaseStore, Polling, Release, Renewal, StoreError};
use crate::token::{OwnerHash, OwnerNonce};

/// A lock that somebody else holds for ever, in a store with a queue or without one; notes who has asked.
struct Taken<const QUEUE: bool>(Arc<Mutex<HashSet<OwnerNonce>>>);

impl<const QUEUE: bool> LeaseStore for Taken<QUEUE> {
    type Token = FencingToken;
    type Waiter = Polling;

    const CAPABILITIES: Capabilities = Capabilities::PLAIN.order(if QUEUE { Order::Fifo } else { Order::WhoeverAsks });

    async fn acquire(&self, claim: Claim<'_>) -> Result<Grant<FencingToken>, StoreError> {
        self.0.lock().unwrap().insert(claim.nonce);
        Ok(Grant::Held(Holder::new(OwnerHash::of(&[1; 16]), Duration::ZERO, Duration::from_secs(10))))
    }

    fn waiter(&self, _claim: Claim<'_>) -> Polling {
        Polling
    }

    async fn renew(&self, _claim: Claim<'_>, _token: FencingToken) -> Result<Renewal, StoreError> {
        Ok(Renewal::NotOwner)
    }

    async fn release(&self, _claim: Claim<'_>) -> Result<Release, StoreError> {
        Ok(Release::NotOwner)
    }

    fn let_expire(&self, _claim: Claim<'_>, _remaining: Duration) {}
}

impl<const QUEUE: bool> FencedStore for Taken<QUEUE> {}

/// How many places a candidate has taken one after the other.
async fn places_of_an_afternoon<const QUEUE: bool>() -> usize {
    let asked = Arc::default();
    let store = Taken::<QUEUE>(Arc::clone(&asked));
    let election = Election::new(Leases::new(store), LockName::new("leader:a").unwrap(), Duration::from_secs(10));
    let afternoon = Duration::from_hours(3);
    assert!(tokio::time::timeout(afternoon, election.campaign()).await.is_err(), "somebody else leads");
    asked.lock().unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn a_candidate_keeps_its_place_in_a_queue_however_long_it_waits() {
    assert_eq!(places_of_an_afternoon::<true>().await, 1);
    // Where there is no queue there is no place to lose; in a queue, this would go to its end every ten minutes.
    assert!(places_of_an_afternoon::<false>().await > 10);
}
