//! The owner's hold on a key: its end, its renewal, and its way back.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use leastlock_core::Statement;
use tokio_util::sync::DropGuard;

use crate::error::Error;
use crate::key::Key;
use crate::phased::failpoint::failpoint;
use crate::phased::log::{Log, RecoveryPoint};
use crate::phased::owner::{Ending, Owner};
use crate::phased::record::{State, millis};
use crate::phased::renewal;
use crate::phased::sql::PhasedSql;
use crate::response::Response;

/// What is kept of the reason of a hold.
const MAX_REASON_BYTES: usize = 1024;

/// A claimed key, and the record of its steps.
///
/// It owns no transaction and no connection, and may go into a spawned task. Its lease is renewed in the background for as long
/// as it exists. Every write carries generation and owner: one that comes too late changes nothing and says
/// [`Error::Superseded`].
///
/// It ends by [`complete`](Self::complete), [`release`](Self::release) or [`hold`](Self::hold). Dropped without any of
/// them, it leaves the key claimed until the lease is over; then the next claimant goes on at its recovery point.
#[must_use = "dropping a run leaves its key claimed until the lease is over"]
pub struct Run<DB: PhasedSql, R> {
    pub(crate) owner: Arc<Owner<DB>>,
    pub(crate) log: Log,
    /// Whether the request has an expiry, after which no step starts.
    pub(crate) expires: bool,
    /// Whether a policy has held the key meanwhile.
    held: bool,
    /// How often the steps were written.
    pub(crate) step_seq: i64,
    /// Whether a write of the steps is under way, or was given up: then this process does not know the log.
    pub(crate) unsure: bool,
    resumed_at: Option<RecoveryPoint>,
    renewal: Option<DropGuard>,
    response: PhantomData<fn(R) -> R>,
}

impl<DB: PhasedSql, R> Run<DB, R> {
    pub(crate) fn new(
        owner: Owner<DB>,
        (log, step_seq): (Log, i64),
        resumed_at: Option<RecoveryPoint>,
        expires: bool,
    ) -> Self {
        let owner = Arc::new(owner);
        let renewal = owner.settings.renewed.then(|| renewal::start(Arc::clone(&owner)));
        Self { owner, log, expires, held: false, step_seq, unsure: false, resumed_at, renewal, response: PhantomData }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.owner.key
    }

    /// The number of this claim: one more with each claimant of the record.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.owner.generation
    }

    /// Where the work goes on, if an owner before has died (or was given up) with the key claimed; `None` for a fresh claim.
    ///
    /// With [`RecoveryPoint::Start`] no step is recorded, and whatever was done outside of steps is not known.
    #[must_use]
    pub fn resumed_at(&self) -> Option<&RecoveryPoint> {
        self.resumed_at.as_ref()
    }

    /// How long this process may still believe that the key is its own, unless the lease is renewed: the sending of the last
    /// confirmed write, plus the lease, less an allowance for drift. Bound calls to a provider by it. Being late is never
    /// dangerous for the record, whose writes are fenced.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.owner.remaining()
    }

    /// Completes when this run is known to be superseded, so that work can be given up early; and when it has come to its end.
    ///
    /// # Cancel safety
    /// Safe.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + use<DB, R> {
        self.owner.over().clone().cancelled_owned()
    }

    /// Sets the lease anew. Needed only where the [setting](crate::phased::PhasedBuilder::renewed) turns the background task
    /// off; every step renews as well.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the key is somebody else's by now.
    ///
    /// # Cancel safety
    /// Dropped half-way, the lease may have been set anew or not.
    pub async fn renew(&self) -> Result<(), Error> {
        let renew = self.owner.fence(Statement::new(DB::RENEW).bind(self.owner.lease_ms()));
        match self.owner.write(renew).await? {
            Ending::Applied => Ok(()),
            Ending::Refused | Ending::MayHaveLanded => Err(self.owner.superseded()),
        }
    }

    /// Frees the key: nothing has happened, and the next request with it is a first.
    ///
    /// # Errors
    /// [`Error::Step`] if something has happened, or may have: a step whose call was started is unknown, never free. Then
    /// nothing changes and the lease runs out. [`Error::Superseded`] if the key is somebody else's by now.
    ///
    /// # Cancel safety
    /// Dropped half-way, the key may be free or not; if not, it is after the lease.
    pub async fn release(self) -> Result<(), Error> {
        self.usable()?;
        self.log.may_release().map_err(|source| Error::Step { source })?;
        failpoint!("release");
        let ended = self.owner.end(self.owner.fence(Statement::new(DB::RELEASE)), None).await;
        failpoint!("released");
        ended
    }

    /// Holds the key: what became of the request is unknown, and it is not run again until somebody has
    /// [resolved](crate::phased::Phased::resolve) it. `reason` is for an operator to read; 1,024 bytes of
    /// it are kept, in the clear whether there is a cipher or not.
    ///
    /// # Errors
    /// [`Error::Superseded`] if the key is somebody else's by now.
    ///
    /// # Cancel safety
    /// Dropped half-way, the key may be held or not; if not, it is in flight until the lease is over.
    pub async fn hold(mut self, reason: &str) -> Result<(), Error> {
        self.held_by(reason).await
    }

    pub(crate) async fn held_by(&mut self, reason: &str) -> Result<(), Error> {
        self.usable()?;
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
        failpoint!("hold");
        let hold = self.owner.fence(Statement::new(DB::HOLD).bind(reason));
        self.owner.end(hold, Some(State::Held)).await?;
        failpoint!("held");
        self.held = true;
        self.renewal = None;
        Ok(())
    }

    /// Whether this run may still write.
    pub(crate) fn usable(&self) -> Result<(), Error> {
        if self.held {
            Err(Error::Held)
        } else if self.unsure {
            Err(Error::NoAnswer { limit: self.owner.settings.lease })
        } else {
            Ok(())
        }
    }
}

impl<DB: PhasedSql, R: Response> Run<DB, R> {
    /// Stores the answer and gives it back. From then on every repeat is answered with it, an error as much as a success.
    ///
    /// # Errors
    /// [`Error::Step`] if the outcome of a step is unknown, or a compensation is not done. [`Error::Superseded`] if the key is
    /// somebody else's by now: begin again to learn what it came to.
    ///
    /// # Cancel safety
    /// Dropped half-way, the answer is stored or not, never half; if not, the next claimant finds all steps done.
    pub async fn complete(self, response: R) -> Result<R, Error> {
        self.usable()?;
        self.log.may_complete().map_err(|source| Error::Step { source })?;
        let parts = response.to_parts().map_err(|source| Error::Serialize { source })?;
        let limit = self.owner.settings.max_response_bytes;
        if parts.bytes() > limit {
            return Err(Error::ResponseTooLarge { bytes: parts.bytes(), limit });
        }
        let parts = self.owner.settings.sealing.seal(&self.owner.key, parts)?;
        let complete = parts.bind(Statement::new(DB::FINISH)).bind(millis(self.owner.settings.retention));
        failpoint!("complete");
        self.owner.end(self.owner.fence(complete), Some(State::Completed)).await?;
        failpoint!("completed");
        Ok(response)
    }
}

impl<DB: PhasedSql, R> fmt::Debug for Run<DB, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Run")
            .field("owner", &self.owner)
            .field("resumed_at", &self.resumed_at)
            .finish_non_exhaustive()
    }
}
