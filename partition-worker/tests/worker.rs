//! The worker end to end: SQLite with the mock cluster, PostgreSQL with the real broker.
#![cfg(all(feature = "kafka", any(feature = "sqlite", feature = "postgres")))]

#[cfg(feature = "postgres")]
#[path = "worker/closing.rs"]
mod closing;
#[cfg(feature = "postgres")]
#[path = "worker/lost_reply.rs"]
mod lost_reply;
#[path = "worker/rig.rs"]
mod rig;
#[path = "worker/suite.rs"]
mod suite;

leastlock_testkit::mount!(suite:
    every_record_takes_effect_once_in_the_order_of_its_key,
    an_eager_rebalance_loses_and_doubles_nothing,
    a_cooperative_rebalance_loses_and_doubles_nothing,
    p5_what_was_finished_out_of_order_is_not_redone_after_a_crash,
    p6_two_failing_handlers_keep_the_watermark_at_the_first,
    p7_a_handler_from_an_earlier_assignment_counts_once,
    a_failing_handler_is_tried_again_in_its_lane_while_others_go_on,
    p15_a_shutdown_lets_running_handlers_finish,
    p18_a_worker_with_nothing_to_do_closes_without_an_error,
    a_partition_that_a_stranger_has_sealed_is_taken_again,
    p10_what_a_slow_key_holds_back_is_bounded,
    p10_double_without_a_limit_all_are_held,
    an_offset_that_the_log_does_not_have_stops_the_worker,
);

/// What only the real broker and PostgreSQL can show.
#[cfg(feature = "postgres")]
mod real {
    mod suite {
        pub(crate) use crate::closing::p18_a_worker_closes_in_the_middle_of_a_seal;
        pub(crate) use crate::lost_reply::a_commit_whose_reply_is_lost_counts_once;
        pub(crate) use crate::suite::a_rebalance_of_the_consumer_protocol_loses_and_doubles_nothing;
    }

    leastlock_testkit::mount!(suite on postgres:
        a_commit_whose_reply_is_lost_counts_once,
        p18_a_worker_closes_in_the_middle_of_a_seal,
        a_rebalance_of_the_consumer_protocol_loses_and_doubles_nothing,
    );
}
