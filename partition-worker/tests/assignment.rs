//! The rebalance machine in a small world of one worker, its lanes and trackers, a log, and Kafka, which gives, takes back and
//! loses partitions as it likes; against machines that make the classic mistakes.

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::doubles::{
    AssignsEarly, CommitsLost, Double, DrainsAfterwards, FlushesKept, ForgetsGhosts, HearsStaleSeals, StallsOnLostSeal,
};
use crate::machine::{Machine, Protocol, ops};
use crate::world::World;
use leastlock_partition_worker::assignment::Assignment;

#[path = "assignment/doubles.rs"]
mod doubles;
#[path = "assignment/machine.rs"]
mod machine;
#[path = "assignment/world.rs"]
mod world;

/// Looks for a history of this protocol that breaks a promise, in so many at the most.
fn search<M: Machine>(protocol: Protocol, cases: u32) -> Result<(), String> {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 100, ..Config::default() };
    let found = TestRunner::new(config).run(&ops(), |ops| World::<M>::run(protocol, &ops).map_err(TestCaseError::fail));
    found.map_err(|error| error.to_string())
}

fn holds(protocol: Protocol) {
    if let Err(broken) = search::<Assignment<i64>>(protocol, 1_500) {
        panic!("{protocol:?}: {broken}");
    }
}

/// The double breaks the promise that it is there to break, under one of the protocols at least.
fn is_rejected<D: Double>() {
    let found = [Protocol::Eager, Protocol::Cooperative].map(|protocol| search::<D>(protocol, 20_000).err());
    let shown = found.iter().flatten().any(|broken| broken.contains(D::BREAKS));
    assert!(shown, "no history shows that {}, but {found:?}", D::BREAKS);
}

#[test]
fn an_eager_group_keeps_every_promise() {
    holds(Protocol::Eager);
}

#[test]
fn a_cooperative_group_keeps_every_promise() {
    holds(Protocol::Cooperative);
}

#[test]
fn p1_double_that_forgets_what_still_runs_starts_a_key_twice() {
    is_rejected::<ForgetsGhosts>();
}

#[test]
fn p2_double_that_waits_for_a_lost_seal_stalls() {
    is_rejected::<StallsOnLostSeal>();
}

#[test]
fn p3_double_that_gives_back_before_it_drains_leaves_finished_work_uncommitted() {
    is_rejected::<DrainsAfterwards>();
}

#[test]
fn p4_double_that_commits_what_is_lost_is_caught() {
    is_rejected::<CommitsLost>();
}

#[test]
fn p7_double_that_hears_a_seal_of_an_earlier_assignment_starts_too_early() {
    is_rejected::<HearsStaleSeals>();
}

#[test]
fn p9_double_that_flushes_kept_partitions_is_caught() {
    is_rejected::<FlushesKept>();
}

#[test]
fn double_that_assigns_after_the_first_seal_is_caught() {
    is_rejected::<AssignsEarly>();
}
