//! What the dialect promises of MySQL and MariaDB, on a real server, with the mistakes that the same tests reject.

#[cfg(feature = "mysql")]
mod suite;

#[cfg(feature = "mysql")]
mod on {
    use super::suite;

    leastlock_testkit::mount!(suite on mysql:
        own_transactions_read_committed_whatever_the_default,
        a_begin_that_was_dropped_does_not_spoil_the_connection,
        a_poisoned_transaction_writes_nothing_more,
        what_follows_a_deadlock_is_not_committed_by_itself,
        a_commit_of_what_has_ended_is_no_success,
        what_follows_a_changed_snapshot_is_not_committed_by_itself,
        errors_of_the_server_have_their_class,
        text_is_read_from_columns_of_bytes,
        migrations_are_applied_once_and_validated,
        a_crate_without_tables_for_the_engine_says_so,
    );
}
