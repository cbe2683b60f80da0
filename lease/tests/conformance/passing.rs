//! A lock that goes from one to another of a process in one trip.

pub(crate) mod suite;

crate::rig::mount!(suite:
    a_claim_takes_over_from_whom_it_comes_after_and_from_nobody_else;
    unordered: a_release_is_a_step_of_the_next_ones_acquisition,
    a_lock_that_was_left_to_one_who_is_gone_is_released,
    an_unanswered_takeover_is_found_by_the_next_attempt,
    passing_on_ends_so_that_other_processes_get_their_turn,
    another_process_gets_in_while_one_always_has_waiters,
    a_release_does_not_wait_for_a_waiter_that_is_not_answered,
);
