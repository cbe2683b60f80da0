//! Acquire, renew, release.

pub(crate) mod doubles;
pub(crate) mod suite;
mod unheard;

crate::rig::mount!(suite:
    l1_late_release_spares_the_new_holder,
    l4_unanswered_renewals_give_no_permit_and_end_in_loss,
    l5_release_waits_for_the_renewal_in_flight,
    l6_renewal_never_revives_an_expired_or_stolen_lease,
    l7_repeated_acquire_finds_itself_owner_with_the_same_token,
    l7_hanging_acquire_is_repeated_as_well,
    l8_repeated_release_spares_a_newer_acquisition,
    l10_cancelled_acquire_leaves_nothing_behind,
    l10_cancelled_waiter_keeps_nobody_from_the_lock,
    l27_pause_beyond_the_ttl_is_lost_before_any_permit,
    held_lock_tells_who_holds_it,
    a_failed_acquire_does_not_wait_for_long_until_it_is_taken_back,
    a_wait_without_a_bound_is_a_wait,
    waiter_gets_the_lock_when_it_is_released,
    spent_nonce_is_not_granted_again,
    token_rises_with_each_owner_and_above_the_floor,
    renewal_extends_the_lease_at_the_store_and_keeps_its_token,
    rivals_hold_the_lock_one_at_a_time,
);
