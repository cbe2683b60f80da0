//! What an error of a session that reads comes from.

use leastlock_core::Statement;
use sqlx::Postgres;

use crate::error::Error;
use crate::relay::connection::Lent;
use crate::wal::error::WalError;
use crate::wal::name::SlotName;
use crate::wal::session::Owner;
use crate::wal::slot::State;

const EVICT: &str = include_str!("../../sql/postgres/wal/evict.sql");

/// Says what is wrong with the slot, where the slot is to blame. Where a session left over from another relay has it, ends that
/// session; the next attempt finds the slot free.
pub(super) async fn explain(error: Error, mut connection: Lent<Postgres>, name: &SlotName, owner: &Owner) -> Error {
    if let Error::Wal(WalError::Busy { .. }) = &error {
        let session_name = name.of_session();
        let evict = Statement::new(EVICT).bind(name.as_str()).bind(owner.session).bind(&session_name);
        let ended = evict.fetch_one::<Postgres>(&mut connection).await.and_then(|row| row.int(0));
        if ended.is_ok_and(|ended| ended > 0) {
            tracing::warn!(slot = name.as_str(), "a session left over from another relay read the slot; it was ended");
        }
        return error;
    }
    if error.is_retryable() || matches!(error, Error::Wal(_)) {
        return error;
    }
    match State::read(&mut connection, name).await.map(|state| state.check(name)) {
        Ok(Err(found)) => found.into(),
        Ok(Ok(_)) => of_publication(error, name),
        Err(_) => error,
    }
}

/// The slot and the publication are there, and yet something is not: the publication was made anew.
fn of_publication(error: Error, name: &SlotName) -> Error {
    /// `undefined_object` (PostgreSQL's manual, Appendix A).
    const UNDEFINED: &str = "42704";
    match &error {
        Error::Database { source: sqlx::Error::Database(inner), .. } if inner.code().as_deref() == Some(UNDEFINED) => {
            WalError::Publication { publication: name.as_str().to_owned() }.into()
        }
        _ => error,
    }
}
