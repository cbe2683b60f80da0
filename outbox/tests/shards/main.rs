//! Who holds which shard, what stays in the log, and what happens when the database is not the one it was: one suite on each engine,
//! with the mistakes that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

#[cfg(feature = "postgres")]
mod cost_postgres;
#[cfg(feature = "sqlite")]
mod cost_sqlite;
mod doctor;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod handover;
#[cfg(feature = "postgres")]
mod handover_postgres;
mod lag;
#[cfg(feature = "postgres")]
mod raise;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod replay;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod restore;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod retention;
mod support;

mod suite {
    pub(crate) use crate::doctor::*;
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) use crate::handover::*;
    pub(crate) use crate::lag::*;
    #[cfg(feature = "postgres")]
    pub(crate) use crate::{cost_postgres::*, handover_postgres::*, raise::*};
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) use crate::{replay::*, restore::*, retention::*};
}

leastlock_testkit::mount!(suite on sqlite:
    events_go_once_they_have_been_published_for_the_retention,
    b11_log_restored_without_its_cursor_is_refused_and_rebased,
    events_are_replayed_by_time_topic_and_id,
    lag_tells_what_is_unpublished_and_what_is_parked,
    doctor_finds_what_endangers_events,
);

leastlock_testkit::mount!(suite on postgres:
    events_go_once_they_have_been_published_for_the_retention,
    b11_log_restored_without_its_cursor_is_refused_and_rebased,
    event_that_commits_late_goes_too,
    events_are_replayed_by_time_topic_and_id,
    lag_tells_what_is_unpublished_and_what_is_parked,
    doctor_finds_what_endangers_events,
    b10_b20_polls_read_as_much_beside_a_million_rows,
    joining_relay_is_given_its_share_and_nothing_is_published_twice,
    shard_is_not_handed_over_while_something_of_it_is_on_its_way,
    shard_whose_events_get_no_answer_is_handed_over_after_a_lease,
    relay_that_ends_leaves_its_share_at_once,
    b11_dump_in_a_new_cluster_is_refused_and_rebased,
    b11_log_moved_without_its_sequence_is_not_rebased,
    b11_log_with_rows_from_before_its_checks_is_rebased,
    b11_server_that_crashes_under_a_relay_loses_no_event,
    b11_dump_of_before_the_first_relay_is_refused_and_rebased,
    event_of_a_transaction_that_overtook_the_survey_is_no_restore,
    database_that_only_reads_for_a_while_is_waited_for,
    replay_copies_few_events_at_a_time,
    raised_shards_keep_the_order_of_a_key,
    raised_shards_are_shared_apart_from_the_old_ones,
    raised_shards_wait_for_what_is_parked,
    raised_shards_do_not_wait_for_what_blocks_nothing,
    open_writer_is_seen_by_its_age,
    large_backlog_is_estimated,
    doctor_sees_long_transactions_and_missing_autovacuum,
    raise_is_refused_where_it_would_break_something,
    raise_that_waits_for_a_writer_stops_no_other,
    leases_are_kept_while_the_log_is_locked,
    shards_are_handed_over_though_parked_events_cannot_be_read,
    shards_are_claimed_though_reading_their_blocked_keys_takes_longer_than_a_lease,
);

// Nothing that was published is kept, and there is no cursor.
leastlock_testkit::mount!(suite on mysql:
    lag_tells_what_is_unpublished_and_what_is_parked,
    large_backlog_of_rows_that_go_is_estimated,
    doctor_finds_what_endangers_events,
    joining_relay_is_given_its_share_and_nothing_is_published_twice,
    shard_is_not_handed_over_while_something_of_it_is_on_its_way,
    shard_whose_events_get_no_answer_is_handed_over_after_a_lease,
    relay_that_ends_leaves_its_share_at_once,
);

#[cfg(feature = "sqlite")]
mod cost {
    use crate::cost_sqlite;

    leastlock_testkit::mount!(cost_sqlite on sqlite: b10_b20_polls_read_as_much_beside_a_million_rows);
}
