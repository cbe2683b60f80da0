//! The ways in which a batch is run twice, or never.

use leastlock_core::Statement;
use leastlock_lease::{LeaseSql, Leases, Once, Period, SqlLeaseStore};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::Pool;

use super::suite::{Answer, WORK};
use crate::world::{fixed, write};

/// How a batch is kept from being run twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `once`.
    Right,
    /// The mistake: a lease alone. It ends, and knows of no period that is done.
    LeaseAlone,
    /// The mistake: the mark is written when the work is done, in a transaction of its own.
    MarkAfter,
    /// The mistake: the mark is written first, in a transaction of its own.
    MarkBefore,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Right, Self::LeaseAlone, Self::MarkAfter, Self::MarkBefore];
}

/// Runs the period in one way or another; `half_way` is called when the first thing is committed. Answers whether the work ran.
pub(crate) async fn run<DB: TestEngine + LeaseSql>(
    pool: &Pool<DB>,
    period: &Period,
    way: Way,
    half_way: fn(),
) -> Answer {
    run_after(pool, period, way, async {}, half_way).await
}

/// As [`run`], and waits for `goes_on` when it has the lease, and has looked whether the period is done.
pub(crate) async fn run_after<DB: TestEngine + LeaseSql>(
    pool: &Pool<DB>,
    period: &Period,
    way: Way,
    goes_on: impl Future<Output = ()>,
    half_way: fn(),
) -> Answer {
    let leases = Leases::new(SqlLeaseStore::new(pool));
    if way == Way::Right {
        return leases
            .once(pool, period, fixed(), async |turn| {
                goes_on.await;
                let mut tx = turn.begin().await?;
                write(&mut tx, WORK).await?;
                let completed = tx.complete(()).await?;
                half_way();
                Ok(completed)
            })
            .await;
    }
    let lease = leases.acquire_efficiency(period.name(), fixed()).await?;
    let ran = lease.run(async |_scope| {
        if let (true, Some(done)) = (way != Way::LeaseAlone, period.done(pool).await?) {
            return Ok(Once::Done(done));
        }
        goes_on.await;
        if way == Way::MarkBefore {
            mark(pool, period).await?;
            half_way();
        }
        let mut tx = leastlock_core::begin(pool).await?;
        write(&mut tx, WORK).await?;
        tx.commit().await?;
        if way != Way::MarkBefore {
            half_way();
        }
        if way == Way::MarkAfter {
            mark(pool, period).await?;
        }
        Ok(Once::Ran(()))
    });
    ran.await
}

pub(crate) async fn mark<DB: TestEngine + LeaseSql>(pool: &Pool<DB>, period: &Period) -> Result<(), sqlx::Error> {
    let mark = match DB::ENGINE {
        leastlock_core::Engine::Sqlite => "INSERT INTO leastlock_once VALUES ($1, $2, $3, 1, 1)",
        _ => sql::<DB>(
            "INSERT INTO leastlock_once VALUES ($1, $2, $3, now(), now())",
            "INSERT INTO leastlock_once VALUES (?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))",
        ),
    };
    let mut connection = pool.acquire().await?;
    let mark = Statement::new(mark).bind(period.job()).bind(period.period()).bind(&[7_u8; 16][..]);
    mark.execute::<DB>(&mut connection).await.map(drop)
}
