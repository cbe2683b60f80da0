//! The transactional mode: one suite, mounted on each engine, with the mistakes that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

mod doubles;
mod http_response;
mod keeper;
mod stopped_owner;
mod suite;

leastlock_testkit::mount!(
    suite: i1_duplicates_run_once_and_wait_or_are_told,
    i3_handler_that_changes_its_input_keeps_key_and_fingerprint,
    i4_failing_duplicate_leaves_the_owners_record,
    i5_other_payload_is_a_mismatch_on_every_path,
    i6_completed_record_keeps_its_fingerprint,
    i12_same_key_in_another_scope_is_another_record,
    i13_replayed_http_response_is_the_same_byte_for_byte,
    i15_expired_record_is_a_new_first_before_any_sweep,
    i19_waiter_of_a_rolled_back_owner_runs_as_first,
    begin_in_joins_the_callers_transaction,
    claim_committed_without_an_answer_is_never_run_again,
    answer_over_the_limit_is_refused_and_nothing_kept,
    sweep_deletes_expired_records_in_batches,
    an_answer_of_another_kind_is_an_error_and_not_run_again,
    headers_and_body_count_towards_the_limit,
    empty_false_and_zero_are_answers;
    postgres: i14_invisible_record_is_looked_at_until_known,
    i22_stopped_owners_key_is_free_and_it_cannot_commit,
    i24_wait_that_times_out_leaves_the_transaction_usable,
    stricter_time_outs_of_the_caller_stay,
);
