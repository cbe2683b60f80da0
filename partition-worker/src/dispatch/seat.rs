//! What a task keeps from one record to the next.

use sqlx::Pool;

use crate::own_transaction::OwnTransaction;
use crate::sql::WorkerSql;

/// After so many records in a row a connection goes back to its pool all the same: a part of what it costs is saved that
/// is as good as all, and the pool's own rules for its connections (their age, its callbacks, its end) hold.
const RECORDS_IN_A_ROW: u32 = 100;

/// The transaction that was begun with the commit of the last record, for the next one of the same task. Nothing has happened in it,
/// and it holds no lock.
///
/// A task that has nothing to do, or has to wait for something else than its own record, keeps none; and none is kept while
/// the pool has no connection to spare for whoever asks next. So a worker takes no more of the pool than it has handlers at work.
pub(crate) struct Seat<DB: WorkerSql> {
    kept: Option<OwnTransaction<DB>>,
    in_a_row: u32,
}

impl<DB: WorkerSql> Seat<DB> {
    /// The transaction, for the next record.
    pub(super) const fn take(&mut self) -> Option<OwnTransaction<DB>> {
        self.kept.take()
    }

    /// Keeps it, if there is one.
    pub(super) fn keep(&mut self, begun: Option<OwnTransaction<DB>>) {
        self.kept = begun;
        self.in_a_row += 1;
    }

    /// Whether the connection of the record that ends may be kept for the next; if it may not, the count begins anew.
    pub(super) fn may_keep(&mut self, pool: &Pool<DB>) -> bool {
        let is_spare = pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections();
        let may = is_spare && !pool.is_closed() && self.in_a_row < RECORDS_IN_A_ROW;
        if !may {
            self.in_a_row = 0;
        }
        may
    }
}

impl<DB: WorkerSql> Default for Seat<DB> {
    fn default() -> Self {
        Self { kept: None, in_a_row: 0 }
    }
}
