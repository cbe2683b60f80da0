//! The HTTP layer: one suite against a running server with real sockets, with the mistakes that it must catch.
#![cfg(all(feature = "tower", any(feature = "sqlite", feature = "postgres", feature = "mysql")))]

mod bounds;
mod client;
mod doubles;
mod ends;
mod logging;
mod processes;
mod replay;
mod requests;
mod shop;
mod stacks;
mod stage;
mod store;
mod store_cut;
mod store_silent;
mod suite;

mod both_modes {
    use super::suite;

    leastlock_testkit::mount!(suite:
        i1_of_many_duplicates_at_once_one_runs,
        i1_duplicate_of_a_running_request_is_told_so,
        i1_duplicates_pipelined_on_one_connection_run_once,
        i5_other_payload_under_the_same_key_is_422,
        i12_same_key_of_another_tenant_or_operation_is_another_record,
        i13_replay_has_the_same_status_headers_and_bytes,
        client_that_hangs_up_in_extract_mode_leaves_nothing,
    );
}

mod odd_requests {
    use super::requests;

    leastlock_testkit::mount!(requests:
        i9_unsafe_method_without_a_key_never_runs,
        i20_body_over_the_limit_is_413_and_never_runs,
        safe_methods_pass_and_put_and_delete_need_a_key_by_setting,
        a_bare_key_is_taken_by_setting_only,
        client_that_stops_in_the_middle_of_its_body_runs_nothing,
        limits_that_make_no_sense_are_refused_at_build,
    );
}

mod replay_mode {
    use super::replay;

    leastlock_testkit::mount!(replay:
        client_that_hangs_up_does_not_cancel_its_handler,
        i11_stored_answers_are_replayed_released_keys_are_free_and_unknown_ones_held,
        held_key_is_answered_or_free_once_it_is_resolved,
        answer_over_the_limit_reaches_its_client_and_is_never_made_again,
        handler_that_takes_too_long_is_cancelled_and_its_key_held,
        more_than_max_running_is_503_and_a_client_that_is_gone_still_counts,
        drained_waits_for_handlers_whose_client_is_gone,
        error_of_a_plain_tower_service_holds_the_key,
    );
}

mod handler_ends {
    use super::ends;

    leastlock_testkit::mount!(ends:
        refusal_after_an_effect_frees_no_key,
        panic_in_the_body_of_an_answer_holds_the_key,
        answer_that_must_not_be_stored_is_not_and_never_made_again,
    );
}

mod memory {
    use super::bounds;

    leastlock_testkit::mount!(bounds:
        body_that_is_being_read_counts_as_running,
    );
}

mod store_down {
    use super::store;

    leastlock_testkit::mount!(store:
        store_that_is_down_answers_503_and_runs_nothing,
    );
}

#[cfg(feature = "postgres")]
mod store_lost {
    use super::store;

    leastlock_testkit::mount!(store on postgres:
        store_that_is_cut_off_answers_503_until_it_is_back,
        answer_that_cannot_be_recorded_is_not_given_out,
        lost_reply_to_a_completion_is_recognised,
        store_that_does_not_answer_keeps_no_place,
        claim_that_comes_too_late_is_given_back,
        end_that_is_not_answered_is_not_waited_for,
    );
}

mod lost_processes {
    use super::processes;

    leastlock_testkit::mount!(processes:
        killed_server_leaves_its_key_in_flight_until_the_lease_ends_and_then_held,
        server_stopped_beyond_its_lease_cannot_complete,
    );
}
