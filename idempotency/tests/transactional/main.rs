//! The transactional mode: one suite, mounted on each engine, with the mistakes that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

mod cancelled;
mod doubles;
mod http_response;
mod idle_bound;
mod isolation;
mod keeper;
mod kills;
mod letter_case;
mod outcomes;
mod overlap;
mod retention;
mod round_trips;
mod sealed;
mod stopped_owner;
mod suite;
mod time_outs;
mod waiters;

leastlock_testkit::mount!(
    suite: i1_duplicates_run_once_and_wait_or_are_told,
    i3_handler_that_changes_its_input_keeps_key_and_fingerprint,
    i4_failing_duplicate_leaves_the_owners_record,
    i5_other_payload_is_a_mismatch_on_every_path,
    i6_completed_record_keeps_its_fingerprint,
    i11_stored_refusal_is_replayed_and_a_released_one_leaves_the_key_free,
    i12_same_key_in_another_scope_is_another_record,
    i13_replayed_http_response_is_the_same_byte_for_byte,
    i15_expired_record_is_a_new_first_before_any_sweep,
    i15_expired_record_has_one_claimant_of_many,
    i18_worker_killed_at_any_point_leaves_one_effect_at_most,
    i19_waiter_of_a_rolled_back_owner_runs_as_first,
    i21_keys_that_differ_in_case_only_are_two_records,
    begin_dropped_at_any_time_leaves_the_key_free,
    begin_in_joins_the_callers_transaction,
    claim_committed_without_an_answer_is_never_run_again,
    answer_over_the_limit_is_refused_and_nothing_kept,
    sweep_deletes_expired_records_in_batches,
    record_lives_for_the_retention_from_its_claim,
    an_answer_of_another_kind_is_an_error_and_not_run_again,
    headers_and_body_count_towards_the_limit,
    sealed_answer_is_replayed_and_cannot_be_read_in_the_table,
    sealed_answer_does_not_open_under_another_key_or_column,
    reader_without_the_cipher_is_told_which_one_it_was,
    answers_of_before_the_cipher_are_still_replayed,
    empty_false_and_zero_are_answers;
    postgres: i14_invisible_record_is_looked_at_until_known,
);

/// SQLite has one write lock, so nobody waits for a row there and no snapshot is older than a record.
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers {
    use crate::waiters as suite;

    leastlock_testkit::mount!(
        suite on postgres: i14_record_beyond_the_callers_snapshot_is_never_a_first,
        i18_worker_killed_with_a_message_under_way_leaves_one_effect_at_most,
        claim_and_answer_cost_what_is_promised_and_a_replay_too,
        i22_stopped_owners_key_is_free_and_it_cannot_commit,
        i23_three_waiters_of_a_rolled_back_owner_run_once_and_see_no_deadlock,
        i24_wait_that_times_out_leaves_the_transaction_usable,
        rejected_duplicates_do_not_wait,
        sweep_does_not_wait_for_a_record_that_is_being_claimed,
        stricter_time_outs_of_the_caller_stay,
    );
    leastlock_testkit::mount!(
        suite on mysql: i14_record_beyond_the_callers_snapshot_is_never_a_first,
        i14_snapshot_isolation_of_mariadb_is_a_retryable_error,
        i22_stopped_owners_key_is_free_and_it_cannot_commit,
        i23_three_waiters_of_a_rolled_back_owner_run_once_and_see_no_deadlock,
        i24_wait_that_times_out_leaves_the_transaction_usable,
        rejected_duplicates_do_not_wait,
        sweep_does_not_wait_for_a_record_that_is_being_claimed,
        claim_and_answer_cost_what_is_promised_and_a_replay_too,
        idle_bound_of_a_unit_is_put_back_however_it_ends,
        caller_that_lost_a_deadlock_commits_nothing,
        unit_whose_transaction_has_ended_is_not_completed,
    );
}
