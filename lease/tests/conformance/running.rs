//! Work under a lease.

mod doubles;
pub(crate) mod suite;

crate::rig::mount!(suite:
    the_work_of_the_guide_runs_in_a_spawned_task,
    l16_cancelled_work_stops_its_renewal_first,
    l22_lost_commit_reply_leaves_the_lease_to_expire,
    l22_inner_work_of_unknown_outcome_leaves_the_outer_lease_to_expire,
    l24_hang_up_ends_renewal_before_the_work,
    l24_task_that_outlives_the_cancel_deadline_is_reported,
    a_panic_of_the_work_leaves_the_lease_to_expire,
    lost_lease_drops_the_work_and_its_tasks,
    tasks_of_the_scope_end_before_the_release,
    failed_work_releases_and_says_what_failed;
    postgres: l22_session_ended_under_the_commit_leaves_the_lease_to_expire,
    l22_swallowed_commit_reply_leaves_the_lease_to_expire,
);
