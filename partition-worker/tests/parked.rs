//! Parked keys in the database, without Kafka: what an owner writes, and what an operator can do.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

#[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "PostgreSQL alone needs all of it"))]
#[path = "parked/doubles.rs"]
mod doubles;
#[path = "parked/suite.rs"]
mod suite;

leastlock_testkit::mount!(suite:
    p13_records_leave_a_released_queue_in_order_and_then_the_key_is_free,
    p13_what_follows_while_a_queue_is_released_leaves_it_before_the_key_is_free,
    p13_a_released_record_takes_effect_once,
    p13_double_a_record_that_leaves_after_its_effect_takes_effect_twice,
    a_queue_that_fails_again_is_parked_as_before,
    a_record_that_is_parked_alone_holds_up_nothing,
    a_discarded_record_is_gone_and_its_key_waits_on,
    what_is_under_way_is_not_asked_for_again,
    every_request_has_its_audit_and_an_anonymous_one_is_refused,
    a_list_goes_on_where_it_ended,
    keys_and_groups_are_told_apart_by_their_bytes,
);

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod beside {
    use super::suite;

    leastlock_testkit::mount!(suite on postgres and mysql:
        p13_a_record_that_follows_beside_a_discard_is_not_lost,
    );
}

#[cfg(feature = "postgres")]
mod double {
    use super::suite;

    leastlock_testkit::mount!(suite on postgres:
        p13_double_a_follower_that_does_not_hold_the_queue_is_lost,
    );
}
