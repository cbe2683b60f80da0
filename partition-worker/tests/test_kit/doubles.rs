//! Handlers under test: one that is right, and the same with classic mistakes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use leastlock_core::Statement;
use leastlock_partition_worker::{BatchFailure, BatchHandler, Failure, Handler, Record, WorkerSql};
use leastlock_testkit::database::sql;
use sqlx::{Pool, Transaction};

/// Notes each record through its transaction.
pub(crate) struct Right;

async fn note<DB: WorkerSql>(connection: &mut DB::Connection, record: &Record) -> Result<(), Failure> {
    let key = String::from_utf8_lossy(record.key().unwrap_or_default()).into_owned();
    let insert = sql::<DB>(
        "INSERT INTO note (record_key, number) VALUES ($1, $2)",
        "INSERT INTO note (record_key, number) VALUES (?, ?)",
    );
    Statement::new(insert).bind(&key).bind(record.json::<i64>()?).execute::<DB>(connection).await?;
    Ok(())
}

impl<DB: WorkerSql> Handler<DB> for Right {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        note::<DB>(tx, record).await
    }
}

impl<DB: WorkerSql> BatchHandler<DB> for Right {
    async fn handle(&self, batch: &[Record], tx: &mut Transaction<'_, DB>) -> Result<(), BatchFailure> {
        for record in batch {
            note::<DB>(tx, record).await?;
        }
        Ok(())
    }
}

/// Counts in another service, too, which knows nothing of the transaction.
pub(crate) struct CountsOutside(pub(crate) Arc<AtomicI64>);

impl<DB: WorkerSql> Handler<DB> for CountsOutside {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        note::<DB>(tx, record).await
    }
}

/// Writes on a connection of the pool instead of the transaction.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) struct WritesBeside<DB: WorkerSql>(pub(crate) Pool<DB>);

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl<DB: WorkerSql> Handler<DB> for WritesBeside<DB> {
    async fn handle(&self, record: &Record, _: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        let mut connection = self.0.acquire().await?;
        note::<DB>(&mut connection, record).await
    }
}

/// Numbers the records of a key by what it remembers, which a worker that starts later does not.
#[derive(Default)]
pub(crate) struct Remembers(Mutex<BTreeMap<Vec<u8>, i64>>);

impl<DB: WorkerSql> Handler<DB> for Remembers {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        let key = record.key().unwrap_or_default();
        let number = {
            let mut counts = self.0.lock().expect("no panic under the lock");
            let count = counts.entry(key.to_vec()).or_default();
            *count += 1;
            *count
        };
        let numbered = Record::new("numbered", 0, 0).with_key(key).with_value(number.to_string());
        note::<DB>(tx, &numbered).await
    }
}

/// The numbers of each key, in the order in which they were noted.
pub(crate) async fn notes<DB: WorkerSql>(pool: &Pool<DB>) -> BTreeMap<String, Vec<i64>> {
    let mut connection = pool.acquire().await.expect("a connection");
    let rows = Statement::new("SELECT record_key, number FROM note ORDER BY id");
    let mut notes = BTreeMap::<_, Vec<_>>::new();
    for row in rows.fetch_all::<DB>(&mut connection).await.expect("the notes") {
        notes.entry(row.text(0).expect("a key")).or_default().push(row.int(1).expect("a number"));
    }
    notes
}
