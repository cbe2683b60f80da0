//! Hand-written payers, each with one mistake that has been made in public.

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::Pool;

use crate::bank::{Bank, Heard};
use crate::payer::{Call, Fate, Payer, Told, fingerprint, insert_effect};

/// The mistake that a [`Naive`] payer makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Completes whatever record stands under its key, its own or not.
    CompletesUnfenced,
    /// Computes the fingerprint again at completion, from what the handler made of its input.
    FingerprintsAtCompletion,
    /// Deletes the record by its key whenever a request ends with an error, its own record or not.
    DeletesOnError,
    /// Compares fingerprints of completed records only.
    TrustsWhoeverWaits,
    /// Stores the completed record without its fingerprint.
    DropsTheFingerprint,
    /// Takes a key over whose owner is at work.
    TakesOverTheLiving,
    /// Takes no lease: a dead owner's key is in flight for ever.
    ClaimsForEver,
    /// Takes a dead owner's key over and begins at the first step.
    BeginsAnew,
    /// Keeps records by key alone.
    ForgetsTheScope,
    /// Leaves expiry to the sweep.
    ForgetsExpiry,
    /// Deletes the claim when the provider did not answer.
    FreesWhatIsUnknown,
    /// Makes a new provider key for each attempt.
    RenewsTheProviderKey,
}

/// A payer of the kind one writes in an afternoon: a claim with a lease, and one mistake.
pub(crate) struct Naive(pub Mistake);

struct Found {
    fingerprint: Vec<u8>,
    completed: bool,
    answer: Option<Vec<u8>>,
    lease_over: bool,
    reserved: bool,
}

impl Naive {
    async fn claim<DB: TestEngine>(&self, connection: &mut DB::Connection, scope: &str, call: &Call<'_>) -> bool {
        let insert = sql::<DB>(
            "INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, owner_token, state, lease_until, \
             created_at, expires_at) SELECT $1, $2, $3, $4, 'running', expires_at, created_at, expires_at FROM stamp",
            "INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, owner_token, state, lease_until, \
             created_at, expires_at) SELECT ?, ?, ?, ?, 'running', expires_at, created_at, expires_at FROM stamp",
        );
        let fingerprint = fingerprint(call.payload);
        let insert = Statement::new(insert).bind(scope).bind(call.key).bind(fingerprint.as_bytes().as_slice());
        match insert.bind(call.who.as_bytes()).execute::<DB>(connection).await {
            Ok(_) => true,
            Err(error) if classify::<DB>(&error) == ErrorClass::UniqueViolation => false,
            Err(error) => panic!("the double claims: {error}"),
        }
    }

    async fn look<DB: TestEngine>(connection: &mut DB::Connection, scope: &str, call: &Call<'_>) -> Found {
        let select = sql::<DB>(
            "SELECT fingerprint, state, response_body, CAST(CASE WHEN lease_until <= created_at THEN 1 ELSE 0 END AS \
             BIGINT), recovery_point FROM leastlock_idempotency WHERE scope = $1 AND idempotency_key = $2",
            "SELECT fingerprint, state, response_body, CAST(CASE WHEN lease_until <= created_at THEN 1 ELSE 0 END AS \
             SIGNED), recovery_point FROM leastlock_idempotency WHERE scope = ? AND idempotency_key = ?",
        );
        let row = Statement::new(select).bind(scope).bind(call.key).fetch_one::<DB>(connection).await;
        let row = row.expect("the double finds what refused it");
        Found {
            fingerprint: row.bytes(0).expect("bytes"),
            completed: row.text(1).expect("text") == "completed",
            answer: row.optional_bytes(2).expect("bytes"),
            lease_over: row.int(3).expect("a number") != 0,
            reserved: row.optional_text(4).expect("text").is_some(),
        }
    }

    async fn delete<DB: TestEngine>(connection: &mut DB::Connection, scope: &str, call: &Call<'_>) {
        let delete = sql::<DB>(
            "DELETE FROM leastlock_idempotency WHERE scope = $1 AND idempotency_key = $2",
            "DELETE FROM leastlock_idempotency WHERE scope = ? AND idempotency_key = ?",
        );
        Statement::new(delete).bind(scope).bind(call.key).execute::<DB>(connection).await.expect("the double deletes");
    }

    async fn work<DB: TestEngine>(
        &self,
        pool: &Pool<DB>,
        bank: &Bank<DB>,
        scope: &str,
        call: &Call<'_>,
        reserved: bool,
    ) -> Told {
        if matches!(call.fate, Fate::DiesAfterClaim) {
            return Told::Died;
        }
        let mut connection = pool.acquire().await.expect("a connection");
        if !reserved || self.0 == Mistake::BeginsAnew {
            insert_effect::<DB>(&mut connection, call.key).await;
            let record = sql::<DB>(
                "UPDATE leastlock_idempotency SET recovery_point = 'reserve' WHERE scope = $1 AND idempotency_key = $2",
                "UPDATE leastlock_idempotency SET recovery_point = 'reserve' WHERE scope = ? AND idempotency_key = ?",
            );
            let record = Statement::new(record).bind(scope).bind(call.key);
            record.execute::<DB>(&mut connection).await.expect("the double records");
        }
        let attempt = if self.0 == Mistake::RenewsTheProviderKey { call.who } else { "" };
        let provider_key = format!("{scope}/{}{attempt}", call.key);
        let heard = bank.charge(&provider_key, call.key, call.manner).await;
        if matches!(call.fate, Fate::DiesAfterCharge) {
            return Told::Died;
        }
        if heard == Heard::Nothing {
            if self.0 == Mistake::FreesWhatIsUnknown {
                Self::delete::<DB>(&mut connection, scope, call).await;
            }
            return Told::Unknown;
        }
        if let Fate::Pauses(barrier) = call.fate {
            drop(connection);
            barrier.wait().await;
            barrier.wait().await;
            connection = pool.acquire().await.expect("a connection");
        }
        self.complete::<DB>(&mut connection, scope, call).await
    }

    async fn complete<DB: TestEngine>(&self, connection: &mut DB::Connection, scope: &str, call: &Call<'_>) -> Told {
        let mut payload = call.payload.to_owned();
        if matches!(call.fate, Fate::ChangesItsInput) {
            payload.push_str(" with defaults");
        }
        let stored: Vec<u8> = match self.0 {
            Mistake::FingerprintsAtCompletion => fingerprint(&payload).as_bytes().to_vec(),
            Mistake::DropsTheFingerprint => Vec::new(),
            _ => fingerprint(call.payload).as_bytes().to_vec(),
        };
        let complete = sql::<DB>(
            "UPDATE leastlock_idempotency SET state = 'completed', response_body = $1, fingerprint = $2, \
             expires_at = (SELECT expires_at FROM stamp) WHERE scope = $3 AND idempotency_key = $4",
            "UPDATE leastlock_idempotency SET state = 'completed', response_body = ?, fingerprint = ?, \
             expires_at = (SELECT expires_at FROM stamp) WHERE scope = ? AND idempotency_key = ?",
        );
        let fenced = sql::<DB>(
            "UPDATE leastlock_idempotency SET state = 'completed', response_body = $1, fingerprint = $2, \
             expires_at = (SELECT expires_at FROM stamp) WHERE scope = $3 AND idempotency_key = $4 AND owner_token = $5",
            "UPDATE leastlock_idempotency SET state = 'completed', response_body = ?, fingerprint = ?, \
             expires_at = (SELECT expires_at FROM stamp) WHERE scope = ? AND idempotency_key = ? AND owner_token = ?",
        );
        let answer = serde_json::to_vec(&call.answer()).expect("text");
        let is_fenced = self.0 != Mistake::CompletesUnfenced;
        let statement = Statement::new(if is_fenced { fenced } else { complete });
        let mut statement = statement.bind(answer.as_slice()).bind(stored.as_slice()).bind(scope).bind(call.key);
        if is_fenced {
            statement = statement.bind(call.who.as_bytes());
        }
        match statement.execute::<DB>(connection).await.expect("the double completes") {
            0 => Told::Superseded,
            _ => Told::Paid(call.answer()),
        }
    }

    async fn take_over<DB: TestEngine>(connection: &mut DB::Connection, scope: &str, call: &Call<'_>) {
        let take_over = sql::<DB>(
            "UPDATE leastlock_idempotency SET owner_token = $1, lease_until = (SELECT expires_at FROM stamp) \
             WHERE scope = $2 AND idempotency_key = $3",
            "UPDATE leastlock_idempotency SET owner_token = ?, lease_until = (SELECT expires_at FROM stamp) \
             WHERE scope = ? AND idempotency_key = ?",
        );
        let take_over = Statement::new(take_over).bind(call.who.as_bytes()).bind(scope).bind(call.key);
        take_over.execute::<DB>(connection).await.expect("the double takes over");
    }
}

impl<DB: TestEngine> Payer<DB> for Naive {
    async fn pay(&self, pool: &Pool<DB>, bank: &Bank<DB>, call: Call<'_>) -> Told {
        let scope = if self.0 == Mistake::ForgetsTheScope { "" } else { call.operation };
        let mut connection = pool.acquire().await.expect("a connection");
        if self.claim::<DB>(&mut connection, scope, &call).await {
            drop(connection);
            return self.work(pool, bank, scope, &call, false).await;
        }
        let found = Self::look::<DB>(&mut connection, scope, &call).await;
        let is_other = found.fingerprint != fingerprint(call.payload).as_bytes();
        if is_other && self.0 != Mistake::TrustsWhoeverWaits {
            if self.0 == Mistake::DeletesOnError {
                Self::delete::<DB>(&mut connection, scope, &call).await;
            }
            return Told::Mismatch;
        }
        if found.completed {
            let answer = found.answer.expect("an answer");
            return Told::Replayed(serde_json::from_slice(&answer).expect("text"));
        }
        let is_free = found.lease_over || self.0 == Mistake::TakesOverTheLiving;
        if !is_free || self.0 == Mistake::ClaimsForEver {
            return Told::InFlight;
        }
        Self::take_over::<DB>(&mut connection, scope, &call).await;
        drop(connection);
        self.work(pool, bank, scope, &call, found.reserved).await
    }
}
