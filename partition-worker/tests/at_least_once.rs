//! A worker without a database: on the mock cluster and on the real broker.
#![cfg(feature = "kafka")]

#[path = "at_least_once/failures.rs"]
mod failures;
#[path = "at_least_once/rig.rs"]
mod rig;
#[path = "at_least_once/suite.rs"]
mod suite;

use leastlock_testkit::broker::Broker;

/// The child's part in the crashes: a worker that is killed.
#[test]
fn killed_worker() {
    rig::killed_worker("killed_worker");
}

macro_rules! on {
    ($broker:ident, $suite:ident: $($case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                super::$suite::$case(super::Broker::$broker()).await;
            }
        )+
    };
}

mod mock {
    on!(mock, suite:
        every_record_is_processed_once_in_the_order_of_its_key,
        p5_what_was_finished_out_of_order_is_not_processed_again_after_a_crash,
        p5_double_a_commit_without_metadata_processes_it_again,
        p5_what_the_metadata_has_no_room_for_is_processed_again_and_nothing_is_lost,
        p10_what_a_slow_key_holds_back_is_bounded,
        p10_double_without_a_limit_all_are_held,
        p10_the_limit_on_rows_of_a_database_is_none_without_one,
        p17_no_commit_marks_what_was_never_finished,
        an_eager_rebalance_loses_nothing,
        a_cooperative_rebalance_loses_nothing,
        double_giving_back_at_once_processes_twice,
        a_skipped_record_is_finished_and_its_key_goes_on,
        an_ordered_partition_is_processed_one_record_after_the_other,
        unordered_records_of_a_key_are_processed_at_the_same_time,
        double_records_of_a_key_wait_for_each_other,
        records_without_a_key_are_in_order_or_not_as_it_is_set,
    );
    on!(mock, failures:
        a_handler_that_panics_before_its_future_is_tried_again,
        a_dead_letter_leaves_its_key_and_names_its_origin,
        a_dead_letter_is_not_committed_before_its_copy_is_acknowledged,
        a_key_cannot_be_parked,
        a_retry_ends_with_the_ownership,
    );
}

mod kafka {
    on!(real, suite:
        every_record_is_processed_once_in_the_order_of_its_key,
        p5_what_was_finished_out_of_order_is_not_processed_again_after_a_crash,
        p5_double_a_commit_without_metadata_processes_it_again,
        p5_what_the_metadata_has_no_room_for_is_processed_again_and_nothing_is_lost,
        p10_what_a_slow_key_holds_back_is_bounded,
        p10_double_without_a_limit_all_are_held,
        p17_no_commit_marks_what_was_never_finished,
        an_eager_rebalance_processes_nothing_twice,
        a_cooperative_rebalance_processes_nothing_twice,
        a_rebalance_of_the_consumer_protocol_processes_nothing_twice,
        double_giving_back_at_once_processes_twice,
        a_skipped_record_is_finished_and_its_key_goes_on,
        an_ordered_partition_is_processed_one_record_after_the_other,
        unordered_records_of_a_key_are_processed_at_the_same_time,
        double_records_of_a_key_wait_for_each_other,
        records_without_a_key_are_in_order_or_not_as_it_is_set,
        metadata_that_the_broker_refuses_is_cut_and_the_offset_committed,
    );
    on!(real, failures:
        a_handler_that_panics_before_its_future_is_tried_again,
        a_dead_letter_leaves_its_key_and_names_its_origin,
        a_retry_ends_with_the_ownership,
    );
}
