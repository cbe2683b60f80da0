//! Combiners: O13, O14 and O19, with the mistakes that the same tests reject, and what is promised of limits and ends.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod append;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod at_once;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod frozen;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod lost_replies;
#[cfg(feature = "postgres")]
mod nameless;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod on_connection;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod passed_over;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod waits;

leastlock_testkit::mount!(suite:
    o13_a_failing_operation_fails_alone_and_the_others_keep_their_order,
    o13_a_panic_and_a_missing_answer_fail_alone,
    o14_a_caller_dropped_while_queued_is_not_applied,
    o14_a_caller_dropped_while_its_batch_commits_is_applied_once,
    full_queue_refuses_and_gives_back,
    close_answers_everything_that_was_accepted,
    close_breaks_off_at_its_deadline_and_says_that_nothing_was_applied,
    last_handle_dropped_leaves_what_is_queued_undone,
    a_pool_without_a_connection_is_no_operations_fault,
    limits_are_checked,
);

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod faults {
    use super::lost_replies;

    leastlock_testkit::mount!(lost_replies on postgres and mysql:
        o19_a_commit_whose_reply_was_lost_is_looked_up_or_unknown,
        o19_a_commit_that_never_arrived_is_sent_again_or_unknown,
        o19_what_cannot_be_looked_up_is_unknown_and_the_next_is_applied,
        an_operation_that_waits_for_a_lock_does_not_hold_up_the_others_for_good,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod processes {
    use super::frozen;

    leastlock_testkit::mount!(frozen on postgres and mysql: a_process_stopped_inside_its_batch_lets_others_have_its_rows);
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod errors {
    use super::passed_over;

    leastlock_testkit::mount!(passed_over on postgres and mysql: an_error_that_was_passed_over_is_no_commit);
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod connections {
    use super::on_connection;

    leastlock_testkit::mount!(on_connection on postgres and mysql:
        a_connection_goes_back_to_its_pool_with_its_own_bounds,
        stricter_bounds_of_the_connection_stay,
        a_connection_that_cannot_be_given_its_bounds_back_is_closed,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod statements {
    use super::at_once;

    leastlock_testkit::mount!(at_once on postgres and mysql:
        o19_a_statement_that_may_have_taken_effect_is_not_applied_again,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod locks {
    use super::waits;

    leastlock_testkit::mount!(waits on postgres and mysql:
        a_row_that_many_wait_for_does_not_hold_up_the_others,
        what_was_set_aside_is_tried_so_often_and_answered_at_the_end,
    );
}

#[cfg(feature = "postgres")]
mod notified {
    use super::nameless;

    leastlock_testkit::mount!(nameless on postgres: what_only_the_commit_does_is_done_before_it_is_answered);
}
