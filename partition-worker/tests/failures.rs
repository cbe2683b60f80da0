//! What becomes of records that fail for good, end to end: SQLite with the mock cluster, PostgreSQL and MariaDB with the real broker.
#![cfg(all(feature = "kafka", any(feature = "sqlite", feature = "postgres", feature = "mysql")))]

#[path = "failures/bench.rs"]
mod bench;
#[path = "failures/dead_letters.rs"]
mod dead_letters;
#[path = "failures/parking.rs"]
mod parking;
#[allow(dead_code, reason = "this file needs a part of it")]
#[path = "worker/rig.rs"]
mod rig;

mod suite {
    pub(crate) use crate::dead_letters::{
        a_copy_is_the_record_and_tells_where_it_came_from,
        a_failed_record_is_not_finished_before_its_copy_is_acknowledged, a_retry_ends_with_the_ownership,
        double_a_copy_that_is_not_waited_for_is_lost, double_a_skip_leaves_no_copy,
        only_what_is_wrong_in_itself_goes_where_permanent_failures_go,
    };
    pub(crate) use crate::parking::{
        a_key_that_fails_again_is_parked_again, a_record_without_a_key_is_parked_alone,
        p13_a_discarded_key_flows_again, p13_a_parked_key_is_followed_in_order_and_others_go_on,
        p13_a_parked_key_is_followed_in_order_by_batches_too, p13_a_release_goes_on_where_a_crash_has_ended_it,
        p13_a_released_key_whose_records_come_as_fast_as_they_leave_becomes_free,
        p13_double_a_dead_letter_lets_later_records_overtake,
    };
}

leastlock_testkit::mount!(suite:
    a_copy_is_the_record_and_tells_where_it_came_from,
    double_a_skip_leaves_no_copy,
    a_failed_record_is_not_finished_before_its_copy_is_acknowledged,
    double_a_copy_that_is_not_waited_for_is_lost,
    only_what_is_wrong_in_itself_goes_where_permanent_failures_go,
    a_retry_ends_with_the_ownership,
    p13_a_parked_key_is_followed_in_order_and_others_go_on,
    p13_a_parked_key_is_followed_in_order_by_batches_too,
    p13_double_a_dead_letter_lets_later_records_overtake,
    p13_a_release_goes_on_where_a_crash_has_ended_it,
    p13_a_released_key_whose_records_come_as_fast_as_they_leave_becomes_free,
    p13_a_discarded_key_flows_again,
    a_key_that_fails_again_is_parked_again,
    a_record_without_a_key_is_parked_alone,
);

/// What only a real broker does.
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod real {
    use super::dead_letters as suite;

    leastlock_testkit::mount!(suite on postgres and mysql:
        double_a_retry_inside_the_handler_outlives_the_ownership,
        a_record_that_its_topic_does_not_take_stops_the_worker_and_is_not_lost,
    );
}
