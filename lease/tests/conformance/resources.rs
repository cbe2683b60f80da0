//! Protected resources beside the guard row: rows with a fence of their own, files, objects, a service behind HTTP.

mod file;
#[cfg(feature = "object-store")]
mod object;
mod rows;
mod rules;
mod stepped;
mod suite;
mod trigger;
#[cfg(feature = "postgres")]
mod unanswered;
#[cfg(all(feature = "object-store", feature = "sqlite"))]
mod wavering;
#[cfg(feature = "tower")]
mod web;

use leastlock_lease::{Error, Permit};

use crate::rig::Rig;

/// What stands between a late writer and the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    Right,
    /// None: whoever writes has written.
    Absent,
    /// Compares the number only.
    NumberOnly,
}

/// A resource with one number in it.
///
/// # Contract
/// [`write`](Self::write) answers a refusal as [`Error::Refused`] or [`Error::Lost`]; a double that lets a writer through answers `Ok`.
pub(crate) trait Resource<R: Rig>: Sized {
    /// A fresh one, with 0 in it.
    async fn create(rig: &R) -> Self;
    async fn seal(&self, permit: &Permit) -> Result<(), Error>;
    async fn write(&self, guard: Guard, permit: &Permit, value: i64) -> Result<(), Error>;
    /// Adds to what stands there, under the right guard.
    async fn add(&self, permit: &Permit, amount: i64) -> Result<(), Error>;
    async fn value(&self) -> i64;
    /// From here on the resource cannot be asked.
    async fn break_down(&self);
}

/// What a double answers with that refuses.
pub(crate) fn refused_by_a_double() -> Error {
    Error::Table { fault: "the double compares as well" }
}

macro_rules! case {
    ($rig:ty, $resource:ty, $($case:ident),+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let rig = <$rig as crate::rig::Rig>::create().await;
                crate::resources::suite::$case::<$rig, $resource>(rig).await;
            }
        )+
    };
}

macro_rules! every_case {
    ($rig:ty, $resource:ty) => {
        crate::resources::case!(
            $rig,
            $resource,
            l2_late_write_is_refused_by_the_fenced_resource_only,
            l3_late_write_is_refused_once_the_new_holder_has_sealed,
            l20_equal_token_of_another_owner_is_refused,
            l23_one_permit_writes_any_number_of_times,
            older_generation_cannot_seal,
            lost_lease_is_refused_before_the_resource_is_asked
        );
    };
}

use {case, every_case};

#[cfg(feature = "sqlite")]
mod sqlite {
    use sqlx::Sqlite;

    use crate::rig::Sql;

    mod rows {
        crate::resources::every_case!(super::Sql<super::Sqlite>, crate::resources::rows::Rows<super::Sqlite>);
    }
    mod file {
        crate::resources::every_case!(super::Sql<super::Sqlite>, crate::resources::file::File);
    }
    #[cfg(feature = "object-store")]
    mod object {
        crate::resources::every_case!(super::Sql<super::Sqlite>, crate::resources::object::Object);
    }
    #[cfg(feature = "tower")]
    mod web {
        crate::resources::every_case!(super::Sql<super::Sqlite>, crate::resources::web::Web<super::Sqlite>);
    }
    crate::resources::stepped::mount!(Sqlite);
    crate::resources::rules::mount!(Sqlite);
    crate::resources::trigger::mount!(Sqlite);
    #[cfg(feature = "tower")]
    crate::resources::web::mount!(super::Sqlite);
}

#[cfg(feature = "postgres")]
mod postgres {
    use sqlx::Postgres;

    use crate::rig::Sql;

    mod rows {
        crate::resources::every_case!(super::Sql<super::Postgres>, crate::resources::rows::Rows<super::Postgres>);
    }
    #[cfg(feature = "tower")]
    mod web {
        crate::resources::every_case!(super::Sql<super::Postgres>, crate::resources::web::Web<super::Postgres>);
    }
    crate::resources::stepped::mount!(Postgres);
    crate::resources::rules::mount!(Postgres);
    crate::resources::trigger::mount!(Postgres);
    #[cfg(feature = "tower")]
    crate::resources::web::mount!(super::Postgres);
}

#[cfg(feature = "mysql")]
mod mysql {
    use sqlx::MySql;

    use crate::rig::Sql;

    mod rows {
        crate::resources::every_case!(super::Sql<super::MySql>, crate::resources::rows::Rows<super::MySql>);
    }
    #[cfg(feature = "tower")]
    mod web {
        crate::resources::every_case!(super::Sql<super::MySql>, crate::resources::web::Web<super::MySql>);
    }
    crate::resources::stepped::mount!(MySql);
    crate::resources::rules::mount!(MySql);
    crate::resources::trigger::mount!(MySql);
    #[cfg(feature = "tower")]
    crate::resources::web::mount!(super::MySql);
}
