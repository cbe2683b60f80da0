//! What the suite says of holding, waking and running, on stores without a token: there the grants are numbered by the test. What is
//! about tokens (the floor, the fence) is not for them.

use crate::holding::suite as holding;
use crate::running::suite as running;
use crate::waking::suite as waking;

/// Mounts the scenarios on a rig, in the module of its engine, and those that not every rig has.
macro_rules! mount {
    ($engine:ident: $rig:ty $(; $suite:ident: $($only:ident),+)*) => {
        mod $engine {
            crate::rig::mount!(@ holding, $rig,
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
                waiter_gets_the_lock_when_it_is_released,
                spent_nonce_is_not_granted_again,
                renewal_extends_the_lease_at_the_store_and_keeps_its_token,
                rivals_hold_the_lock_one_at_a_time
            );
            crate::rig::mount!(@ waking, $rig,
                efficiency_leases_are_held_one_at_a_time,
                a_store_hears_of_leases_that_nobody_will_release
            );
            crate::rig::mount!(@ running, $rig,
                l16_cancelled_work_stops_its_renewal_first,
                l24_hang_up_ends_renewal_before_the_work,
                l24_task_that_outlives_the_cancel_deadline_is_reported,
                lost_lease_drops_the_work_and_its_tasks,
                tasks_of_the_scope_end_before_the_release
            );
            $(crate::rig::mount!(@ $suite, $rig, $($only),+);)*
        }
    };
}

#[cfg(all(feature = "redis", feature = "sqlite"))]
mount!(redis: crate::rig::Redlock;
    holding: held_lock_tells_who_holds_it;
    waking: a_release_elsewhere_is_heard_where_the_store_tells_of_it,
        a_release_in_the_process_is_heard_without_the_store,
        an_efficiency_lease_goes_to_the_next_waiter_without_a_trip,
        a_lease_handed_on_is_renewed_and_released_by_its_new_holder,
        handing_on_ends_so_that_other_processes_get_their_turn
);

// Their waiters stand in the server's queue, and are woken there: see `advisory`.
#[cfg(feature = "postgres")]
mount!(postgres: crate::rig::Advisory<sqlx::Postgres>; holding: held_lock_tells_who_holds_it);

#[cfg(feature = "mysql")]
mount!(mysql: crate::rig::Advisory<sqlx::MySql>);
