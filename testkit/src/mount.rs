//! One conformance suite, mounted once per engine.

/// Turns the generic async functions of a suite into tests, one module per engine:
/// `mount!(suite: o1_stale_delete, o2_…)` makes `sqlite::o1_stale_delete`, `postgres::o1_stale_delete` and
/// `mysql::o1_stale_delete`, each if the crate has a feature of that name and it is on.
///
/// The functions have the form `async fn o1_stale_delete<DB: TestEngine>(database: TestDatabase<DB>)`. An engine can be
/// named when cases exist there only: `mount!(suite: o1_…, o2_…; postgres: o3_…)`, the same with `; mysql: o4_…` behind it,
/// `mount!(suite on postgres: …)`, `mount!(suite on sqlite and postgres: …)` or `mount!(suite on postgres and mysql: …)`.
#[macro_export]
macro_rules! mount {
    ($suite:ident : $($case:ident),+ $(,)?) => {
        $crate::mount!($suite on sqlite: $($case),+);
        $crate::mount!($suite on postgres: $($case),+);
        $crate::mount!($suite on mysql: $($case),+);
    };
    ($suite:ident : $($case:ident),+ ; postgres : $($only:ident),+ $(,)?) => {
        $crate::mount!($suite on sqlite: $($case),+);
        $crate::mount!($suite on postgres: $($case,)+ $($only),+);
        $crate::mount!($suite on mysql: $($case),+);
    };
    ($suite:ident : $($case:ident),+ ; postgres : $($only:ident),+ ; mysql : $($mysql:ident),+ $(,)?) => {
        $crate::mount!($suite on sqlite: $($case),+);
        $crate::mount!($suite on postgres: $($case,)+ $($only),+);
        $crate::mount!($suite on mysql: $($case,)+ $($mysql),+);
    };
    ($suite:ident on sqlite and postgres : $($case:ident),+ $(,)?) => {
        $crate::mount!($suite on sqlite: $($case),+);
        $crate::mount!($suite on postgres: $($case),+);
    };
    ($suite:ident on postgres and mysql : $($case:ident),+ $(,)?) => {
        $crate::mount!($suite on postgres: $($case),+);
        $crate::mount!($suite on mysql: $($case),+);
    };
    ($suite:ident on sqlite : $($case:ident),+ $(,)?) => {
        #[cfg(feature = "sqlite")]
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    super::$suite::$case($crate::TestDatabase::<$crate::database::Sqlite>::create().await).await;
                }
            )+
        }
    };
    ($suite:ident on postgres : $($case:ident),+ $(,)?) => {
        #[cfg(feature = "postgres")]
        mod postgres {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    super::$suite::$case($crate::TestDatabase::<$crate::database::Postgres>::create().await).await;
                }
            )+
        }
    };
    ($suite:ident on mysql : $($case:ident),+ $(,)?) => {
        #[cfg(feature = "mysql")]
        mod mysql {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    super::$suite::$case($crate::TestDatabase::<$crate::database::MySql>::create().await).await;
                }
            )+
        }
    };
}
