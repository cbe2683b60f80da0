//! The ledger: units out and back per stock code, built from the events by one writer per code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use leastlock::core::Statement;
use leastlock::occ::guarded;
use leastlock::partition_worker::{Failure, Handler, Record};
use serde::{Deserialize, Serialize};
use sqlx::Transaction;

use crate::engine::Engine;

const APPLY: &str = "UPDATE ledger \
    SET units_out = units_out + $2, units_back = units_back + $3, last_sequence = $4 \
    WHERE stock_code = $1 AND last_sequence = $4 - 1";
const LAST: &str = "SELECT last_sequence FROM ledger WHERE stock_code = $1";

/// What the event of a stock code says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Moved {
    pub(crate) invoice: String,
    /// The number of the move among its code's, taken under the row's lock.
    pub(crate) sequence: i64,
    pub(crate) out: i64,
    pub(crate) back: i64,
}

/// The handler. Its effect is exactly once per record; a relay that publishes an event twice makes two records of it, and
/// the sequence tells the second from a new one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    figures: Arc<Figures>,
}

#[derive(Debug, Default)]
struct Figures {
    applied: AtomicU64,
    repeated: AtomicU64,
}

impl Ledger {
    /// Handler calls that applied an event; one that is rolled back and run again counts twice.
    pub(crate) fn applied(&self) -> u64 {
        self.figures.applied.load(Relaxed)
    }

    /// Records that repeated an event.
    pub(crate) fn repeated(&self) -> u64 {
        self.figures.repeated.load(Relaxed)
    }
}

impl<DB: Engine> Handler<DB> for Ledger {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        let code = str::from_utf8(record.key().unwrap_or_default()).map_err(Failure::permanent)?;
        let Moved { invoice, sequence, out, back } = record.json()?;
        let apply = Statement::new(APPLY).bind(code).bind(out).bind(back).bind(sequence).into_query::<DB>()?;
        if guarded(apply).execute(&mut **tx).await?.is_applied() {
            self.figures.applied.fetch_add(1, Relaxed);
            return Ok(());
        }
        let last = Statement::new(LAST).bind(code).fetch_optional::<DB>(tx).await?;
        match last.map(|row| row.int(0)).transpose()? {
            Some(last) if last >= sequence => {
                self.figures.repeated.fetch_add(1, Relaxed);
                Ok(())
            }
            last => Err(Failure::permanent(OutOfOrder { code: code.to_owned(), invoice, sequence, last })),
        }
    }
}

/// An event that came before its predecessor.
#[derive(Debug, thiserror::Error)]
#[error("stock code {code}: move {sequence} (invoice {invoice}) came after move {last:?}")]
pub(crate) struct OutOfOrder {
    code: String,
    invoice: String,
    sequence: i64,
    last: Option<i64>,
}
