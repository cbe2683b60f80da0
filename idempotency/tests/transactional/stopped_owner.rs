//! I22: an owner that is stopped (SIGSTOP) inside its transaction. PostgreSQL only: on SQLite a stopped writer blocks the
//! file until it goes on or ends.
#![cfg(feature = "postgres")]

use std::time::Duration;

use leastlock_idempotency::{Begin, Keys, OnDuplicate};
use leastlock_testkit::process::{Child, child_role, hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Postgres;

use crate::keeper::{Call, fingerprint, key, tables};

/// The child's test function.
const OWNER: &str = "stopped_owner::owner";
/// The bound that the owner's keys have.
const IDLE_LIMIT: Duration = Duration::from_secs(1);
/// How long the duplicate waits: well beyond the bound, so that an owner without one is caught.
const WAIT: Duration = Duration::from_secs(6);
/// How long a child may take to do its part.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn i22_stopped_owners_key_is_free_and_it_cannot_commit(database: TestDatabase<Postgres>) {
    let database = tables(database).await;
    assert_eq!(duplicate_of_a_stopped_owner(&database, "product").await, ("first", "refused".to_owned()));
    // The double: the same owner without the idle time-out.
    let (duplicate, _) = duplicate_of_a_stopped_owner(&database, "no idle limit").await;
    assert_eq!(duplicate, "in flight", "the double's key must be seen to stay taken");
}

/// Stops an owner inside its unit, begins a duplicate, lets the owner go on. Answers what both came to.
async fn duplicate_of_a_stopped_owner(database: &TestDatabase<Postgres>, kind: &str) -> (&'static str, String) {
    let mut owner = Child::rerun(OWNER, &[("DATABASE", &database.url), ("KIND", kind)]);
    owner.line_containing("inside the unit", PATIENCE);
    owner.stop();

    let keys = Keys::builder().on_duplicate(OnDuplicate::Wait(WAIT)).build().unwrap();
    let call = Call::new(kind, "lamp");
    let key = key(&Call { key: &kind.replace(' ', "-"), ..call });
    let begun = keys.begin::<Postgres, String>(&database.pool, &key, &fingerprint("lamp")).await.unwrap();
    let duplicate = match begun {
        Begin::First(unit) => {
            unit.complete("done by the duplicate".to_owned()).await.unwrap();
            "first"
        }
        Begin::InFlight { .. } => "in flight",
        Begin::Replay(_) | Begin::Mismatch => "answered",
    };
    owner.resume();
    owner.send_line("go on");
    let line = owner.line_containing("commit: ", PATIENCE);
    (duplicate, line.rsplit("commit: ").next().unwrap_or_default().to_owned())
}

/// The child: takes the key, says so, and completes when told to go on.
#[tokio::test]
async fn owner() {
    if !child_role(OWNER) {
        return;
    }
    let kind = std::env::var("KIND").unwrap();
    let pool = Postgres::connect(&std::env::var("DATABASE").unwrap()).await;
    let keys = Keys::builder().idle_limit(IDLE_LIMIT).build().unwrap();
    let key = key(&Call::new(&kind.replace(' ', "-"), "lamp"));
    let begun = keys.begin::<Postgres, String>(&pool, &key, &fingerprint("lamp")).await.unwrap();
    let Begin::First(mut unit) = begun else { panic!("the key is free") };
    if kind == "no idle limit" {
        let unbounded = "SET LOCAL idle_in_transaction_session_timeout = 0";
        sqlx::raw_sql(unbounded).execute(&mut **unit.tx()).await.unwrap();
    }
    speak("inside the unit");
    assert!(hear().is_some(), "the parent says when to go on");
    match unit.complete("done by the owner".to_owned()).await {
        Ok(_) => speak("commit: done"),
        Err(_) => speak("commit: refused"),
    }
}
