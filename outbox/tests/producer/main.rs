//! The producer's side of the outbox, and the consumer's inbox: one suite on each engine, with the doubles that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

mod appended;
mod doubles;
mod inbox;
mod leaving;
mod plain_sql;
mod refused_rows;
#[cfg(feature = "postgres")]
mod rights;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod strict;
mod suite;

leastlock_testkit::mount!(
    suite: b16_event_whose_handler_failed_is_handled_when_it_comes_again,
    b16_of_two_consumers_at_one_event_one_handles_it,
    consumers_know_nothing_of_each_other,
    sweep_deletes_old_marks_only_in_batches,
    event_of_plain_sql_leaves_like_one_of_the_crate,
    row_that_no_relay_could_read_is_refused_where_it_is_written,
    headers_of_every_kind_leave_as_they_were,
    what_no_broker_takes_is_refused_before_any_sql,
    trace_of_the_current_span_goes_with_the_event,
    cloud_event_leaves_with_its_attributes,
    more_events_than_a_statement_takes_keep_their_order
);

#[cfg(feature = "postgres")]
mod on_postgres {
    use crate::suite;

    leastlock_testkit::mount!(
        suite on postgres: plain_sql_appends_to_the_shards_that_take_events,
        denied_append_names_the_table_and_the_rights
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers {
    use crate::suite;

    leastlock_testkit::mount!(
        suite on postgres and mysql: b12_event_appended_before_the_lock_keeps_its_place_in_strict_mode,
        writers_that_lock_in_other_orders_end_in_a_retryable_error,
        batches_over_the_same_keys_do_not_deadlock,
        strict_mode_locks_a_bounded_number_of_keys,
        locks_of_a_savepoint_go_with_it,
        b16_of_many_that_wait_for_one_that_fails_one_handles_it,
        snapshot_older_than_the_mark_is_no_first_time,
        sql_finds_the_shard_that_the_crate_finds,
        sql_takes_the_lock_that_the_crate_takes,
        sql_makes_ids_of_version_7,
        plain_sql_refuses_what_the_crate_refuses,
    );
}
