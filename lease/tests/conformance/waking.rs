//! Waiting: who is woken by what. (In which order is shown in `queue`.)

mod doubles;
pub(crate) mod suite;

crate::rig::mount!(suite:
    a_release_elsewhere_is_heard_where_the_store_tells_of_it,
    efficiency_leases_are_held_one_at_a_time,
    a_store_hears_of_leases_that_nobody_will_release;
    unordered: a_release_in_the_process_is_heard_without_the_store,
    an_efficiency_lease_goes_to_the_next_waiter_without_a_trip,
    a_lease_is_not_handed_on_to_a_hold_of_another_ttl,
    a_lease_handed_on_is_renewed_and_released_by_its_new_holder,
    handing_on_ends_so_that_other_processes_get_their_turn,
);
