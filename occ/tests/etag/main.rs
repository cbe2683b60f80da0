//! O12: the entity tag given with a read and the one checked by a write both come from the version column.
#![cfg(feature = "http")]

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;

leastlock_testkit::mount!(suite:
    o12_a_write_with_the_tag_of_an_older_read_is_refused,
    o12_a_conflict_found_by_the_write_itself_is_refused_alike,
);
