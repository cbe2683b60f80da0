//! Apart from the other suites, since it keeps the machine and the server as busy as it can: tests with short leases would suffer.
#![cfg(feature = "mysql")]

mod suite;

leastlock_testkit::mount!(suite on mysql: torn_snapshot_turns_no_key_round);
