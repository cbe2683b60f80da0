//! What is told of the mistakes in a schema: the text says which column or which tables, and what to do.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;

leastlock_testkit::mount!(suite: an_order_id_without_its_table_is_told_of_the_migrations);

#[cfg(feature = "postgres")]
mod one {
    use super::suite;

    leastlock_testkit::mount!(suite on postgres: a_version_that_is_no_bigint_is_told_with_its_column);
}
