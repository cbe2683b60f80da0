//! How long a local step may stand still with what it has locked.
#![cfg(any(feature = "postgres", feature = "mysql"))]

use leastlock_core::Statement;
use leastlock_idempotency::phased::{Local, PhasedSql};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::payer::{insert_effect, tables};
use crate::steps::{first, phased};

pub(crate) trait Bounds: TestEngine + PhasedSql {
    /// After how many milliseconds the server ends the transaction of the connection if it idles; 0 is never.
    const BOUND_MS: &'static str;
    /// The longest that it may be.
    const LONGEST_MS: i64;
    /// A transaction without a bound of its own.
    const CARELESS: &'static str;
}

#[cfg(feature = "postgres")]
impl Bounds for sqlx::Postgres {
    const BOUND_MS: &'static str =
        "SELECT (extract(epoch FROM current_setting('idle_in_transaction_session_timeout')::interval) * 1000)::bigint";
    const LONGEST_MS: i64 = 10_000;
    const CARELESS: &'static str = "BEGIN";
}

#[cfg(feature = "mysql")]
impl Bounds for sqlx::MySql {
    const BOUND_MS: &'static str = "SELECT CAST(@@idle_transaction_timeout * 1000 AS SIGNED)";
    /// The lease.
    const LONGEST_MS: i64 = 30_000;
    const CARELESS: &'static str = "START TRANSACTION";
}

fn is_bounded<DB: Bounds>(bound_ms: i64) -> bool {
    (1..=DB::LONGEST_MS).contains(&bound_ms)
}

/// A process that is stopped in a step keeps the rows of the step locked until then, and nobody who needs them goes on.
pub(crate) async fn step_is_bounded_before_its_first_effect<DB: Bounds>(database: TestDatabase<DB>) {
    let (database, _bank) = tables(database).await;
    let bound = async |connection: &mut DB::Connection| {
        Statement::new(DB::BOUND_MS).fetch_one::<DB>(connection).await.unwrap().int(0).unwrap()
    };
    let mut run = first(&phased(), &database, "k1").await;
    for (name, undo) in [("reserve", Some("unreserve")), ("settle", None)] {
        let mut call = run.local::<()>(name);
        if let Some(undo) = undo {
            call = call.compensated_by(undo);
        }
        let Local::Todo(mut step) = call.await.unwrap() else { panic!("{name} is not done yet") };
        let before = bound(step.tx()).await;
        assert!(is_bounded::<DB>(before), "{name} may idle for {before} ms before its effect");
        insert_effect::<DB>(step.tx(), name).await;
        step.done(()).await.unwrap();
    }
    run.compensate("no").await.unwrap();
    let Local::Todo(mut step) = run.local::<()>("unreserve").await.unwrap() else { panic!("it is to be undone") };
    let before = bound(step.tx()).await;
    assert!(is_bounded::<DB>(before), "a compensation may idle for {before} ms");
    drop(step);

    // The double: a step that begins as a unit does, whose claim sets the bound only afterwards.
    let mut careless = database.pool.begin_with(DB::CARELESS).await.unwrap();
    assert!(!is_bounded::<DB>(bound(&mut careless).await), "the double must be caught");
}
