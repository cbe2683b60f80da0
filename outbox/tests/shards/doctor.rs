//! What the doctor finds.

use leastlock_core::{Engine, Statement};
use leastlock_outbox::{DoctorSql, Severity, doctor};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use sqlx::pool::PoolOptions;

use crate::support::{Recorder, Running, tables, until};

async fn about<DB: DoctorSql>(pool: &Pool<DB>) -> Vec<(Severity, &'static str)> {
    doctor(pool).await.unwrap().iter().map(|finding| (finding.severity, finding.about)).collect()
}

pub(crate) async fn doctor_finds_what_endangers_events<DB: TestEngine + DoctorSql>(database: TestDatabase<DB>) {
    let (database, _outbox) = tables(database).await;
    assert!(about(&database.pool).await.contains(&(Severity::Warning, "relays")));
    let relay = Running::start(&database.pool, &Recorder::new());
    until("a relay is seen", async || !about(&database.pool).await.contains(&(Severity::Warning, "relays"))).await;

    // The settings of one connection are not those of the others, so there is one.
    let options = database.pool.connect_options();
    let one: Pool<DB> = PoolOptions::new().max_connections(1).connect_with((*options).clone()).await.unwrap();
    let (set, danger) = match DB::ENGINE {
        Engine::Sqlite => ("PRAGMA synchronous = OFF", "durability"),
        // Durability is the whole server's there.
        Engine::MySql => ("SET auto_increment_increment = 2", "writing servers"),
        _ => ("SET synchronous_commit = off", "durability"),
    };
    let before = about(&one).await;
    assert!(!before.contains(&(Severity::Danger, danger)), "{before:?}");
    let mut connection = one.acquire().await.unwrap();
    Statement::new(set).execute::<DB>(&mut connection).await.unwrap();
    drop(connection);
    let after = about(&one).await;
    assert_eq!(after[0], (Severity::Danger, danger), "the worst comes first: {after:?}");
    let too_few = after.contains(&(Severity::Warning, "connections"));
    assert_eq!(too_few, DB::RELAY_CONNECTIONS > 1, "{after:?}");
    relay.end().await;
}

#[cfg(feature = "postgres")]
pub(crate) use postgres::doctor_sees_long_transactions_and_missing_autovacuum;

#[cfg(feature = "postgres")]
mod postgres {
    use sqlx::Postgres;

    use super::*;

    /// Five minutes cannot be waited for, so the same figures are asked of the statement, which the judgement is made from.
    pub(crate) async fn doctor_sees_long_transactions_and_missing_autovacuum(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        let before = about(&database.pool).await;
        assert!(!before.contains(&(Severity::Warning, "autovacuum")), "{before:?}");
        database.execute("ALTER TABLE leastlock_outbox SET (autovacuum_enabled = false)").await;
        let after = about(&database.pool).await;
        assert!(after.contains(&(Severity::Warning, "autovacuum")), "{after:?}");
        let mut open = database.pool.begin().await.unwrap();
        outbox.append(&mut open, leastlock_outbox::Event::new("moves", "k")).await.unwrap();
        let age = async || {
            let row =
                sqlx::query(include_str!("../../sql/postgres/doctor.sql")).fetch_one(&database.pool).await.unwrap();
            sqlx::Row::get::<Option<i64>, _>(&row, 8)
        };
        until("the transaction's age is seen", async || age().await > Some(100)).await;
    }
}
