//! The phased mode: one suite, mounted on each engine, with the mistakes that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres"))]

mod bank;
mod doubles;
mod payer;
mod suite;

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
