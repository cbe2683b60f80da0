//! What leaves the outbox, and in which order: one suite on each engine, with the broken readers that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

mod answers;
mod doubles;
mod killed;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod lost_answers;
#[cfg(feature = "mysql")]
mod mysql_doubles;
#[cfg(feature = "mysql")]
mod mysql_only;
#[cfg(feature = "mysql")]
mod mysql_random;
#[cfg(feature = "postgres")]
mod random;
mod readers;
#[cfg(feature = "postgres")]
mod stopped;
mod suite;
mod together;
#[cfg(feature = "postgres")]
mod visibility;
#[cfg(feature = "wal")]
mod wal;

leastlock_testkit::mount!(
    suite: b13_rolled_back_events_never_leave,
    pages_smaller_than_the_backlog_lose_and_double_nothing,
    crashed_relay_is_followed_by_another_once_its_lease_is_over,
    fenced_relay_moves_no_cursor,
    refused_event_stops_the_relay_before_it,
    event_over_the_limit_is_refused_before_any_sql,
    negative_partition_is_refused_before_any_sql,
    events_appended_together_leave_as_if_one_by_one,
    one_event_that_is_refused_keeps_all_back,
    sink_that_never_knows_is_asked_with_growing_pauses,
    b5_lease_is_kept_while_publishing_is_slow,
    b6_no_lock_is_held_while_the_sink_is_waited_for,
    b9_producer_dropped_before_its_reports_marks_nothing_sent,
    b15_what_is_behind_a_gap_is_not_noted,
    b17_what_has_no_answer_by_the_deadline_is_not_marked_done,
    b18_killed_relay_is_followed_and_repeats_no_more_than_was_in_flight;
    postgres: b1_lower_id_that_commits_later_is_delivered,
    b2_open_writer_elsewhere_stalls_nothing,
    b3_events_of_a_key_leave_in_commit_order_whatever_their_xid,
    b14_row_that_a_trigger_hides_is_delivered_when_it_commits,
    b1_b2_b3_b14_hold_under_random_transactions,
    lost_claim_stalls_no_event,
    lost_renewal_stalls_no_event,
    lost_note_stalls_no_event,
    relay_that_keeps_renewing_its_name_is_seen_to_stall,
    two_lost_renewals_end_no_lease,
    read_without_an_answer_is_read_anew,
    database_that_is_silent_for_a_while_is_waited_for,
    shutdown_is_served_while_the_database_is_silent,
    pool_of_one_connection_is_refused_and_of_two_is_enough,
    cursor_ahead_of_the_database_stops_with_an_error,
    b18_relay_stopped_while_it_holds_rows_is_followed_within_its_lease_and_a_second;
    mysql: b1_lower_id_that_commits_later_is_delivered_from_a_log_that_is_deleted,
    b2_open_writer_elsewhere_stalls_no_plain_read,
    b3_events_of_a_key_leave_in_the_order_of_its_lock,
    b14_rows_that_a_trigger_hides_are_delivered_when_they_commit,
    b1_b2_b3_b14_hold_where_published_rows_are_deleted,
    appends_never_wait_for_a_relay_that_deletes,
    relay_that_deletes_never_waits_for_an_append,
    events_of_repeatable_read_transactions_leave_in_order,
    keys_and_topics_are_bytes,
    large_events_are_appended_and_read,
    lost_claim_stalls_no_event,
    lost_renewal_stalls_no_event,
    lost_note_stalls_no_event,
    two_lost_renewals_end_no_lease,
    read_without_an_answer_is_read_anew,
    database_that_is_silent_for_a_while_is_waited_for,
    shutdown_is_served_while_the_database_is_silent,
    pool_of_one_connection_is_refused_and_of_two_is_enough,
);
