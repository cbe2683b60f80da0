//! Stores with a queue: whose turn it is, and what becomes of a place whose owner is gone.

mod doubles;
#[cfg(feature = "etcd")]
mod place;
mod suite;

use leastlock_lease::{FairStore, OwnerNonce};

use crate::rig::Rig;

/// A backend whose claims stand in a queue.
pub(crate) trait FairRig: Rig<Store: FairStore> {
    /// The lease or the session of this claim, which waits or holds, ends at the store; nobody is told.
    async fn end_claim(&self, nonce: OwnerNonce);
}

/// Mounts the scenarios of a suite on the stores with a queue; `by_itself` where a place runs out although its process lives.
macro_rules! mount {
    ($suite:ident : $($case:ident),+ ; by_itself : $($by_itself:ident),+ $(,)?) => {
        #[cfg(feature = "etcd")]
        mod etcd {
            crate::rig::mount!(@ $suite, crate::rig::Etcd, $($case,)+ $($by_itself),+);
        }
        #[cfg(feature = "zookeeper")]
        mod zookeeper {
            crate::rig::mount!(@ $suite, crate::rig::ZooKeeper, $($case),+);
        }
    };
}

mount!(suite:
    l9_waiter_whose_own_place_has_run_out_is_refused,
    a_lock_goes_to_the_oldest_claim,
    a_waiter_that_is_gone_is_passed_over,
    a_waiter_hears_of_a_lease_that_has_run_out,
    a_turn_that_is_told_of_is_refused_below_the_floor,
    l17_who_waits_stands_anew_above_the_raised_token;
    by_itself: a_waiter_keeps_its_place_beyond_its_ttl,
    a_turn_that_is_told_of_brings_a_whole_lease,
);
