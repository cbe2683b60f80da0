//! Rebalances, stalls and shutdowns of a worker without a database, under every protocol of the group, on the mock cluster and
//! on the real broker. (The mock cluster takes no commit while its group rebalances, as a broker does; what looks at the last commit
//! is shown on the real broker alone.)
#![cfg(feature = "kafka")]

use leastlock_testkit::broker::Broker;

use crate::group::Protocol;

#[path = "rebalance/closing.rs"]
mod closing;
#[path = "rebalance/doubles.rs"]
mod doubles;
#[path = "rebalance/group.rs"]
mod group;
#[path = "rebalance/held_answers.rs"]
mod held_answers;
#[path = "rebalance/kick.rs"]
mod kick;
#[path = "rebalance/members.rs"]
mod members;
#[path = "rebalance/moves.rs"]
mod moves;
#[allow(dead_code, reason = "these tests need a part of it")]
#[path = "at_least_once/rig.rs"]
mod rig;
#[path = "rebalance/stalls.rs"]
mod stalls;

/// Mounts cases on a broker, each under several protocols at the same time, since they mostly wait.
macro_rules! on {
    ($broker:ident, $protocols:tt: $($file:ident::$case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 8)]
            async fn $case() {
                let runtime = tokio::runtime::Handle::current();
                // On threads of their own, since the futures of the cases cannot be moved to another.
                let run = |protocol| {
                    let runtime = runtime.clone();
                    tokio::task::spawn_blocking(move || {
                        runtime.block_on(crate::$file::$case(crate::Broker::$broker(), protocol));
                    })
                };
                let runs = crate::on!(@ $protocols).map(|protocol| (protocol, run(protocol)));
                for (protocol, run) in runs {
                    assert!(run.await.is_ok(), "it failed under {protocol:?}");
                }
            }
        )+
    };
    (@ [$($protocol:ident),+]) => { [$(crate::Protocol::$protocol),+] };
}
use on;

mod mock {
    crate::on!(mock, [Eager, Cooperative]:
        moves::p1_p4_what_is_lost_is_not_committed_and_its_key_waits_for_the_old_handler,
        moves::p2_a_rebalance_with_commits_in_flight_stalls_nothing,
        moves::p8_a_pause_is_not_in_force_after_a_reassignment,
        stalls::p11_a_handler_that_blocks_its_runtime_holds_up_no_rebalance_and_is_reported,
        stalls::p11_a_stalled_worker_leaves_the_group_if_it_is_to,
        closing::p15_a_shutdown_reports_each_partition,
        closing::p18_a_worker_closes_at_once_with_nothing_to_do_and_while_joining,
        members::a_worker_that_fails_ends_its_handlers_before_the_next_owner_starts_any,
    );

    crate::on!(mock, [Eager]:
        moves::p14_a_commit_refused_for_a_rebalance_is_made_again,
        closing::p15_a_shutdown_waits_for_handlers_that_run,
        closing::p15_double_a_shutdown_that_waits_for_nothing_cuts_them_short,
        doubles::p18_double_a_consumer_that_puts_its_answer_off_while_closing_hangs,
        doubles::p8_double_a_consumer_that_does_not_resume_stays_paused,
        doubles::p11_double_a_consumer_that_handles_where_it_polls_is_thrown_out,
        doubles::p14_double_a_consumer_that_ends_with_a_failed_commit_ends,
    );
}

mod held {
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn polling_goes_on_while_no_commit_is_answered() {
        crate::held_answers::polling_goes_on_while_no_commit_is_answered().await;
    }
}

mod kafka {
    crate::on!(real, [Eager, Cooperative, Consumer]:
        moves::p1_p4_what_is_lost_is_not_committed_and_its_key_waits_for_the_old_handler,
        moves::p2_p14_a_rebalance_with_commits_in_flight_stalls_nothing,
        moves::p3_what_is_finished_in_the_drain_is_committed,
        moves::p8_a_pause_is_not_in_force_after_a_reassignment,
        stalls::p11_a_handler_that_blocks_its_runtime_holds_up_no_rebalance_and_is_reported,
        stalls::p11_a_stalled_worker_leaves_the_group_if_it_is_to,
        closing::p15_a_shutdown_reports_each_partition,
        closing::p18_a_worker_closes_at_once_with_nothing_to_do_and_while_joining,
        members::a_static_member_that_comes_back_in_time_causes_no_rebalance,
    );

    crate::on!(real, [Cooperative, Consumer]:
        moves::p9_an_incremental_revocation_leaves_kept_partitions_alone,
    );

    crate::on!(real, [Eager, Cooperative]:
        members::a_second_worker_of_one_static_member_stops_the_first,
    );
}
