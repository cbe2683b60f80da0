//! The background task that renews the lease of a run.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;

use crate::measure;
use crate::phased::owner::Owner;
use crate::phased::sql::PhasedSql;

/// Starts it. Dropping the guard stops it; a renewal in flight then ends by itself, and its condition refuses it once the run
/// has come to its end.
pub(crate) fn start<DB: PhasedSql>(owner: Arc<Owner<DB>>) -> DropGuard {
    let stop = CancellationToken::new();
    tokio::spawn(renew_until(owner, stop.clone()).in_current_span());
    stop.drop_guard()
}

async fn renew_until<DB: PhasedSql>(owner: Arc<Owner<DB>>, stop: CancellationToken) {
    let mut failed = false;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = owner.over().cancelled() => return,
            () = tokio::time::sleep(pause(&owner, failed)) => {}
        }
        // Not dropped half-way: a statement whose reply is not read costs its connection.
        failed = match owner.renew_once().await {
            Ok(true) => false,
            Ok(false) => {
                owner.superseded();
                return;
            }
            Err(_) => {
                measure::renewal_failed();
                true
            }
        };
    }
}

/// Until a third of the lease is used up, a little less or more, so that runs which began together do not stay together. An
/// attempt that failed is repeated sooner, and not at once.
fn pause<DB: PhasedSql>(owner: &Owner<DB>, failed: bool) -> Duration {
    let lease = owner.settings.lease;
    if failed {
        return (lease / 24).mul_f64(1.0 + fastrand::f64());
    }
    let used = owner.settings.validity().saturating_sub(owner.remaining());
    (lease / 3).saturating_sub(used) + (lease / 30).mul_f64(fastrand::f64())
}
