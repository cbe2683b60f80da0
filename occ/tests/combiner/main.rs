//! Combiners: O13, O14 and O19, with the mistakes that the same tests reject, and what is promised of limits and ends.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod append;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod doubles;
#[cfg(feature = "postgres")]
mod lost_replies;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod suite;

leastlock_testkit::mount!(suite on sqlite and postgres:
    o13_a_failing_operation_fails_alone_and_the_others_keep_their_order,
    o13_a_panic_and_a_missing_answer_fail_alone,
    o14_a_caller_dropped_while_queued_is_not_applied,
    o14_a_caller_dropped_while_its_batch_commits_is_applied_once,
    full_queue_refuses_and_gives_back,
    close_answers_everything_that_was_accepted,
    close_breaks_off_at_its_deadline_and_says_that_nothing_was_applied,
    last_handle_dropped_leaves_what_is_queued_undone,
    limits_are_checked,
);

#[cfg(feature = "postgres")]
mod faults {
    use super::lost_replies;

    leastlock_testkit::mount!(lost_replies on postgres:
        o19_a_commit_whose_reply_was_lost_is_looked_up,
        o19_a_commit_that_never_arrived_is_sent_again,
        o19_what_cannot_be_looked_up_is_unknown,
        an_operation_that_waits_for_a_lock_does_not_hold_up_the_others_for_good,
    );
}
