//! What a lease may be relied on for, in its type.

use std::fmt;

use crate::store::StoreToken;
use crate::token::FencingToken;

/// What a lease may be relied on for. Sealed: [`Efficiency`] and [`Correctness`].
pub trait Kind: sealed::Sealed + fmt::Debug + Copy + Send + Sync + 'static {}

/// Saves work from being done twice. It may be held twice, has no token, and gives no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Efficiency(());

/// Keeps two holders apart at a resource that compares tokens. It comes only from a [`FencedStore`](crate::FencedStore).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Correctness {
    pub(crate) token: FencingToken,
}

impl Efficiency {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

impl Kind for Efficiency {}
impl Kind for Correctness {}

/// How a lease of this kind comes of what a store issued.
pub(crate) trait Granted<Token>: Kind {
    /// The kind of a lease that another holder has handed on without a trip, if that is possible: a fenced one needs a token of
    /// its own for each owner.
    const HANDED_ON: Option<Self>;

    fn granted(token: Token) -> Self;
}

impl<Token: StoreToken> Granted<Token> for Efficiency {
    const HANDED_ON: Option<Self> = Some(Self::new());

    fn granted(_token: Token) -> Self {
        Self::new()
    }
}

impl Granted<FencingToken> for Correctness {
    const HANDED_ON: Option<Self> = None;

    fn granted(token: FencingToken) -> Self {
        Self { token }
    }
}

mod sealed {
    /// Keeps [`Kind`](super::Kind) closed: whoever could make one could make permits.
    pub trait Sealed {}

    impl Sealed for super::Efficiency {}
    impl Sealed for super::Correctness {}
}
