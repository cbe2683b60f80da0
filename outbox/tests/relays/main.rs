//! B4, B18: relays in processes of their own that are killed or stopped, to a broker: librdkafka's mock cluster with SQLite, the real
//! broker with PostgreSQL and MariaDB.
#![cfg(all(feature = "kafka", any(feature = "sqlite", feature = "postgres", feature = "mysql")))]

mod late;
mod suite;

/// The tests of one engine, and the part of its children.
macro_rules! on {
    ($engine:ident, $feature:literal, $database:ident, $broker:ident, $sink:ident, $role:literal) => {
        #[cfg(feature = $feature)]
        mod $engine {
            use leastlock_testkit::broker::Broker;
            use leastlock_testkit::database::$database;
            use leastlock_testkit::{TestDatabase, process::child_role};

            use crate::suite::{self, SinkKind};

            const ROLE: &str = $role;

            #[test]
            fn relay() {
                if child_role(ROLE) {
                    suite::relay::<$database>();
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn b18_killed_relay_is_followed_within_its_lease_and_a_second() {
                let database = TestDatabase::<$database>::create().await;
                suite::killed_relay_is_followed_in_time(database, Broker::$broker(), ROLE, SinkKind::$sink).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn b4_stopped_relay_that_comes_back_turns_nothing_round() {
                let database = TestDatabase::<$database>::create().await;
                suite::stopped_relay_turns_nothing_round(database, Broker::$broker(), ROLE, SinkKind::$sink).await;
            }
        }
    };
}

on!(sqlite, "sqlite", Sqlite, mock, Idempotent, "sqlite::relay");
on!(postgres, "postgres", Postgres, real, Idempotent, "postgres::relay");
on!(mysql, "mysql", MySql, real, Idempotent, "mysql::relay");

/// On one engine, which makes no difference to them; the mock cluster's are hollow.
mod transactions {
    on!(postgres, "postgres", Postgres, real, Transactional, "transactions::postgres::relay");
}
