//! The exactly-once effect in the database, without Kafka: seal, fence and fold, and what they catch.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

#[path = "progress/bench.rs"]
mod bench;
#[path = "progress/doubles.rs"]
mod doubles;
#[path = "progress/suite.rs"]
mod suite;

leastlock_testkit::mount!(suite:
    p5_a_seal_answers_what_is_finished_and_what_is_a_gap,
    p5_double_the_highest_finished_offset_loses_the_gap,
    p5_double_a_watermark_alone_redoes_what_is_finished,
    p7_an_earlier_epoch_is_fenced,
    p7_double_a_fence_without_the_epoch_lets_it_in,
    p20_an_effect_is_applied_once_beside_a_fold,
    p20_double_a_fence_without_next_offset_applies_it_twice,
    a_commit_whose_reply_was_lost_is_found_done,
    a_rolled_back_handler_leaves_its_record_open,
    an_owner_that_came_later_keeps_the_partition,
    only_the_owner_folds,
    the_first_owner_fixes_the_start_and_nobody_else,
    nobody_waits_at_the_fence_for_a_start_to_be_fixed,
    many_finished_offsets_do_not_take_the_seal_beyond_its_time,
    a_fold_forgets_many_offsets_piece_by_piece,
);

#[path = "progress/batch.rs"]
mod batch;

mod batches {
    use super::batch as suite;

    leastlock_testkit::mount!(suite:
        a_batch_takes_effect_as_a_whole_and_is_told_what_is_finished,
        p7_a_batch_of_an_earlier_epoch_is_fenced,
        p7_a_batchs_fence_looks_at_the_epoch,
        p7_double_a_batchs_fence_without_the_epoch_lets_it_in,
        p20_a_batch_is_applied_once_beside_a_fold,
        no_batch_is_let_in_before_the_start_is_fixed,
        of_two_batches_with_a_record_in_common_one_is_let_in,
    );
}

#[path = "progress/in_a_row.rs"]
mod in_a_row;

mod row {
    use super::in_a_row as suite;

    leastlock_testkit::mount!(suite:
        the_next_transaction_has_no_part_in_the_one_that_was_committed,
        each_transaction_in_a_row_is_fenced_by_itself,
        double_one_transaction_for_both_takes_the_first_back,
        a_commit_that_is_dropped_leaves_no_transaction_open,
        double_a_begin_that_nobody_owns_swallows_what_a_later_user_writes,
    );
}

#[path = "progress/made_anew.rs"]
mod made_anew;

mod anew {
    use super::made_anew as suite;

    leastlock_testkit::mount!(suite:
        p19_after_a_rebase_no_record_of_the_new_topic_is_skipped,
        p19_after_a_rebase_nothing_is_parked_that_will_be_handled,
        p19_after_a_rebase_no_death_is_held_against_a_new_record,
        p19_double_a_rebase_that_keeps_what_is_parked_meets_it_again,
        p19_double_a_rebase_that_forgets_nothing_skips_records,
        p19_double_without_an_id_the_new_records_are_taken_for_done,
        a_rebase_says_who_and_why,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
#[path = "progress/open_transactions.rs"]
mod open_transactions;

#[cfg(any(feature = "postgres", feature = "mysql"))]
#[path = "progress/ignored_error.rs"]
mod ignored_error;

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod ignored {
    use super::ignored_error as suite;

    leastlock_testkit::mount!(suite on postgres and mysql:
        an_ignored_error_loses_no_record,
        an_ignored_error_loses_no_record_where_the_next_begins,
        double_a_plain_commit_loses_the_record,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod open {
    use super::open_transactions as suite;

    leastlock_testkit::mount!(suite on postgres and mysql:
        p16_newcomers_stop_at_the_gate_and_the_seal_reports_who_is_in_the_way,
        p16_a_newcomer_stops_at_the_gate,
        p16_double_a_fence_without_the_gate_lets_newcomers_in,
        p16_a_seal_does_not_end_before_an_open_handler_does,
        p16_double_a_check_without_the_share_lock_lets_a_zombie_through,
        p16_a_seal_gets_through_a_constant_load_of_share_lockers,
        p16_a_stopped_handler_holds_up_the_seal_no_longer_than_the_idle_timeout,
        p16_double_a_fence_without_an_idle_timeout_holds_it_up_for_ever,
        p20_double_a_comparison_outside_the_locked_scan_applies_it_twice,
        p16_a_batch_stops_at_the_gate,
        p16_a_seal_does_not_end_before_an_open_batch_does,
        p16_double_a_batch_without_the_share_lock_lets_a_zombie_through,
        p20_double_a_batch_compared_outside_the_locked_scan_is_applied_twice,
    );
}

#[cfg(feature = "mysql")]
#[path = "progress/connection.rs"]
mod connection;

#[cfg(feature = "mysql")]
mod kept {
    use super::connection as suite;

    leastlock_testkit::mount!(suite on mysql: a_handlers_transaction_leaves_its_connection_as_it_was);
}

/// What PostgreSQL has and MariaDB has not.
#[cfg(feature = "postgres")]
mod weak {
    use super::open_transactions as suite;

    leastlock_testkit::mount!(suite on postgres:
        p16_double_a_seal_without_the_gate_starves,
        p20_double_a_key_share_lock_applies_it_twice,
    );
}

#[cfg(feature = "postgres")]
#[test]
fn stopped_handler_postgres() {
    open_transactions::stopped_handler_child::<sqlx::Postgres>("stopped_handler_postgres");
}

#[cfg(feature = "mysql")]
#[test]
fn stopped_handler_mysql() {
    open_transactions::stopped_handler_child::<sqlx::MySql>("stopped_handler_mysql");
}
