//! What is remembered of records at which a process may have died, without Kafka.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

#[path = "poison/suite.rs"]
mod suite;

leastlock_testkit::mount!(suite:
    an_orderly_end_leaves_no_suspect,
    a_record_that_runs_at_each_death_is_counted_from_the_second_on,
    a_record_whose_handler_ended_is_not_counted,
    a_finished_record_is_no_suspect_any_more,
    beginning_again_after_a_lost_reply_counts_nothing_twice,
    double_counting_at_every_begin_counts_one_death_twice,
    an_owner_that_was_taken_over_starts_no_suspect,
    suspects_that_were_not_handled_are_left_to_the_next_owner,
    a_record_that_runs_beside_a_killer_is_counted_once_at_most,
    double_suspects_that_run_beside_each_other_are_all_condemned,
);
