//! The provider: a ledger of its own, written by its own statements whatever becomes of the caller's transaction.

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;

/// What the caller of the bank hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Receipt,
    /// A definite no: nothing was charged.
    Declined,
    /// A time-out: nobody knows.
    Nothing,
}

/// How the bank behaves in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Answers,
    Declines,
    /// Charges, and its answer is lost.
    ChargesInSilence,
}

/// A bank that charges once per key, or (not deduplicating) once per call.
#[derive(Debug)]
pub(crate) struct Bank<DB: TestEngine> {
    pool: Pool<DB>,
    pub(crate) deduplicates: bool,
}

impl<DB: TestEngine> Bank<DB> {
    pub(crate) async fn open(database: &TestDatabase<DB>) -> Self {
        database.execute("CREATE TABLE charge (id VARCHAR(128) NOT NULL PRIMARY KEY, item VARCHAR(64) NOT NULL)").await;
        Self::at(database.pool.clone())
    }

    /// The bank, from whatever process.
    pub(crate) fn at(pool: Pool<DB>) -> Self {
        Self { pool, deduplicates: true }
    }

    pub(crate) fn again(&self) -> Self {
        Self { pool: self.pool.clone(), deduplicates: self.deduplicates }
    }

    pub(crate) fn charging_every_call(&self) -> Self {
        Self { pool: self.pool.clone(), deduplicates: false }
    }

    pub(crate) async fn charge(&self, provider_key: &str, item: &str, manner: Manner) -> Heard {
        if manner == Manner::Declines {
            return Heard::Declined;
        }
        let id =
            if self.deduplicates { provider_key.to_owned() } else { format!("{provider_key}-{}", fastrand::u64(..)) };
        let insert =
            sql::<DB>("INSERT INTO charge (id, item) VALUES ($1, $2)", "INSERT INTO charge (id, item) VALUES (?, ?)");
        let mut connection = self.pool.acquire().await.expect("a connection");
        match Statement::new(insert).bind(&id).bind(item).execute::<DB>(&mut connection).await {
            Ok(_) => {}
            Err(error) if classify::<DB>(&error) == ErrorClass::UniqueViolation => {}
            Err(error) => panic!("the bank's ledger: {error}"),
        }
        if std::env::var("LEASTLOCK_FAILPOINT").is_ok_and(|point| point == "charged") {
            leastlock_testkit::process::speak("at charged");
            std::future::pending::<()>().await;
        }
        if manner == Manner::ChargesInSilence { Heard::Nothing } else { Heard::Receipt }
    }

    /// Whether a call with this key has charged.
    pub(crate) async fn has(&self, provider_key: &str) -> bool {
        let select = sql::<DB>("SELECT 1 FROM charge WHERE id LIKE $1", "SELECT 1 FROM charge WHERE id LIKE ?");
        let mut connection = self.pool.acquire().await.expect("a connection");
        let pattern = format!("{provider_key}%");
        let found = Statement::new(select).bind(&pattern).fetch_optional::<DB>(&mut connection).await;
        found.expect("the ledger is readable").is_some()
    }
}

pub(crate) async fn charges<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    database.int("SELECT count(*) FROM charge").await
}
