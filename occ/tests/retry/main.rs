//! `Retry`: O8 and O9 on every engine, its limits, and the mistakes that the same tests reject.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod conflicts;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod spawned;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod states;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod units;

leastlock_testkit::mount!(suite:
    o8_a_conflict_inside_surfaces_to_the_outermost_retry,
    o8_a_retry_inside_a_unit_of_work_is_refused,
    o9_a_version_conflict_is_run_again,
    o9_a_serialization_failure_is_run_again,
    the_last_conflict_is_answered_when_the_attempts_are_used_up,
    no_attempt_is_started_after_the_time_limit,
    what_is_no_conflict_is_not_run_again,
    an_attempt_without_a_commit_is_rolled_back,
    a_broken_bound_that_is_ignored_is_no_commit,
);

mod state {
    #[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
    use super::states;

    leastlock_testkit::mount!(states:
        a_state_that_no_rerun_changes_is_not_run_again,
        a_unit_that_reads_the_state_first_may_run_again,
    );
}

mod spawn {
    #[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
    use super::spawned;

    leastlock_testkit::mount!(spawned: units_with_captures_run_in_spawned_tasks_and_handlers);
}

/// What one engine has and another has not.
mod one {
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    use super::servers;

    leastlock_testkit::mount!(servers on postgres: o9_a_deadlock_is_run_again, an_ignored_error_that_ended_the_transaction_is_no_commit);
    leastlock_testkit::mount!(servers on mysql: o9_a_deadlock_is_run_again, an_ignored_error_that_ended_the_transaction_is_no_commit);
}

#[cfg(feature = "sqlite")]
mod busy;
#[cfg(feature = "postgres")]
mod lost;

#[cfg(feature = "postgres")]
mod reply {
    use super::lost;

    leastlock_testkit::mount!(lost on postgres: a_commit_whose_reply_was_lost_is_not_run_again);
}

#[cfg(feature = "sqlite")]
mod lock {
    use super::busy;

    leastlock_testkit::mount!(busy on sqlite: o9_the_busy_write_lock_is_waited_for_in_attempts, a_begin_that_meets_the_write_lock_is_an_attempt);
}
