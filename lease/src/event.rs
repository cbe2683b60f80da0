//! Lease events, logged at INFO, and at WARN where a lease is lost or its renewal fails: the only lines above TRACE that this crate
//! writes.
//!
//! They name the lock, the token, the times (milliseconds since 1970, on the client's wall clock) and the job; the owner
//! only as a short hash, and no nonce, ever.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::admin::Seizure;
use crate::fence::{Blocker, Refusal};
use crate::held::Held;
use crate::measure;
use crate::permit::Permit;
use crate::state::LossReason;
use crate::store::{Release, StoreError};

macro_rules! event {
    ($held:expr, $($rest:tt)+) => {
        event!(INFO: $held, $($rest)+)
    };
    ($level:ident: $held:expr, $($rest:tt)+) => {
        tracing::event!(
            target: "leastlock_lease",
            tracing::Level::$level,
            lock = %$held.name(),
            token = $held.token().map(crate::FencingToken::value),
            owner = %$held.nonce(),
            job = $held.job(),
            $($rest)+
        )
    };
}

pub(crate) fn acquired(held: &Held) {
    let now = unix_ms(Duration::ZERO);
    let expires = unix_ms(held.remaining().unwrap_or_default());
    event!(held, acquired_at_ms = now, expires_at_ms = expires, "lease acquired");
}

pub(crate) fn renewal_failed(held: &Held, error: Option<&StoreError>) {
    let expires = unix_ms(held.remaining().unwrap_or_default());
    let timed_out = error.is_none();
    event!(WARN: held, expires_at_ms = expires, timed_out, "lease renewal failed");
}

pub(crate) fn lost(held: &Held, reason: LossReason) {
    event!(WARN: held, lost_at_ms = unix_ms(Duration::ZERO), ?reason, "lease lost");
}

pub(crate) fn released(held: &Held, release: Option<Release>) {
    event!(held, released_at_ms = unix_ms(Duration::ZERO), ?release, "lease released");
}

pub(crate) fn handed_on(held: &Held) {
    event!(held, released_at_ms = unix_ms(Duration::ZERO), "lease handed on within the process");
}

/// Without a time if the lease was lost before: how long the store keeps it is not known then.
pub(crate) fn left_to_expire(held: &Held, remaining: Option<Duration>, outlived: usize) {
    event!(held, expires_at_ms = remaining.map(unix_ms), outlived, "lease left to expire");
}

pub(crate) fn outlived(held: &Held, tasks: usize) {
    event!(held, tasks, "tasks outlived the lease's cancel deadline");
}

pub(crate) fn period_done(held: &Held) {
    event!(held, completed_at_ms = unix_ms(Duration::ZERO), "period done");
}

pub(crate) fn force_released(seizure: &Seizure) {
    tracing::info!(
        target: "leastlock_lease",
        lock = %seizure.name(),
        token = seizure.token().value(),
        owner = %seizure.operation(),
        released_at_ms = unix_ms(Duration::ZERO),
        "lease taken away by an operator"
    );
}

pub(crate) fn forced_seal_waits(seizure: &Seizure, resource: &str, blocker: &Blocker) {
    tracing::info!(
        target: "leastlock_lease",
        lock = %seizure.name(),
        token = seizure.token().value(),
        owner = %seizure.operation(),
        resource,
        blocker_pid = blocker.pid,
        blocker_state = blocker.state.as_deref(),
        "seal waits for an open transaction"
    );
}

pub(crate) fn refused(permit: &Permit, resource: &str, refusal: Refusal) {
    measure::refused(refusal);
    event!(permit.held(), resource, ?refusal, "late write refused");
}

/// The same for a token that came with a request, whose lease is elsewhere.
#[cfg(feature = "tower")]
pub(crate) fn refused_request(token: crate::FencingToken, owner: crate::OwnerHash, resource: &str, refusal: Refusal) {
    measure::refused(refusal);
    tracing::info!(
        target: "leastlock_lease",
        token = token.value(),
        %owner,
        resource,
        ?refusal,
        "late write refused"
    );
}

pub(crate) fn seal_waits(permit: &Permit, resource: &str, blocker: &Blocker) {
    event!(
        permit.held(),
        resource,
        blocker_pid = blocker.pid,
        blocker_state = blocker.state.as_deref(),
        "seal waits for an open transaction"
    );
}

fn unix_ms(ahead: Duration) -> u64 {
    let since = (SystemTime::now() + ahead).duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
