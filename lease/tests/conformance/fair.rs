//! Stores with a queue: whose turn it is, and what becomes of a place whose owner is gone.

mod doubles;
mod suite;

crate::rig::mount_fair!(suite:
    l9_waiter_whose_own_place_has_run_out_is_refused,
    a_lock_goes_to_the_oldest_claim,
    a_waiter_that_is_gone_is_passed_over,
    a_waiter_keeps_its_place_beyond_its_ttl,
    a_waiter_hears_of_a_lease_that_has_run_out,
);
