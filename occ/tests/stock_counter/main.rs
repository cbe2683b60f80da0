//! Stock counters: O15 and O18, order ids, and what is written beside, with the mistakes that the same tests reject.

#[cfg(feature = "postgres")]
mod crowd;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod suite;

leastlock_testkit::mount!(suite on sqlite and postgres:
    o15_two_hundred_clients_take_exactly_the_stock,
    o15_repeats_of_an_order_take_its_units_once,
    o13_one_impossible_movement_fails_alone,
    a_repeat_is_answered_as_the_first_was,
    another_movement_under_the_same_order_id_is_a_mismatch,
    a_movement_of_several_rows_is_all_or_nothing,
    the_floor_holds_for_what_is_taken_only,
    what_stands_beside_commits_with_its_movement_and_only_then,
    own_table_and_keys_that_differ_in_case,
    forgotten_order_ids_are_new_again,
);

#[cfg(feature = "postgres")]
mod many {
    use super::crowd;

    leastlock_testkit::mount!(crowd on postgres:
        o18_two_combiners_in_opposite_orders_do_not_deadlock,
        o18_two_combiners_with_the_same_order_ids_answer_alike,
        o18_a_deadlock_with_a_plain_transaction_is_retried,
        o19_a_lost_reply_is_resolved_by_the_order_id,
        o19_a_batch_in_a_transaction_of_its_own_is_looked_up,
        a_row_whose_change_is_suppressed_keeps_the_whole_movement_back,
        a_locked_row_sends_a_movement_that_came_alone_the_long_way,
    );
}
