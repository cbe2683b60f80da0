//! L25: the server's clock is stepped forward while a lease stands. On PostgreSQL and MariaDB B's connections see a clock that is an
//! hour ahead, in every statement of the store; the machine's own clock stays. SQLite asks the operating system, so there the step is
//! shown by what the store sees of it: the end of the lease is in its past.

use leastlock_lease::{CorrectnessLease, Error, Fence, LeaseSql, Leases, Permit, SqlLeaseStore};
use leastlock_testkit::TestEngine;
use sqlx::Pool;

use super::rows::Rowed;
use super::suite::superseded;
use super::{Guard, Resource};
use crate::rig::{Rig, Sql};
use crate::world::{A_WRITES, B_WRITES, VALUE, fixed, leases, lock, write};

macro_rules! mount {
    ($database:ty) => {
        mod stepped {
            use super::*;
            use crate::resources::stepped::no_stale_write_is_applied;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l25_no_stale_write_to_a_guarded_resource_after_a_step_of_the_clock() {
                no_stale_write_is_applied::<$database, crate::resources::stepped::Guarded<$database>>().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l25_no_stale_write_to_a_row_after_a_step_of_the_clock() {
                no_stale_write_is_applied::<$database, crate::resources::rows::Rows<$database>>().await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l25_no_stale_write_to_a_file_after_a_step_of_the_clock() {
                no_stale_write_is_applied::<$database, crate::resources::file::File>().await;
            }

            #[cfg(feature = "object-store")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l25_no_stale_write_to_an_object_after_a_step_of_the_clock() {
                no_stale_write_is_applied::<$database, crate::resources::object::Object>().await;
            }

            #[cfg(feature = "tower")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn l25_no_stale_request_after_a_step_of_the_clock() {
                no_stale_write_is_applied::<$database, crate::resources::web::Web<$database>>().await;
            }
        }
    };
}

pub(crate) use mount;

/// An engine whose clock can be made to be an hour ahead.
pub(crate) trait Stepped: Rowed {
    /// Another client of the database, to which the clock is stepped.
    async fn stepped(rig: &Sql<Self>) -> Pool<Self>;
}

#[cfg(feature = "postgres")]
impl Stepped for sqlx::Postgres {
    async fn stepped(rig: &Sql<Self>) -> Pool<Self> {
        for statement in [
            "CREATE SCHEMA stepped",
            "CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql \
             AS 'SELECT pg_catalog.clock_timestamp() + interval ''1 hour'''",
        ] {
            rig.database().execute(statement).await;
        }
        let options: sqlx::postgres::PgConnectOptions = rig.database().url.parse().unwrap();
        let options = options.options([("search_path", "stepped,pg_catalog,public")]);
        sqlx::postgres::PgPoolOptions::new().max_connections(4).connect_with(options).await.unwrap()
    }
}

#[cfg(feature = "mysql")]
impl Stepped for sqlx::MySql {
    async fn stepped(rig: &Sql<Self>) -> Pool<Self> {
        let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(4).after_connect(|connection, _| {
            Box::pin(async move {
                let step = sqlx::raw_sql("SET timestamp = UNIX_TIMESTAMP() + 3600");
                step.execute(connection).await.map(drop)
            })
        });
        pool.connect_with(rig.database().url.parse().unwrap()).await.unwrap()
    }
}

#[cfg(feature = "sqlite")]
impl Stepped for sqlx::Sqlite {
    async fn stepped(rig: &Sql<Self>) -> Pool<Self> {
        rig.expire().await;
        rig.database().pool.clone()
    }
}

fn permit(lease: &CorrectnessLease) -> Permit {
    lease.permit().expect("it believes that it holds")
}

pub(crate) async fn no_stale_write_is_applied<DB: Stepped, T: Resource<Sql<DB>>>() {
    let rig = Sql::<DB>::create().await;
    let stepped = DB::stepped(&rig).await;
    for (guard, last) in [(Guard::Right, 2), (Guard::Absent, 1)] {
        rig.forget().await;
        let resource = T::create(&rig).await;
        let first = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
        resource.seal(&permit(&first)).await.unwrap();
        if DB::ENGINE == leastlock_core::Engine::Sqlite {
            rig.expire().await;
        }
        let second = Leases::new(SqlLeaseStore::new(&stepped)).acquire(&lock(), fixed()).await.unwrap();
        assert!(first.remaining().is_ok() && second.remaining().is_ok(), "two hold, as far as they know");
        assert!(second.token() > first.token());
        resource.seal(&permit(&second)).await.unwrap();
        resource.write(Guard::Right, &permit(&second), 2).await.unwrap();
        let written = resource.write(guard, &permit(&first), 1).await;
        assert_eq!(superseded(&written, &second), guard == Guard::Right, "{written:?}");
        assert_eq!(resource.value().await, last, "{guard:?}");
    }
}

/// The row behind a guard row.
pub(crate) struct Guarded<DB: TestEngine> {
    rig: Sql<DB>,
    fence: Fence,
}

impl<DB: TestEngine + LeaseSql> Resource<Sql<DB>> for Guarded<DB> {
    async fn create(rig: &Sql<DB>) -> Self {
        // Each with a guard row of its own.
        let fence = Fence::new(format!("report:{:x}", fastrand::u64(..))).unwrap();
        Self { rig: rig.clone(), fence }
    }

    async fn seal(&self, permit: &Permit) -> Result<(), Error> {
        self.fence.seal(&self.rig.database().pool, permit).await.map(drop)
    }

    async fn write(&self, guard: Guard, permit: &Permit, value: i64) -> Result<(), Error> {
        let mut tx = self.rig.database().pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        if guard == Guard::Right {
            self.fence.check(&mut tx, permit).await?;
        }
        write(&mut tx, if value == 1 { A_WRITES } else { B_WRITES }).await.unwrap();
        tx.commit().await.unwrap();
        Ok(())
    }

    async fn add(&self, _permit: &Permit, _amount: i64) -> Result<(), Error> {
        unreachable!("the suite of the guard row has its own")
    }

    async fn value(&self) -> i64 {
        self.rig.database().int(VALUE).await
    }

    async fn break_down(&self) {
        self.rig.database().execute("DROP TABLE leastlock_fence").await;
    }
}
