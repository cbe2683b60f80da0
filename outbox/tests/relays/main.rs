//! B4, B18: relays in processes of their own that are killed or stopped, to a broker: librdkafka's mock cluster with SQLite, the real
//! broker with PostgreSQL and MariaDB.
#![cfg(all(feature = "kafka", any(feature = "sqlite", feature = "postgres", feature = "mysql")))]

mod late;
mod suite;

/// The tests of one engine, and the part of its children.
macro_rules! on {
    ($engine:ident, $feature:literal, $database:ident, $broker:ident) => {
        #[cfg(feature = $feature)]
        mod $engine {
            use leastlock_testkit::broker::Broker;
            use leastlock_testkit::database::$database;
            use leastlock_testkit::{TestDatabase, process::child_role};

            use crate::suite;

            const ROLE: &str = concat!(stringify!($engine), "::relay");

            #[test]
            fn relay() {
                if child_role(ROLE) {
                    suite::relay::<$database>();
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn b18_killed_relay_is_followed_within_its_lease_and_a_second() {
                let database = TestDatabase::<$database>::create().await;
                suite::killed_relay_is_followed_in_time(database, Broker::$broker(), ROLE).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn b4_stopped_relay_that_comes_back_turns_nothing_round() {
                let database = TestDatabase::<$database>::create().await;
                suite::stopped_relay_turns_nothing_round(database, Broker::$broker(), ROLE).await;
            }
        }
    };
}

on!(sqlite, "sqlite", Sqlite, mock);
on!(postgres, "postgres", Postgres, real);
on!(mysql, "mysql", MySql, real);
