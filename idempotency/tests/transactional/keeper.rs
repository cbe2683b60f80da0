//! What the suite needs of an implementation: the product and the doubles are both keepers.

use std::future::Future;
use std::time::Duration;

use leastlock_idempotency::{Begin, Fingerprint, IdempotencySql, Key, Keys, MIGRATIONS, OnDuplicate, Scope};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::sync::Barrier;

/// What a caller was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    Ran(String),
    Replayed(String),
    Mismatch,
    InFlight,
    /// The handler failed and its transaction was rolled back.
    RolledBack,
    Error(String),
}

pub(crate) fn ran(payload: &str) -> Told {
    Told::Ran(format!("done:{payload}"))
}

pub(crate) fn replayed(payload: &str) -> Told {
    Told::Replayed(format!("done:{payload}"))
}

/// One request: where, which key, what it says, and how its handler behaves.
#[derive(Debug, Clone)]
pub(crate) struct Call<'a> {
    pub operation: &'a str,
    pub key: &'a str,
    pub payload: &'a str,
    pub handler: Handler<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Handler<'a> {
    /// Inserts the effect and answers `done:<payload>`.
    Plain,
    /// The same, once both sides of the barrier are there: for a first that is still running.
    Meets(&'a Barrier, Then),
    /// The same, after it changed its own input, as a handler that fills in defaults does.
    ChangesItsInput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Completes,
    Fails,
}

impl<'a> Call<'a> {
    pub(crate) fn new(key: &'a str, payload: &'a str) -> Self {
        Self { operation: "place-order", key, payload, handler: Handler::Plain }
    }

    pub(crate) fn within(self, operation: &'a str) -> Self {
        Self { operation, ..self }
    }

    pub(crate) fn handled(self, handler: Handler<'a>) -> Self {
        Self { handler, ..self }
    }
}

/// An implementation of "run once per key".
pub(crate) trait Keeper<DB: TestEngine>: Sync {
    fn place(&self, pool: &Pool<DB>, call: Call<'_>) -> impl Future<Output = Told> + Send;
}

/// The product.
pub(crate) struct Product(pub Keys);

impl Product {
    pub(crate) fn waiting() -> Self {
        Self(Keys::builder().on_duplicate(OnDuplicate::Wait(Duration::from_secs(20))).build().expect("valid"))
    }

    pub(crate) fn rejecting() -> Self {
        Self(Keys::builder().on_duplicate(OnDuplicate::Reject).build().expect("valid"))
    }
}

impl<DB: TestEngine + IdempotencySql> Keeper<DB> for Product {
    async fn place(&self, pool: &Pool<DB>, call: Call<'_>) -> Told {
        let key = key(&call);
        let mut payload = call.payload.to_owned();
        match self.0.begin(pool, &key, &fingerprint(&payload)).await {
            Ok(Begin::First(mut unit)) => {
                insert_effect::<DB>(unit.tx(), &call).await;
                let fails = finish(&call.handler, &mut payload).await;
                if fails {
                    unit.release().await.expect("it rolls back");
                    return Told::RolledBack;
                }
                match unit.complete(format!("done:{}", call.payload)).await {
                    Ok(answer) => Told::Ran(answer),
                    Err(error) => Told::Error(error.to_string()),
                }
            }
            Ok(Begin::Replay(answer)) => Told::Replayed(answer),
            Ok(Begin::Mismatch) => Told::Mismatch,
            Ok(Begin::InFlight { .. }) => Told::InFlight,
            Err(error) => Told::Error(error.to_string()),
        }
    }
}

pub(crate) fn key(call: &Call<'_>) -> Key {
    Key::new(&Scope::of_operation(call.operation).expect("a scope"), call.key).expect("a key")
}

pub(crate) fn fingerprint(payload: &str) -> Fingerprint {
    Fingerprint::request("POST", "/orders", "").bytes(payload.as_bytes())
}

/// The handler's own wait and change of input; answers whether it fails.
pub(crate) async fn finish(handler: &Handler<'_>, payload: &mut String) -> bool {
    match handler {
        Handler::Plain => false,
        Handler::ChangesItsInput => {
            payload.push_str(" with defaults");
            false
        }
        Handler::Meets(barrier, then) => {
            barrier.wait().await;
            barrier.wait().await;
            *then == Then::Fails
        }
    }
}

pub(crate) async fn insert_effect<DB: TestEngine>(connection: &mut DB::Connection, call: &Call<'_>) {
    let insert = sql::<DB>(
        "INSERT INTO effect (operation, item) VALUES ($1, $2)",
        "INSERT INTO effect (operation, item) VALUES (?, ?)",
    );
    leastlock_core::Statement::new(insert)
        .bind(call.operation)
        .bind(call.key)
        .execute::<DB>(connection)
        .await
        .expect("the effect is inserted");
}

/// The tables of the crate and of the tests.
pub(crate) async fn tables<DB: TestEngine + IdempotencySql>(database: TestDatabase<DB>) -> TestDatabase<DB> {
    let database = database.with(&MIGRATIONS).await;
    database.execute("CREATE TABLE effect (operation TEXT NOT NULL, item TEXT NOT NULL)").await;
    // The doubles copy their times from here: an engine's time columns differ in type.
    Product::waiting().place(&database.pool, Call::new("for-its-times", "x")).await;
    database.execute("CREATE TABLE stamp AS SELECT created_at, expires_at FROM leastlock_idempotency").await;
    clear(&database).await;
    database
}

/// Empties them between a keeper and the next.
pub(crate) async fn clear<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("DELETE FROM effect").await;
    database.execute("DELETE FROM leastlock_idempotency").await;
}

pub(crate) async fn effects<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    database.int("SELECT count(*) FROM effect").await
}
