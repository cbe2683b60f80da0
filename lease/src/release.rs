//! Giving a lease back.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::to_its_end;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::event;
use crate::held::{Handed, Held};
use crate::queue::Passed;
use crate::renewal::RenewalTask;
use crate::store::Release;

/// How often an unanswered release is sent, at most.
const ATTEMPTS: u32 = 3;

/// How long the next one of this process has for an attempt that was on its way already when the lock was left to it.
const UNTIL_ASKED: Duration = Duration::from_secs(1);

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Released {
    /// The lock is free.
    Released,
    /// The lock was not this owner's any more; whoever has it keeps it.
    NotOwner,
    /// The store did not answer. The lock is free when the lease has run out, at the latest.
    Unknown,
}

impl From<Release> for Released {
    fn from(release: Release) -> Self {
        match release {
            Release::Released => Self::Released,
            Release::NotOwner => Self::NotOwner,
        }
    }
}

/// Ends the renewal, waits for the one in flight, refuses all permits, then hands the lease on to a waiter of this process, or
/// releases.
///
/// Goes on in a task if the caller is dropped now: that the lease may be released is decided already.
pub(crate) async fn release(held: Arc<Held>, renewal: Option<RenewalTask>) -> Released {
    to_its_end(async move {
        if let Some(renewal) = renewal {
            renewal.join().await;
        }
        let release = match held.hand_on() {
            Handed::On => {
                event::handed_on(&held);
                return Released::Released;
            }
            Handed::Over(hears) => match told(&held, hears).await {
                // Which is logged already.
                Ok(Passed::Taken) => return Released::Released,
                Ok(Passed::NotOwner) => Some(Release::NotOwner),
                // If it is somebody else's now, that may be the next one.
                Ok(Passed::Unknown) => send(&held).await.filter(|sent| *sent == Release::Released),
                Err(NotAsked) => send(&held).await,
            },
            Handed::Nowhere => send(&held).await,
        };
        if release.is_none() {
            held.let_expire(held.hold().ttl());
        }
        held.wake_next();
        event::released(&held, release);
        release.map_or(Released::Unknown, Released::from)
    })
    .await
}

/// The next one has left before it asked, or it waits for another answer still.
struct NotAsked;

/// What became of a lock that was left to the next one.
async fn told(held: &Held, mut hears: oneshot::Receiver<Passed>) -> Result<Passed, NotAsked> {
    let limit = held.hold().attempt_timeout();
    let told = match timeout(limit.min(UNTIL_ASKED), &mut hears).await {
        Err(_not_yet) if held.withdraw() => return Err(NotAsked),
        Err(_asks) => timeout(limit, hears).await.unwrap_or(Ok(Passed::Unknown)),
        Ok(told) => told,
    };
    told.map_err(|_left| NotAsked)
}

async fn send(held: &Held) -> Option<Release> {
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            let pause = held.hold().attempt_timeout().min(Duration::from_millis(100));
            tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
        }
        if let Some(release) = held.release().await {
            return Some(release);
        }
    }
    None
}
