//! The ledger: what a worker does with an entry, and what stands in the books.

use std::collections::BTreeMap;

use leastlock::core::Statement;
use leastlock::occ::guarded;
use leastlock::partition_worker::{Failure, Handler, Process, Record};
use sqlx::{Pool, Transaction};

use crate::engine::Engine;
use crate::entries::Moved;

const MOVE: &str = "UPDATE ledger_account SET balance = balance + $2 WHERE account = $1 AND balance + $2 >= 0";
const POST: &str = "INSERT INTO ledger_posting (account, sequence, applied, worker) VALUES ($1, $2, $3, $4)";

/// The handler. Nothing in it asks whether the entry was posted before, or whether it comes in order.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    /// What its postings are signed with.
    pub(crate) worker: String,
}

impl<DB: Engine> Handler<DB> for Ledger {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        self.post::<DB>(record, tx).await
    }
}

/// The same in a transaction of its own: what is finished stands in Kafka alone, and may be posted again.
#[derive(Debug)]
pub(crate) struct Unfenced<DB: Engine> {
    pub(crate) ledger: Ledger,
    pub(crate) pool: Pool<DB>,
}

impl<DB: Engine> Process for Unfenced<DB> {
    async fn process(&self, record: &Record) -> Result<(), Failure> {
        let mut tx = leastlock::core::begin(&self.pool).await?;
        self.ledger.post::<DB>(record, &mut tx).await?;
        leastlock::core::commit(tx).await?;
        Ok(())
    }
}

impl Ledger {
    /// Moves the balance, if it covers the entry, and posts the entry either way.
    pub(crate) async fn post<DB: Engine>(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        let account = str::from_utf8(record.key().unwrap_or_default()).map_err(Failure::permanent)?;
        let Moved { sequence, cents } = record.json()?;
        let moved =
            guarded(Statement::new(MOVE).bind(account).bind(cents).into_query::<DB>()?).execute(&mut **tx).await?;
        let applied = i64::from(moved.is_applied());
        let posting = Statement::new(POST).bind(account).bind(sequence).bind(applied).bind(&*self.worker);
        posting.execute::<DB>(tx).await?;
        Ok(())
    }
}

/// A line of the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) account: String,
    pub(crate) sequence: i64,
    pub(crate) applied: bool,
}

/// Everything that was posted, in its order, and the balances.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pub(crate) postings: Vec<Posting>,
    pub(crate) balances: BTreeMap<String, i64>,
}

/// Empty books, in place of those of an earlier run.
pub(crate) async fn open_books<DB: Engine>(pool: &Pool<DB>, accounts: &[String]) -> Result<(), sqlx::Error> {
    let mut tx = leastlock::core::begin(pool).await?;
    for sql in
        ["DROP TABLE IF EXISTS ledger_account", "DROP TABLE IF EXISTS ledger_posting"].into_iter().chain(DB::TABLES)
    {
        Statement::new(sql).execute::<DB>(&mut tx).await?;
    }
    for account in accounts {
        Statement::new("INSERT INTO ledger_account VALUES ($1, 0)").bind(&**account).execute::<DB>(&mut tx).await?;
    }
    leastlock::core::commit(tx).await
}

/// How many postings each worker has made.
pub(crate) async fn posted<DB: Engine>(pool: &Pool<DB>) -> Result<BTreeMap<String, u64>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let counts = Statement::new("SELECT worker, count(*) FROM ledger_posting GROUP BY worker");
    let rows = counts.fetch_all::<DB>(&mut connection).await?;
    rows.iter().map(|row| Ok((row.text(0)?, row.int(1)?.cast_unsigned()))).collect()
}

/// The books as they stand.
pub(crate) async fn read<DB: Engine>(pool: &Pool<DB>) -> Result<Books, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let postings = Statement::new("SELECT account, sequence, applied FROM ledger_posting ORDER BY id");
    let postings = postings.fetch_all::<DB>(&mut connection).await?;
    let posting = |row: &leastlock::core::Row<DB>| {
        Ok(Posting { account: row.text(0)?, sequence: row.int(1)?, applied: row.int(2)? == 1 })
    };
    let balances = Statement::new("SELECT account, balance FROM ledger_account");
    let balances = balances.fetch_all::<DB>(&mut connection).await?;
    let balances: Result<_, sqlx::Error> = balances.iter().map(|row| Ok((row.text(0)?, row.int(1)?))).collect();
    Ok(Books { postings: postings.iter().map(posting).collect::<Result<_, sqlx::Error>>()?, balances: balances? })
}
