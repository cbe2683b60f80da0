//! The test kit: it passes handlers that are right, and catches those that make a classic mistake.
#![cfg(all(feature = "testing", any(feature = "sqlite", feature = "postgres", feature = "mysql")))]

#[path = "test_kit/doubles.rs"]
mod doubles;
#[path = "test_kit/suite.rs"]
mod suite;

leastlock_testkit::mount!(suite:
    records_are_handled_once_in_the_order_of_their_keys,
    a_second_run_goes_on_where_the_first_has_ended,
    a_failing_record_goes_to_the_dead_letter_topic,
    a_failing_key_is_parked_with_what_follows,
    a_handler_that_writes_through_its_transaction_survives_torture,
    a_batch_handler_that_writes_through_its_transaction_survives_torture,
    double_an_effect_outside_of_the_transaction_is_caught,
    double_what_is_kept_in_memory_alone_is_caught,
);

mod without_a_database {
    use crate::suite;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_idempotent_process_survives_torture() {
        suite::an_idempotent_process_survives_torture().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_record_has_the_place_that_it_names() {
        suite::a_record_has_the_place_that_it_names().await;
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers {
    mod suite {
        pub(crate) use crate::suite::double_an_effect_on_another_connection_is_caught;
    }

    leastlock_testkit::mount!(suite on postgres and mysql: double_an_effect_on_another_connection_is_caught);
}
