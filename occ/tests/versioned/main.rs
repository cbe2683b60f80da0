//! Versioned rows: O1 to O6 and O17 on every engine, for the derived form and for hand-written SQL, with the mistakes that
//! the same tests reject.

#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod accounts;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod conflicts;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod suite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod waiting;

leastlock_testkit::mount!(suite:
    o1_delete_with_a_stale_version_deletes_nothing,
    o2_a_value_that_met_a_conflict_meets_it_again,
    o3_a_value_outlives_the_rollback_of_its_update,
    o4_a_null_version_is_an_error_and_nothing_is_written,
    o5_zero_is_an_ordinary_version,
    o6_a_missing_row_is_told_from_a_changed_one,
    o11_a_key_that_is_not_unique_cannot_be_committed,
    o17_a_conflict_after_a_wait_names_the_version_now_in_the_table,
    insert_starts_at_version_one_and_answers_a_new_value,
    one_of_many_writers_of_a_version_is_applied,
    a_snapshot_that_is_too_old_is_a_retryable_error,
    a_change_of_the_key_is_refused_before_any_sql,
    the_last_version_has_no_successor,
    a_suppressed_write_is_not_taken_for_a_conflict,
    a_condition_of_the_callers_own_is_told_from_a_conflict,
    keys_of_several_columns_schemas_and_reserved_words,
);
