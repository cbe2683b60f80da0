//! Seal and check.

mod doubles;
mod history;
#[cfg(feature = "mysql")]
mod idle_bound;
mod suite;

crate::rig::mount!(suite:
    l2_late_write_is_refused_by_the_fenced_row_only,
    l2_protected_transaction_is_refused_to_a_late_holder,
    l3_late_write_is_refused_once_the_new_holder_has_sealed,
    l3_open_checked_transaction_ends_before_the_seal,
    l23_one_permit_serves_many_transactions_and_an_operation_id_makes_one_of_them_count,
    older_generation_cannot_seal,
    limits_that_no_server_takes_are_as_good_as_none,
    refused_transaction_cannot_commit,
    check_inside_of_a_savepoint_is_refused,
    permit_past_its_deadline_is_refused_before_the_database_is_asked,
    generations_never_go_back_in_the_history_of_a_resource;
    unordered: l20_equal_token_of_another_owner_is_refused;
    postgres: l3_check_without_the_share_lock_lets_a_zombie_through,
    l3_check_inside_of_a_savepoint_would_let_a_zombie_through, a_check_never_loosens_a_stricter_idle_timeout,
    stricter_isolation_fails_instead_of_passing_an_old_snapshot,
);
