//! Work once a period, in one process and in several.

mod crash;
mod doubles;
mod suite;

/// Mounts the scenarios on each engine, and those that one has alone.
macro_rules! mount {
    ($case:tt; postgres: $($only:ident),+ $(,)?) => {
        mount!(@ sqlite, "sqlite", sqlx::Sqlite, $case);
        mount!(@ postgres, "postgres", sqlx::Postgres, $case $(, $only)+);
        mount!(@ mysql, "mysql", sqlx::MySql, $case);
    };
    (@ $engine:ident, $name:literal, $db:ty, { $($case:ident),+ $(,)? } $(, $only:ident)*) => {
        #[cfg(feature = $name)]
        mod $engine {
            mount!(@ $db, $($case,)+ $($only,)*);
        }
    };
    (@ $db:ty, $($case:ident,)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                super::suite::$case(crate::rig::protected::<$db>().await).await;
            }
        )+
    };
}

mount!({
    l18_period_started_twice_runs_once,
    l18_late_run_of_a_period_that_is_done_commits_nothing,
    l18_of_two_runs_inside_their_transactions_one_commits,
    l18_run_whose_commit_was_not_answered_is_not_repeated,
    failed_work_leaves_the_period_to_be_run_again,
    dropped_run_leaves_the_period_to_be_run_again,
    work_that_took_its_mark_away_does_not_commit,
    what_another_period_has_completed_proves_nothing_of_this_one,
    a_period_that_is_being_run_is_said_to_be,
    other_periods_and_other_jobs_are_run,
    a_forgotten_period_can_be_run_again,
}; postgres: a_mark_never_loosens_a_stricter_idle_timeout);
