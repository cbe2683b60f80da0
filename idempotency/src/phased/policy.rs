//! What is done about an external step that was started and not heard of again.

use serde::Serialize;

use crate::error::Error;
use crate::phased::external::Failure;
use crate::phased::provider_key::ProviderKey;

/// What a step's policy is: [`RetryWithSameKey`], [`Reconcile`] or [`Hold`]. Sealed.
///
/// It is asked only when a call was started and no outcome is recorded: after a crash, a lost reply, a time-out. A time-out is
/// never an answer; none of the policies makes one of it.
pub trait Policy<T>: sealed::Sealed + Send + Sync {
    /// What to do next.
    fn decide(&self, key: ProviderKey) -> impl Future<Output = Decision<T>> + Send;
}

/// What a policy says.
#[derive(Debug)]
pub enum Decision<T> {
    /// Make the call again, under the same provider key.
    Repeat,
    /// Hold the key.
    Hold,
    /// The provider has been asked, and said this.
    Said(Verdict<T>),
}

/// What a provider says of a call, found by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict<T> {
    /// It took effect, and came to this.
    Done(T),
    /// It was refused for good, and had no effect. A compensation has to have its effect: of one that was refused the key is held.
    Failed(Failure),
    /// It had no effect **and can have none any more**: the provider has not seen it, and would refuse it if it still arrived. The
    /// step is run again. A provider that merely has not seen it *yet* says [`StillUnknown`](Self::StillUnknown).
    NotDone,
    /// Nothing definite: the provider could not be asked, or does not know yet.
    StillUnknown,
}

impl<T> Verdict<T> {
    /// It was refused for good, for this reason.
    ///
    /// # Errors
    /// [`Error::Serialize`] if the reason cannot be written as JSON.
    pub fn failed<E: Serialize>(reason: &E) -> Result<Self, Error> {
        Failure::of(reason).map(Self::Failed)
    }
}

/// The provider deduplicates by the provider key: the call is made again, with the same key and the same content.
///
/// Right for providers that say so of their API (as Stripe and Adyen do of theirs), within the time for which they remember a
/// key: mind the retention of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryWithSameKey;

/// The provider is asked what became of the call, by an `async` function of the provider key.
#[derive(Debug, Clone, Copy)]
pub struct Reconcile<F>(pub F);

/// Neither can be done: the key is held, and an operator resolves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold;

impl<T> Policy<T> for RetryWithSameKey {
    async fn decide(&self, _: ProviderKey) -> Decision<T> {
        Decision::Repeat
    }
}

impl<T> Policy<T> for Hold {
    async fn decide(&self, _: ProviderKey) -> Decision<T> {
        Decision::Hold
    }
}

impl<T, F, Fut> Policy<T> for Reconcile<F>
where
    F: Fn(ProviderKey) -> Fut + Send + Sync,
    Fut: Future<Output = Verdict<T>> + Send,
{
    async fn decide(&self, key: ProviderKey) -> Decision<T> {
        Decision::Said((self.0)(key).await)
    }
}

mod sealed {
    /// Keeps [`Policy`](super::Policy) closed: each policy is a promise about what is done with the unknown.
    pub trait Sealed {}
    impl Sealed for super::RetryWithSameKey {}
    impl Sealed for super::Hold {}
    impl<F> Sealed for super::Reconcile<F> {}
}
