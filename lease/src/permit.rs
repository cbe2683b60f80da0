//! What a protected resource asks for.

use std::sync::Arc;

use crate::accessors::accessors;
use crate::error::Error;
use crate::fence::Refusal;
use crate::held::Held;
use crate::owner_mark::OwnerMark;
use crate::token::{FencingToken, OwnerNonce};

/// The right to write to a protected resource, as one holder of a lease has it.
///
/// It carries the lock's name, the fencing token, the owner's nonce and the lease's deadline, and is checked when it is
/// used: it follows the lease, so a renewal prolongs it and a loss ends it at once. Whatever the client believes, the
/// resource compares token and owner once more.
///
/// It is owned, so that it can go into a spawned task. It is not `Clone` and cannot be built: it comes from
/// [`Scope::permit`](crate::Scope::permit) or [`CorrectnessLease::permit`](crate::Lease::permit) alone.
///
/// ```compile_fail,E0599
/// fn twice(permit: leastlock_lease::Permit) -> [leastlock_lease::Permit; 2] {
///     [permit.clone(), permit]
/// }
/// ```
#[derive(Debug)]
#[must_use = "a permit protects nothing until the resource has checked it"]
pub struct Permit {
    held: Arc<Held>,
    token: FencingToken,
}

impl Permit {
    /// A permit, if the lease stands and is confirmed.
    pub(crate) fn new(held: &Arc<Held>, token: FencingToken) -> Result<Self, Error> {
        held.permits()?;
        Ok(Self { held: Arc::clone(held), token })
    }

    accessors!();

    /// The fencing token.
    #[must_use]
    pub const fn token(&self) -> FencingToken {
        self.token
    }

    /// The owner's nonce, for resources that keep it beside the generation.
    #[must_use]
    pub fn owner(&self) -> &OwnerNonce {
        self.held.nonce()
    }

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// What stands for the owner where others can read it.
    pub(crate) fn owner_mark(&self) -> OwnerMark {
        OwnerMark::of(self.owner().as_bytes())
    }

    /// The same permit, for something of this crate's that outlives a borrow.
    pub(crate) fn again(&self) -> Self {
        Self { held: Arc::clone(&self.held), token: self.token }
    }

    /// The refusal that needs no resource, if the lease is over on the holder's side.
    pub(crate) fn refusal_if_lost(&self) -> Option<Refusal> {
        match self.held.standing() {
            Err(Error::Lost { reason, .. }) => Some(Refusal::Lost { reason }),
            _ => None,
        }
    }
}
