//! Many versioned rows at once, on every engine, with the mistakes that the same tests reject.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod deadlock;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod items;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod made;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod raised;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;

leastlock_testkit::mount!(suite:
    a_bulk_update_answers_row_by_row,
    rows_are_loaded_at_the_place_of_their_key,
    more_rows_than_one_statement_updates_are_all_written,
    what_is_unclear_is_refused_before_any_sql,
    keys_of_several_columns_are_updated_in_bulk,
    opposite_orders_never_deadlock,
    o10_a_bulk_update_raises_the_versions,
    o10_a_trigger_raises_the_version_for_raw_sql,
    what_the_database_makes_is_read_back,
    a_row_may_be_read_by_sqlx_as_well,
);

/// MySQL has no trigger that drops a write silently.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod standard {
    use super::suite;

    leastlock_testkit::mount!(suite on sqlite: a_row_that_was_not_written_keeps_all_from_being_committed);
    leastlock_testkit::mount!(suite on postgres: a_row_that_was_not_written_keeps_all_from_being_committed);
}

#[cfg(feature = "mysql")]
mod only {
    use super::suite;

    leastlock_testkit::mount!(suite on mysql: a_key_that_only_the_collation_takes_for_equal_is_an_error);
}
