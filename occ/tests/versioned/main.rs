//! Versioned rows: O1 to O6 and O17 on every engine, for the derived form and for hand-written SQL, with the mistakes that
//! the same tests reject.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod accounts;
#[cfg(feature = "mysql")]
mod changed_rows;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod conflicts;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod locking;
#[cfg(feature = "mysql")]
mod mysql_only;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
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
    a_condition_of_the_callers_own_is_told_from_a_conflict,
    keys_of_several_columns_and_reserved_words,
);

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod locked {
    use super::locking;

    leastlock_testkit::mount!(locking:
        a_locked_row_stays_as_it_was_read,
        a_locked_row_is_updated_without_a_conflict_and_one_that_is_not_there_is_none,
    );
}

/// What MySQL does not have: a trigger that drops a write silently, and a schema inside a database.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod standard {
    use super::suite;

    leastlock_testkit::mount!(suite on sqlite: a_suppressed_write_is_not_taken_for_a_conflict, a_table_may_stand_in_a_schema);
    leastlock_testkit::mount!(suite on postgres: a_suppressed_write_is_not_taken_for_a_conflict, a_table_may_stand_in_a_schema);
}

#[cfg(feature = "mysql")]
mod only {
    use super::mysql_only;

    leastlock_testkit::mount!(mysql_only on mysql:
        o7_setting_a_column_to_the_value_it_has_is_applied,
        o16_keys_that_differ_in_case_only_are_two_rows,
        an_old_snapshot_does_not_hide_the_conflict,
    );
}
