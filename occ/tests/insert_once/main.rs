//! `insert_once` on every engine, with the mistakes that the same tests reject.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;

leastlock_testkit::mount!(suite:
    one_of_many_concurrent_inserts_of_a_key_is_the_first,
    an_error_that_is_no_duplicate_is_never_swallowed,
    a_duplicate_leaves_the_transaction_usable_or_says_that_it_does_not,
    more_than_one_row_is_out_of_bounds,
);

#[cfg(feature = "mysql")]
mod ignore {
    use super::suite;

    leastlock_testkit::mount!(suite on mysql: insert_ignore_is_refused_where_it_hides_something);
}
