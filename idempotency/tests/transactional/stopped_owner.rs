//! I22: an owner that is stopped (SIGSTOP) inside its transaction. On SQLite a stopped writer blocks the file until it goes
//! on or ends.
#![cfg(any(feature = "postgres", feature = "mysql"))]

use std::time::Duration;

use leastlock_idempotency::{Begin, IdempotencySql, Keys, OnDuplicate};
use leastlock_testkit::database::sql;
use leastlock_testkit::process::{Child, child_role, hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::keeper::{Call, fingerprint, key, tables};

/// The child's test function.
const OWNER: &str = "stopped_owner::owner";
/// The bound that the owner's keys have.
const IDLE_LIMIT: Duration = Duration::from_secs(1);
/// How long the duplicate waits: well beyond the bound, so that an owner without one is caught.
const WAIT: Duration = Duration::from_secs(6);
/// How long a child may take to do its part.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn i22_stopped_owners_key_is_free_and_it_cannot_commit<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    assert_eq!(duplicate_of_a_stopped_owner(&database, "product").await, ("first", "refused".to_owned()));
    // The double: the same owner without the idle time-out.
    let (duplicate, _) = duplicate_of_a_stopped_owner(&database, "no idle limit").await;
    assert_eq!(duplicate, "in flight", "the double's key must be seen to stay taken");
}

/// Stops an owner inside its unit, begins a duplicate, lets the owner go on. Answers what both came to.
async fn duplicate_of_a_stopped_owner<DB: TestEngine + IdempotencySql>(
    database: &TestDatabase<DB>,
    kind: &str,
) -> (&'static str, String) {
    let mut owner = Child::rerun(OWNER, &[("DATABASE", &database.url), ("KIND", kind)]);
    owner.line_containing("inside the unit", PATIENCE);
    owner.stop();

    let keys = Keys::builder().on_duplicate(OnDuplicate::Wait(WAIT)).build().unwrap();
    let call = Call::new(kind, "lamp");
    let key = key(&Call { key: &kind.replace(' ', "-"), ..call });
    let begun = keys.begin::<DB, String>(&database.pool, &key, &fingerprint("lamp")).await.unwrap();
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

/// The child, on the engine that its database is of.
#[tokio::test]
async fn owner() {
    if !child_role(OWNER) {
        return;
    }
    let url = std::env::var("DATABASE").unwrap();
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres") {
        own::<sqlx::Postgres>(&url).await;
    }
    #[cfg(feature = "mysql")]
    if url.starts_with("mysql") {
        own::<sqlx::MySql>(&url).await;
    }
}

/// Takes the key, says so, and completes when told to go on.
async fn own<DB: TestEngine + IdempotencySql>(url: &str) {
    let kind = std::env::var("KIND").unwrap();
    let pool = DB::connect(url).await;
    let keys = Keys::builder().idle_limit(IDLE_LIMIT).build().unwrap();
    let key = key(&Call::new(&kind.replace(' ', "-"), "lamp"));
    let begun = keys.begin::<DB, String>(&pool, &key, &fingerprint("lamp")).await.unwrap();
    let Begin::First(mut unit) = begun else { panic!("the key is free") };
    if kind == "no idle limit" {
        let unbounded =
            sql::<DB>("SET LOCAL idle_in_transaction_session_timeout = 0", "SET SESSION idle_transaction_timeout = 0");
        DB::run_query(unit.tx(), sqlx::query(unbounded)).await.unwrap();
    }
    speak("inside the unit");
    assert!(hear().is_some(), "the parent says when to go on");
    match unit.complete("done by the owner".to_owned()).await {
        Ok(_) => speak("commit: done"),
        Err(_) => speak("commit: refused"),
    }
}
