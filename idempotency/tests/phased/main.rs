//! The phased mode: one suite, mounted on each engine, with the mistakes that it must catch.
#![cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]

mod audited;
mod bank;
mod cancelled;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod cost;
mod doubles;
mod ended;
mod ends;
mod expired;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod idle_bound;
#[cfg(feature = "failpoints")]
mod killed;
#[cfg(feature = "postgres")]
mod lost;
#[cfg(feature = "failpoints")]
mod overdue;
mod payer;
mod resolved;
mod sealed;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod silent;
mod steps;
mod suite;
mod unknown;

leastlock_testkit::mount!(
    suite: i1_second_of_two_at_once_is_told_that_the_first_is_in_flight,
    i1_of_many_claimants_at_once_one_runs_also_for_a_dead_owners_key,
    i2_late_owner_changes_nothing_and_is_told,
    i3_handler_that_changes_its_input_keeps_key_and_fingerprint,
    i4_failing_duplicate_leaves_the_owners_record,
    i5_other_payload_is_a_mismatch_on_every_path,
    i6_completed_record_keeps_its_fingerprint,
    i10_dead_owners_key_goes_on_at_its_recovery_point_after_the_lease,
    i12_same_key_in_another_scope_is_another_record,
    i15_expired_record_is_a_new_first_before_any_sweep,
    i16_claim_outlives_a_handler_that_failed_after_the_call,
    i17_provider_key_is_the_same_over_retries_and_restarts,
);

mod step {
    use crate::steps;

    leastlock_testkit::mount!(
        steps: i2_late_owner_can_neither_step_nor_renew_nor_end,
        step_that_is_done_gives_its_result_and_is_not_run_again,
        compensations_run_in_reverse_and_go_on_after_a_crash,
        write_that_arrives_after_a_later_one_is_refused,
    );
}

mod transaction {
    #[cfg(any(feature = "sqlite", feature = "mysql"))]
    use crate::ended;

    leastlock_testkit::mount!(ended on sqlite: step_whose_transaction_has_ended_is_not_recorded_as_done);
    leastlock_testkit::mount!(ended on mysql: step_whose_transaction_has_ended_is_not_recorded_as_done);
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod standing_still {
    use crate::idle_bound;

    leastlock_testkit::mount!(idle_bound on postgres: step_is_bounded_before_its_first_effect);
    leastlock_testkit::mount!(idle_bound on mysql: step_is_bounded_before_its_first_effect);
}

#[cfg(feature = "sqlite")]
mod claim {
    use crate::steps;

    leastlock_testkit::mount!(steps on sqlite: claim_that_lost_a_take_over_to_a_release_is_a_fresh_one);
}

mod end {
    use crate::ends;

    leastlock_testkit::mount!(
        ends: i10_lease_is_renewed_as_long_as_the_run_exists_and_no_longer,
        end_that_would_forget_an_effect_is_refused,
        sweep_leaves_what_is_not_finished,
        failure_keeps_its_reason_and_the_wait_its_bound,
        run_is_at_home_in_a_spawned_task,
        modes_meet_in_one_record_and_neither_runs_the_others_request,
        http_response_is_replayed_byte_for_byte,
    );
}

mod expiry {
    use crate::expired;

    leastlock_testkit::mount!(
        expired: request_that_expires_with_a_call_unknown_is_held_and_not_said_to_have_not_started,
        owner_that_died_on_its_way_back_is_followed_by_one_that_goes_on,
        request_that_has_expired_starts_no_step_and_still_goes_back,
    );
}

mod cancel {
    use crate::cancelled;

    leastlock_testkit::mount!(
        cancelled: dropped_at_any_point_the_key_ends_with_one_effect,
        run_whose_write_was_dropped_half_way_does_not_go_on,
    );
}

mod seal {
    use crate::sealed;

    leastlock_testkit::mount!(sealed: key_whose_steps_cannot_be_read_hides_no_other, settings_that_make_no_sense_are_refused_by_name, sealed_steps_and_answers_are_read_by_their_cipher_only);
}

mod unknowns {
    use crate::unknown;

    leastlock_testkit::mount!(
        unknown: i16_silent_provider_is_called_within_the_limit_and_then_held,
        i16_call_that_never_left_says_nothing_of_an_earlier_one,
        attempts_without_an_effect_are_bounded_too_and_an_operator_begins_the_count_anew,
        compensation_that_is_refused_is_held_and_finished_by_an_operator,
        policy_decides_what_is_done_about_the_unknown,
        call_that_was_never_sent_is_free_to_be_made,
    );
}

mod audit {
    use crate::audited;

    leastlock_testkit::mount!(audited: audit_is_swept_by_age_in_batches_the_oldest_first);
}

mod resolve {
    use crate::resolved;

    leastlock_testkit::mount!(
        resolved: i2_owner_before_a_resolution_is_superseded,
        i2_resolution_of_one_step_does_not_settle_the_next_one_of_a_woken_owner,
        resolution_is_in_force_with_its_audit_or_not_at_all,
        reconciler_settles_what_the_provider_knows,
        reconcilers_share_the_asks_and_pause_between_them,
    );
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod statements {
    use crate::cost;

    leastlock_testkit::mount!(cost on postgres and mysql: claim_step_and_end_cost_a_statement_each);
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod silence {
    use crate::silent;

    leastlock_testkit::mount!(
        silent on postgres and mysql: silent_connection_holds_no_run_beyond_the_limit_and_keeps_no_place,
        silent_connection_holds_nobody_who_resolves_and_keeps_no_place,
    );
}

#[cfg(feature = "postgres")]
mod replies {
    use crate::lost;

    leastlock_testkit::mount!(
        lost on postgres: claim_whose_reply_was_lost_is_found_to_be_ones_own,
        step_whose_commit_was_not_answered_is_settled_by_the_record,
        write_whose_reply_was_lost_is_repeated_and_recognised,
        claimant_that_waited_sees_the_step_that_was_committed_meanwhile
    );
}

/// By hand instead of `mount!`: each engine has a child's part of its own.
#[cfg(feature = "failpoints")]
mod kill {
    macro_rules! kill {
        ($feature:literal, $engine:ident, $database:ident $(, $only:ident)?) => {
            #[cfg(feature = $feature)]
            mod $engine {
                use leastlock_testkit::TestDatabase;
                use leastlock_testkit::database::$database;

                use crate::killed;

                const ROLE: &str = concat!("kill::", $feature, "::child");

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn child() {
                    killed::act::<$database>(ROLE).await;
                }

                kill!(case: $database: i18_killed_at_any_point_the_key_ends_with_one_effect);
                kill!(case: $database: i18_bank_that_charges_every_call_is_never_called_twice_by_itself);
                kill!(case: $database: i18_killed_in_its_end_the_key_is_where_it_was_or_at_that_end);
                kill!(overdue: $database: i18_killed_at_any_point_the_key_goes_on_within_its_lease_and_a_second);
                kill!(case: $database: i2_stopped_owner_comes_back_after_its_lease_and_is_superseded);
                $(kill!(case: $database: $only);)?
            }
        };
        (case: $database:ident: $case:ident) => {
            kill!(in killed: $database: $case);
        };
        (overdue: $database:ident: $case:ident) => {
            kill!(in overdue: $database: $case);
        };
        (in $module:ident: $database:ident: $case:ident) => {
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                crate::$module::$case(TestDatabase::<$database>::create().await, ROLE).await;
            }
        };
    }

    kill!("sqlite", sqlite, Sqlite);
    kill!("postgres", postgres, Postgres, owner_stopped_before_a_commit_blocks_its_key_for_the_idle_bound);
    kill!("mysql", mysql, MySql, owner_stopped_before_a_commit_blocks_its_key_for_the_idle_bound);
}
