//! Giving a lease back.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::to_its_end;
use tokio::time::timeout;

use crate::event;
use crate::held::{Handed, Held};
use crate::queue::Passed;
use crate::renewal::RenewalTask;
use crate::store::Release;

/// How often an unanswered release is sent, at most.
const ATTEMPTS: u32 = 3;

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
            Handed::Over(hears) => {
                let told = timeout(held.hold().attempt_timeout(), hears).await;
                match told {
                    Ok(Ok(Passed::Taken)) => {
                        event::released(&held, Some(Release::Released));
                        return Released::Released;
                    }
                    Ok(Ok(Passed::NotOwner)) => Some(Release::NotOwner),
                    // The next one has left without having asked.
                    Ok(Err(_)) => send(&held).await,
                    // If it is somebody else's now, that may be the next one.
                    Ok(Ok(Passed::Unknown)) | Err(_) => send(&held).await.filter(|sent| *sent == Release::Released),
                }
            }
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
