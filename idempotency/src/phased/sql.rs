//! The statements of the phased mode, per engine.

use leastlock_core::Dialect;

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

/// An engine that keeps records of the phased mode. Implemented wherever [`Dialect`] is.
///
/// # Contract
/// Parameters are bound in the order that is given with each statement, each once. *Fence* stands for scope, key, generation
/// and owner; a statement that has it changes one row, or none if the record is somebody else's.
pub trait PhasedSql: Dialect {
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
    /// Steps, recovery point or NULL, lease in ms, fence.
    const SAVE: &'static str;
    /// As [`SAVE`](Self::SAVE), and changes nothing once the request has expired.
    const START: &'static str;
    /// Status or NULL, headers or NULL, body, retention in ms, fence.
    const COMPLETE: &'static str;
    /// Reason, fence.
    const HOLD: &'static str;
    /// Fence.
    const RELEASE: &'static str;
}
