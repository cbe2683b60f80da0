//! The suites that need a broker, for each engine.

#[cfg(feature = "sqlite")]
mod sqlite {
    use leastlock_testkit::broker::Broker;
    use leastlock_testkit::{TestDatabase, database::Sqlite};

    use crate::{outages, placement, suite};

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn events_reach_their_topic_in_order_per_key() {
        suite::events_reach_their_topic_in_order_per_key(TestDatabase::<Sqlite>::create().await, Broker::mock()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn keys_land_where_java_producers_put_them() {
        let database = TestDatabase::<Sqlite>::create().await;
        placement::keys_land_where_java_producers_put_them(database, Broker::mock()).await;
    }

    /// On the real broker: the mock cluster's connections cannot be led through a proxy.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn b8_b19_outage_loses_parks_and_inverts_nothing() {
        let database = TestDatabase::<Sqlite>::create().await;
        outages::b8_b19_outage_loses_parks_and_inverts_nothing(database, Broker::real()).await;
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
macro_rules! on_the_real_broker {
    ($engine:ident: $($suite:ident::$case:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $case() {
                let database = leastlock_testkit::TestDatabase::<leastlock_testkit::database::$engine>::create().await;
                crate::$suite::$case(database, leastlock_testkit::broker::Broker::real()).await;
            }
        )+
    };
}

/// What every server has to show.
#[cfg(any(feature = "postgres", feature = "mysql"))]
macro_rules! all_on_the_real_broker {
    ($engine:ident) => {
        on_the_real_broker!(
            $engine:
            suite::events_reach_their_topic_in_order_per_key,
            placement::keys_land_where_java_producers_put_them,
            refusals::b7_what_a_topic_cannot_take_is_found_before_anything_is_sent,
            refusals::b7_event_refused_among_others_is_told_from_the_innocent,
            refusals::b7_event_without_a_key_stops_no_other_event,
            refusals::b7_events_of_many_shards_that_fit_alone_are_sent_alone,
            outages::b8_b19_outage_loses_parks_and_inverts_nothing,
            parking::b7_what_the_broker_refuses_is_parked_and_leaves_in_order_once_mended,
        );
    };
}

#[cfg(feature = "postgres")]
mod postgres {
    all_on_the_real_broker!(Postgres);
    on_the_real_broker!(
        Postgres:
        outages::b8_b19_outage_loses_parks_and_inverts_nothing_in_transactions,
        parking::b7_parked_events_leave_in_transactions_as_well,
    );
}

#[cfg(feature = "mysql")]
mod mysql {
    all_on_the_real_broker!(MySql);
}
