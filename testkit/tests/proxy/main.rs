//! The proxy's faults are what a client and a server meet in a real network, at the moment that the test chose.

mod bytes;
mod mysql;
mod postgres;
mod suite;

/// By hand instead of `mount!`: the testkit has every engine, and no feature for one.
macro_rules! behind_the_proxy {
    ($($case:ident),+ $(,)?) => {
        mod of_postgres {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    crate::suite::$case::<leastlock_testkit::database::Postgres>().await;
                }
            )+
        }

        mod of_mysql {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $case() {
                    crate::suite::$case::<leastlock_testkit::database::MySql>().await;
                }
            )+
        }
    };
}

behind_the_proxy!(
    without_a_fault_everything_is_carried,
    commit_whose_reply_is_lost_took_effect_and_the_client_cannot_know,
    commit_whose_request_is_lost_looks_the_same_and_took_no_effect,
    commit_that_hangs_took_effect_while_the_client_still_waits,
    other_statements_are_left_alone_and_once_strikes_once,
    cut_ends_present_connections_and_refuses_new_ones_until_healed,
);
