//! What the suite needs of an implementation: the product and the doubles are both payers.

use std::time::Duration;

use leastlock_core::{Backoff, Statement};
use leastlock_idempotency::phased::{External, Hold, Local, Phased, PhasedBegin, PhasedSql, RetryWithSameKey, Run};
use leastlock_idempotency::{Error, Fingerprint, Key, MIGRATIONS, Scope};
use leastlock_testkit::database::sql;
use leastlock_testkit::process::{hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::sync::Barrier;

use crate::bank::{Bank, Heard, Manner};

/// What a caller was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Paid(String),
    Replayed(String),
    Mismatch,
    InFlight,
    Unknown,
    Superseded,
    /// The process ended: nobody was told anything.
    Died,
    Error(String),
}

/// One request, and what happens to the process that handles it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'a> {
    pub operation: &'a str,
    pub key: &'a str,
    pub payload: &'a str,
    /// Stands in the answer.
    pub who: &'a str,
    pub manner: Manner,
    pub fate: Fate<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate<'a> {
    Lives,
    DiesAfterClaim,
    /// Charged, and nothing recorded of it.
    DiesAfterCharge,
    /// Waits for both sides of the barrier, all steps done and the answer not stored.
    Pauses(&'a Barrier),
    /// The same, in a process of its own: until the parent says a line.
    #[cfg_attr(not(feature = "failpoints"), expect(dead_code))]
    Hears,
    /// Changes its own input before completing, as a handler that fills in defaults does.
    ChangesItsInput,
}

impl<'a> Call<'a> {
    pub(crate) fn new(key: &'a str, payload: &'a str) -> Self {
        Self { operation: "pay", key, payload, who: "a", manner: Manner::Answers, fate: Fate::Lives }
    }

    pub(crate) fn within(self, operation: &'a str) -> Self {
        Self { operation, ..self }
    }

    pub(crate) fn by(self, who: &'a str) -> Self {
        Self { who, ..self }
    }

    pub(crate) fn at(self, manner: Manner) -> Self {
        Self { manner, ..self }
    }

    pub(crate) fn that(self, fate: Fate<'a>) -> Self {
        Self { fate, ..self }
    }

    pub(crate) fn answer(&self) -> String {
        format!("paid {} by {}", self.payload, self.who)
    }
}

/// An implementation of "pay once per key": it reserves in the database, charges at the bank, and answers.
pub(crate) trait Payer<DB: TestEngine>: Sync {
    fn pay(&self, pool: &Pool<DB>, bank: &Bank<DB>, call: Call<'_>) -> impl Future<Output = Told> + Send;
}

/// The product.
#[derive(Debug, Clone)]
pub(crate) struct Product {
    pub phased: Phased,
    pub holds: bool,
}

impl Product {
    /// Without renewal, so that a lease can be seen to end.
    pub(crate) fn retrying() -> Self {
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(10));
        let phased = Phased::builder().renewed(false).max_attempts(3).backoff(backoff).build().expect("valid");
        Self { phased, holds: false }
    }

    pub(crate) fn holding() -> Self {
        Self { holds: true, ..Self::retrying() }
    }

    pub(crate) async fn run<DB: TestEngine + PhasedSql>(
        &self,
        mut run: Run<DB, String>,
        bank: &Bank<DB>,
        call: Call<'_>,
    ) -> Result<Told, Error> {
        if matches!(call.fate, Fate::DiesAfterClaim) {
            return Ok(Told::Died);
        }
        if let Local::Todo(mut step) = run.local("reserve").compensated_by("unreserve").await? {
            insert_effect::<DB>(step.tx(), call.key).await;
            step.done(()).await?;
        }
        let charge = match self.charge(&mut run).await? {
            External::Todo(attempt) => {
                let heard = bank.charge(attempt.provider_key().as_str(), call.key, call.manner).await;
                if matches!(call.fate, Fate::DiesAfterCharge) {
                    return Ok(Told::Died);
                }
                match heard {
                    Heard::Receipt => Some(attempt.done("receipt".to_owned()).await?),
                    Heard::Declined => {
                        attempt.failed(&"declined").await?;
                        None
                    }
                    Heard::Nothing => return Ok(Told::Unknown),
                }
            }
            External::Done(receipt) => Some(receipt),
            External::Failed(_) => None,
            External::Held(_) => return Ok(Told::Unknown),
        };
        if charge.is_none() {
            run.compensate("declined").await?;
            if let Local::Todo(mut step) = run.local("unreserve").await? {
                let delete = sql::<DB>("DELETE FROM effect WHERE item = $1", "DELETE FROM effect WHERE item = ?");
                Statement::new(delete).bind(call.key).execute::<DB>(step.tx()).await.expect("it deletes");
                step.done(()).await?;
            }
            return run.complete(format!("declined {}", call.payload)).await.map(Told::Paid);
        }
        if let Fate::Pauses(barrier) = call.fate {
            barrier.wait().await;
            barrier.wait().await;
        }
        if matches!(call.fate, Fate::Hears) {
            speak("all steps done");
            let _ = hear();
        }
        run.complete(call.answer()).await.map(Told::Paid)
    }

    async fn charge<'r, DB: PhasedSql>(
        &self,
        run: &'r mut Run<DB, String>,
    ) -> Result<External<'r, DB, String, String>, Error> {
        if self.holds { run.external("charge", Hold).await } else { run.external("charge", RetryWithSameKey).await }
    }
}

impl<DB: TestEngine + PhasedSql> Payer<DB> for Product {
    async fn pay(&self, pool: &Pool<DB>, bank: &Bank<DB>, call: Call<'_>) -> Told {
        let begun = self.phased.begin(pool, &key(&call), &fingerprint(call.payload)).await;
        let told = match begun {
            Ok(PhasedBegin::First(run)) => self.run(run, bank, call).await,
            Ok(PhasedBegin::Replay(answer)) => Ok(Told::Replayed(answer)),
            Ok(PhasedBegin::Mismatch) => Ok(Told::Mismatch),
            Ok(PhasedBegin::InFlight { .. }) => Ok(Told::InFlight),
            Ok(PhasedBegin::Unknown(_)) => Ok(Told::Unknown),
            Err(error) => Err(error),
        };
        match told {
            Ok(told) => told,
            Err(Error::Superseded) => Told::Superseded,
            Err(error) => Told::Error(error.to_string()),
        }
    }
}

pub(crate) fn key(call: &Call<'_>) -> Key {
    Key::new(&Scope::of_operation(call.operation).expect("a scope"), call.key).expect("a key")
}

pub(crate) fn fingerprint(payload: &str) -> Fingerprint {
    Fingerprint::request("POST", "/payments", "").bytes(payload.as_bytes())
}

pub(crate) async fn insert_effect<DB: TestEngine>(connection: &mut DB::Connection, item: &str) {
    let insert = sql::<DB>("INSERT INTO effect (item) VALUES ($1)", "INSERT INTO effect (item) VALUES (?)");
    Statement::new(insert).bind(item).execute::<DB>(connection).await.expect("the effect is inserted");
}

/// The tables of the crate and of the tests, and the bank.
pub(crate) async fn tables<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) -> (TestDatabase<DB>, Bank<DB>) {
    let database = database.with(&MIGRATIONS).await;
    database.execute("CREATE TABLE effect (item VARCHAR(64) NOT NULL)").await;
    let bank = Bank::open(&database).await;
    // The doubles copy their times from here: an engine's time columns differ in type.
    let told = Product::retrying().pay(&database.pool, &bank, Call::new("for-its-times", "x")).await;
    assert!(matches!(told, Told::Paid(_)), "{told:?}");
    database.execute("CREATE TABLE stamp AS SELECT created_at, expires_at FROM leastlock_idempotency").await;
    clear(&database).await;
    (database, bank)
}

/// Empties them between a payer and the next.
pub(crate) async fn clear<DB: TestEngine>(database: &TestDatabase<DB>) {
    for table in ["DELETE FROM effect", "DELETE FROM charge", "DELETE FROM leastlock_idempotency"] {
        database.execute(table).await;
    }
}

/// Lets every lease be over, as time would.
pub(crate) async fn end_leases<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("UPDATE leastlock_idempotency SET lease_until = created_at WHERE state = 'running'").await;
}

pub(crate) async fn effects<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    database.int("SELECT count(*) FROM effect").await
}
