//! The phased mode: one suite, mounted on each engine, with the mistakes that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres"))]

mod bank;
mod doubles;
mod payer;
mod steps;
mod suite;
mod unknown;

leastlock_testkit::mount!(
    suite: i1_second_of_two_at_once_is_told_that_the_first_is_in_flight,
    i2_late_owner_changes_nothing_and_is_told,
    i3_handler_that_changes_its_input_keeps_key_and_fingerprint,
    i4_failing_duplicate_leaves_the_owners_record,
    i5_other_payload_is_a_mismatch_on_every_path,
    i6_completed_record_keeps_its_fingerprint,
    i10_dead_owners_key_goes_on_at_its_recovery_point_after_the_lease,
    i12_same_key_in_another_scope_is_another_record,
    i15_expired_record_is_a_new_first_before_any_sweep,
    i16_claim_outlives_a_handler_that_failed_after_the_call,
    i17_provider_key_is_the_same_over_retries_and_restarts,
);

mod step {
    use crate::steps;

    leastlock_testkit::mount!(
        steps: i2_late_owner_can_neither_step_nor_renew_nor_end,
        i10_lease_is_renewed_as_long_as_the_run_exists_and_no_longer,
        step_that_is_done_gives_its_result_and_is_not_run_again,
        compensations_run_in_reverse_and_go_on_after_a_crash,
        end_that_would_forget_an_effect_is_refused,
        request_that_has_expired_starts_no_step_and_still_goes_back,
        sweep_leaves_what_is_not_finished,
        failure_keeps_its_reason_and_the_wait_its_bound,
        run_is_at_home_in_a_spawned_task,
    );
}

mod unknowns {
    use crate::unknown;

    leastlock_testkit::mount!(
        unknown: i2_owner_before_a_resolution_is_superseded,
        i16_silent_provider_is_called_within_the_limit_and_then_held,
        policy_decides_what_is_done_about_the_unknown,
        call_that_was_never_sent_is_free_to_be_made,
        resolution_is_in_force_with_its_audit_or_not_at_all,
        reconciler_settles_what_the_provider_knows,
        reconcilers_share_the_asks_and_pause_between_them,
    );
}
