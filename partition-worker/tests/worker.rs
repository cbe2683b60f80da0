//! The worker end to end: SQLite with the mock cluster, PostgreSQL and MariaDB with the real broker.
#![cfg(all(feature = "kafka", any(feature = "sqlite", feature = "postgres", feature = "mysql")))]

#[path = "worker/batches.rs"]
mod batches;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[path = "worker/blame.rs"]
mod blame;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[path = "worker/closing.rs"]
mod closing;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[path = "worker/in_a_row.rs"]
mod in_a_row;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[path = "worker/lost_reply.rs"]
mod lost_reply;
#[path = "worker/made_anew.rs"]
mod made_anew;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[path = "worker/no_answer.rs"]
mod no_answer;
#[path = "worker/panics.rs"]
mod panics;
#[path = "worker/rig.rs"]
mod rig;
#[cfg(any(feature = "postgres", feature = "mysql"))]
#[path = "worker/slow_key.rs"]
mod slow_key;
#[path = "worker/stalled.rs"]
mod stalled;
#[path = "worker/suite.rs"]
mod suite;

leastlock_testkit::mount!(suite:
    every_record_takes_effect_once_in_the_order_of_its_key,
    an_eager_rebalance_loses_and_doubles_nothing,
    a_cooperative_rebalance_loses_and_doubles_nothing,
    p5_what_was_finished_out_of_order_is_not_redone_after_a_crash,
    p6_two_failing_handlers_keep_the_watermark_at_the_first,
    p9_an_incremental_revocation_leaves_kept_partitions_alone,
    a_handler_that_never_ends_is_cancelled_and_counts_as_failed,
    a_failing_handler_is_tried_again_in_its_lane_while_others_go_on,
    a_skipped_record_is_finished_without_an_effect_and_its_key_goes_on,
    p15_a_shutdown_lets_running_handlers_finish,
    p18_a_worker_with_nothing_to_do_closes_without_an_error,
    a_partition_that_a_stranger_has_sealed_is_taken_again,
    p10_what_a_slow_key_holds_back_is_bounded,
    p10_the_rows_of_finished_offsets_behind_a_slow_key_are_bounded,
    p10_double_without_a_limit_all_are_held,
    an_offset_that_the_log_does_not_have_stops_the_worker,
);

mod batch {
    use super::batches as suite;

    leastlock_testkit::mount!(suite:
        every_record_of_a_batch_takes_effect_once_in_the_order_of_its_key,
        an_ordered_partition_is_worked_on_by_one_batch_at_a_time,
        of_a_failing_batch_only_the_record_that_fails_is_given_up,
        a_record_that_the_handler_names_is_alone_at_once,
        a_failing_record_of_a_batch_is_tried_again_while_others_go_on,
        a_rebalance_between_batches_loses_and_doubles_nothing,
    );
}

mod panicking {
    use super::panics as suite;

    leastlock_testkit::mount!(suite:
        a_handler_that_panics_before_its_future_is_tried_again,
        a_batch_handler_that_panics_before_its_future_is_tried_again,
    );
}

mod stalling {
    use super::stalled as suite;

    leastlock_testkit::mount!(suite:
        p11_what_waits_for_the_database_is_no_stalled_handler,
        p11_double_a_handler_that_waits_by_itself_is_one,
    );
}

mod anew {
    use super::made_anew as suite;

    leastlock_testkit::mount!(suite:
        p19_a_topic_made_anew_with_fewer_records_stops_the_worker_until_rebase,
        p19_a_topic_made_anew_with_more_records_stops_the_worker_until_rebase,
        p19_double_a_topic_known_by_its_name_alone_is_skipped_over,
    );
}

/// What only the real broker and a database server can show.
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod real {
    mod suite {
        pub(crate) use crate::batches::a_batch_whose_commit_has_no_reply_counts_once;
        pub(crate) use crate::blame::{
            a_statement_that_always_times_out_counts_as_an_attempt, an_ignored_error_costs_an_attempt_and_no_record,
            sitting_beyond_the_idle_timeout_counts_as_an_attempt,
        };
        pub(crate) use crate::closing::p18_a_worker_closes_in_the_middle_of_a_seal;
        pub(crate) use crate::in_a_row::{
            a_busy_task_keeps_its_connection_for_a_while, no_connection_is_kept_that_others_may_wait_for,
        };
        pub(crate) use crate::lost_reply::{
            a_commit_that_never_arrives_is_done_again, a_commit_whose_reply_is_lost_counts_once,
            a_commit_whose_reply_never_comes_counts_once, what_took_effect_in_its_last_attempt_is_no_dead_letter,
            what_took_effect_in_its_last_attempt_is_not_parked, what_took_effect_in_its_last_attempt_is_not_skipped,
        };
        pub(crate) use crate::made_anew::p19_a_topic_made_anew_under_the_worker_stops_it;
        pub(crate) use crate::no_answer::{
            a_fold_without_an_answer_holds_up_nothing_for_ever, a_shutdown_ends_though_a_fold_is_never_answered,
            a_shutdown_ends_though_the_database_never_answers,
            a_start_that_could_not_be_fixed_is_fixed_by_the_next_seal,
        };
        pub(crate) use crate::slow_key::{
            p10_double_folds_that_wait_in_vain_stop_the_others, p10_the_others_keep_their_rate_beside_a_slow_handler,
        };
        pub(crate) use crate::suite::{
            a_rebalance_of_the_consumer_protocol_loses_and_doubles_nothing,
            p7_a_handler_from_an_earlier_assignment_counts_once,
        };
    }

    leastlock_testkit::mount!(suite on postgres and mysql:
        a_batch_whose_commit_has_no_reply_counts_once,
        a_busy_task_keeps_its_connection_for_a_while,
        no_connection_is_kept_that_others_may_wait_for,
        a_commit_whose_reply_is_lost_counts_once,
        a_commit_whose_reply_never_comes_counts_once,
        a_commit_that_never_arrives_is_done_again,
        what_took_effect_in_its_last_attempt_is_no_dead_letter,
        what_took_effect_in_its_last_attempt_is_not_parked,
        what_took_effect_in_its_last_attempt_is_not_skipped,
        an_ignored_error_costs_an_attempt_and_no_record,
        sitting_beyond_the_idle_timeout_counts_as_an_attempt,
        a_statement_that_always_times_out_counts_as_an_attempt,
        a_shutdown_ends_though_the_database_never_answers,
        a_shutdown_ends_though_a_fold_is_never_answered,
        a_fold_without_an_answer_holds_up_nothing_for_ever,
        a_start_that_could_not_be_fixed_is_fixed_by_the_next_seal,
        p7_a_handler_from_an_earlier_assignment_counts_once,
        p10_the_others_keep_their_rate_beside_a_slow_handler,
        p10_double_folds_that_wait_in_vain_stop_the_others,
        p18_a_worker_closes_in_the_middle_of_a_seal,
        a_rebalance_of_the_consumer_protocol_loses_and_doubles_nothing,
        p19_a_topic_made_anew_under_the_worker_stops_it,
    );
}
