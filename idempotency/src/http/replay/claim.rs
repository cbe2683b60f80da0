//! The claim of a request's key, within a limit.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;

use super::super::problem::Problem;
use super::super::report;
use super::Replay;
use super::end::release;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::key::Key;
use crate::phased::bounded::within;
use crate::phased::{PhasedBegin, PhasedSql};
use crate::response::HttpResponse;

/// For how many times `max_claim` a claim that is late is waited for, to be given back. Its request keeps its place so long.
const LATE: u32 = 5;

type Begun<DB> = PhasedBegin<DB, HttpResponse>;
type Claiming<DB> = Pin<Box<dyn Future<Output = Result<Begun<DB>, Error>> + Send>>;

/// Claims the key within `max_claim`. A claim that comes later is given back, so that no key is held for a handler that
/// never ran.
pub(super) async fn claim<DB: PhasedSql>(
    replay: &Replay<DB>,
    key: &Key,
    fingerprint: Fingerprint,
    permit: OwnedSemaphorePermit,
) -> Result<(Begun<DB>, OwnedSemaphorePermit), Problem> {
    let (phased, pool, key) = (replay.phased.clone(), replay.pool.clone(), key.clone());
    let mut claiming: Claiming<DB> = Box::pin(async move { phased.begin(&pool, &key, &fingerprint).await });
    if let Ok(begun) = tokio::time::timeout(replay.max_claim, &mut claiming).await {
        return Ok((begun.map_err(|error| report::store_failed(&error))?, permit));
    }
    let (wait, max_record) = (replay.max_claim * LATE, replay.max_record);
    replay.tasks.spawn(give_back(claiming, wait, max_record, permit).in_current_span());
    Err(report::store_silent())
}

async fn give_back<DB: PhasedSql>(
    claiming: Claiming<DB>,
    wait: Duration,
    max_record: Duration,
    permit: OwnedSemaphorePermit,
) {
    if let Some(Ok(PhasedBegin::First(run))) = within::<DB, _>(wait, claiming).await {
        // A key that was taken over is not this request's to free: dropped, it goes to the next claimant after the lease.
        if run.resumed_at().is_none() {
            release(run, max_record).await;
        }
    }
    drop(permit);
}
