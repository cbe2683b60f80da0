//! The statements of the phased mode, per engine.

use sqlx::Pool;

use crate::claim::Limits;
use crate::own_transaction::OwnTransaction;
use crate::sql::IdempotencySql;

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// An engine that keeps records of the phased mode. Implemented wherever [`IdempotencySql`] is.
///
/// # Contract
/// Parameters are bound in the order that is given with each statement, each once. *Fence* stands for scope, key, generation
/// and owner; a statement that has it changes one row, or none if the record is somebody else's.
pub trait PhasedSql: IdempotencySql {
    /// Scope, key, fingerprint, owner, lease in ms, ms until no step starts or NULL. No row, or a unique violation, if a record
    /// is there.
    const CLAIM: &'static str;
    /// Scope, key. Answers the record.
    const RECORD: &'static str;
    /// Fingerprint, owner, lease in ms, ms until no step starts or NULL, scope, key. Claims an expired record.
    const RECLAIM: &'static str;
    /// Owner, lease in ms, scope, key, generation. Takes over a record whose lease is over.
    const TAKE_OVER: &'static str;
    /// Lease in ms, fence.
    const RENEW: &'static str;
    /// Steps, recovery point or NULL, lease in ms, fence, the number of writes of steps before.
    const SAVE: &'static str;
    /// As [`SAVE`](Self::SAVE), and changes nothing once the request has expired.
    const START: &'static str;
    /// Fence. Answers a row if a step may start.
    const MAY_START: &'static str;
    /// Status or NULL, headers or NULL, body, retention in ms, fence.
    const FINISH: &'static str;
    /// Reason, fence.
    const HOLD: &'static str;
    /// Fence.
    const RELEASE: &'static str;
    /// Scope, key. Answers the record as [`RECORD`](Self::RECORD) does, and keeps it from changing until the transaction ends.
    const LOCK: &'static str;
    /// Steps, recovery point or NULL, scope, key, generation. Gives an unfinished record to the next claimant.
    const REOPEN: &'static str;
    /// Status or NULL, headers or NULL, body, retention in ms, scope, key, generation. Completes an unfinished record.
    const SETTLE: &'static str;
    /// Scope, key, generation. Deletes an unfinished record.
    const FORGET: &'static str;
    /// Scope, key, generation, step or NULL, outcome, by whom, reason.
    const AUDIT: &'static str;
    /// Age in ms, how many at most. Deletes rows of the audit, the oldest first.
    const SWEEP_AUDIT: &'static str;
    /// Age in ms twice, how many at most. Answers unknown records as [`RECORD`](Self::RECORD) does, with scope and key behind.
    const UNKNOWN: &'static str;
    /// Age in ms twice, how many asks at most, how many at most. Answers as [`UNKNOWN`](Self::UNKNOWN) does, with the number of
    /// asks behind, those records whose provider may be asked again.
    const ASKABLE: &'static str;
    /// Pause in ms, scope, key, generation. Takes a record for one ask.
    const ASK: &'static str;

    /// Begins a local step, in which the server bounds idling, where it can, before the step has locked anything: what comes first
    /// is the caller's own statement, so none of ours can set the bound for it, as the claim does for a unit. Dropped at any time,
    /// no transaction stays open.
    fn begin_step(
        pool: &Pool<Self>,
        limits: &Limits,
    ) -> impl Future<Output = Result<OwnTransaction<Self>, sqlx::Error>> + Send;
}
