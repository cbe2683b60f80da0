//! What operators see, and how they take a lock away.

mod doubles;
mod force;
mod suite;
#[cfg(all(feature = "redis", feature = "sqlite"))]
mod unanswered;

/// Mounts the scenarios on the stores that operators can look at. `unordered` as in [`crate::rig::mount`].
macro_rules! mount {
    ($suite:ident : $($case:ident),+ $(,)? $(; unordered : $($unordered:ident),+ $(,)?)?) => {
        #[cfg(feature = "sqlite")]
        mod sqlite {
            crate::rig::mount!(@ $suite, crate::rig::Sql<sqlx::Sqlite>, $($case),+ $(, $($unordered),+)?);
        }
        #[cfg(feature = "postgres")]
        mod postgres {
            crate::rig::mount!(@ $suite, crate::rig::Sql<sqlx::Postgres>, $($case),+ $(, $($unordered),+)?);
        }
        #[cfg(feature = "mysql")]
        mod mysql {
            crate::rig::mount!(@ $suite, crate::rig::Sql<sqlx::MySql>, $($case),+ $(, $($unordered),+)?);
        }
        // Its audit is in SQLite.
        #[cfg(all(feature = "redis", feature = "sqlite"))]
        mod redis {
            crate::rig::mount!(@ $suite, crate::rig::Redis, $($case),+ $(, $($unordered),+)?);
        }
        #[cfg(all(feature = "etcd", feature = "sqlite"))]
        mod etcd {
            crate::rig::mount!(@ $suite, crate::rig::Etcd, $($case),+);
        }
        #[cfg(all(feature = "zookeeper", feature = "sqlite"))]
        mod zookeeper {
            crate::rig::mount!(@ $suite, crate::rig::ZooKeeper, $($case),+);
        }
    };
}
pub(crate) use force::Admin;
#[cfg(all(any(feature = "etcd", feature = "zookeeper"), feature = "sqlite"))]
pub(crate) use force::approval;
pub(crate) use mount;

mount!(suite:
    what_stands_is_shown_in_every_state,
    held_locks_are_listed_in_order_and_page_by_page,
    looking_changes_nothing,
    l17_holder_whose_lock_was_taken_away_finds_lost_and_is_refused,
    l17_resource_refuses_a_holder_that_has_not_heard_of_it,
    l17_only_the_expected_holder_loses_its_lock,
    l17_approval_that_is_over_is_refused,
    l17_nothing_is_released_that_cannot_be_audited,
    l17_waiter_gets_a_lock_that_was_taken_away,
    the_audit_is_read_page_by_page;
    unordered: l17_lock_that_was_only_deleted_lets_the_late_holder_write,
);
