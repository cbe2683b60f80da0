//! Stock counters: O15, O18 and O19, order ids, and what is written beside, with the mistakes that the same tests reject.

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod bounded;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod crowd;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod lost_replies;
#[cfg(feature = "mysql")]
mod mysql_only;
#[cfg(feature = "postgres")]
mod postgres_only;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod races;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod stale_beside;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod statements;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;
#[cfg(feature = "postgres")]
mod unique_beside;

leastlock_testkit::mount!(suite:
    o15_two_hundred_clients_take_exactly_the_stock,
    o15_repeats_of_an_order_take_its_units_once,
    o13_one_impossible_movement_fails_alone,
    a_repeat_is_answered_as_the_first_was,
    another_movement_under_the_same_order_id_is_a_mismatch,
    a_movement_of_several_rows_is_all_or_nothing,
    the_floor_holds_for_what_is_taken_only,
    what_stands_beside_commits_with_its_movement_and_only_then,
    a_movement_of_nothing_is_remembered_and_written_beside,
    own_table_and_keys_that_differ_in_case,
    keys_and_order_ids_of_any_text_are_found_again,
    forgotten_order_ids_are_new_again,
);

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod many {
    use super::crowd;

    leastlock_testkit::mount!(crowd on postgres and mysql:
        o18_two_combiners_in_opposite_orders_do_not_deadlock,
        o18_two_combiners_with_the_same_order_ids_answer_alike,
        o18_a_deadlock_with_a_plain_transaction_is_retried,
        a_locked_row_sends_a_movement_that_came_alone_the_long_way,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod faults {
    use super::lost_replies;

    leastlock_testkit::mount!(lost_replies on postgres and mysql: o19_a_lost_reply_is_resolved_by_the_order_id);
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod raced {
    use super::races;

    leastlock_testkit::mount!(races on postgres and mysql:
        an_order_id_that_comes_in_meanwhile_is_seen,
        an_error_that_was_passed_over_beside_moves_nothing,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod constant {
    use super::statements;

    leastlock_testkit::mount!(statements on postgres and mysql:
        a_batch_is_as_many_statements_whatever_its_size,
        a_movement_that_comes_alone_is_one_statement_on_a_kept_connection,
    );
}

#[cfg(feature = "postgres")]
mod only {
    use super::postgres_only;

    leastlock_testkit::mount!(postgres_only on postgres:
        o19_a_batch_in_one_statement_whose_reply_was_lost_is_unknown,
        o19_a_batch_in_a_transaction_of_its_own_is_looked_up,
        a_row_whose_change_is_suppressed_keeps_the_whole_movement_back,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod waits {
    use super::bounded;

    leastlock_testkit::mount!(bounded on postgres and mysql:
        a_locked_table_is_waited_for_so_long_and_nothing_is_left_open,
    );
}

#[cfg(feature = "postgres")]
mod waits_only {
    use super::bounded;

    leastlock_testkit::mount!(bounded on postgres:
        an_order_id_of_another_is_waited_for_so_long,
        a_statement_that_the_server_cancelled_is_not_applied,
    );
}

mod stale {
    #[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
    use super::stale_beside;

    leastlock_testkit::mount!(stale_beside: o13_a_movement_that_is_raced_for_ever_fails_alone);
}

#[cfg(feature = "postgres")]
mod beside {
    use super::unique_beside;

    leastlock_testkit::mount!(unique_beside on postgres: o18_an_order_id_raced_for_is_found_by_what_stands_beside_too);
}

#[cfg(feature = "mysql")]
mod maria {
    use super::mysql_only;

    leastlock_testkit::mount!(mysql_only on mysql:
        a_unique_index_beside_the_primary_key_can_be_named,
        statements_look_each_key_up_in_a_small_table_too,
    );
}
