//! The phased mode: one suite, mounted on each engine, with the mistakes that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres"))]

mod claims {
    mod suite;

    leastlock_testkit::mount!(suite on sqlite and postgres: claim_ends_by_complete_release_or_hold);
}
