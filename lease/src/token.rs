//! The fencing token, and the nonce that tells owners apart.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::error::Error;

/// A number that the lock store issues with each change of owner, higher every time.
///
/// The resource compares it, and so refuses a holder that came back too late (Martin Kleppmann, "How to do distributed
/// locking", 2016). Registered at the resource it is called the *generation*. At least 1.
///
/// ```
/// use leastlock_lease::FencingToken;
///
/// assert!(FencingToken::new(34) > FencingToken::new(33));
/// assert_eq!(FencingToken::new(0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The token of this value; `None` below 1.
    #[must_use]
    pub const fn new(value: i64) -> Option<Self> {
        if value > 0 { Some(Self(value)) } else { None }
    }

    /// The number, as it is stored.
    #[must_use]
    pub const fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// 128 random bits that name one acquisition: not a process, not a thread.
///
/// Whoever knows a nonce can renew and release, so that it is never shown: [`Debug`](fmt::Debug) and
/// [`Display`](fmt::Display) print a [short hash](OwnerHash).
///
/// ```
/// use leastlock_lease::OwnerNonce;
///
/// let owner = OwnerNonce::random()?;
/// assert_eq!(format!("{owner:?}").len(), 8);
/// # Ok::<(), leastlock_lease::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerNonce([u8; 16]);

impl OwnerNonce {
    /// A fresh nonce from the operating system's random numbers.
    ///
    /// # Errors
    /// [`Error::Randomness`] if it has none; a guessable nonce would be no proof of ownership.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|source| Error::Randomness { source })?;
        Ok(Self(bytes))
    }

    /// One that is stored.
    #[cfg(any(feature = "etcd", feature = "zookeeper"))]
    pub(crate) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes, as they are stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What may be shown of it.
    #[must_use]
    pub fn hash(&self) -> OwnerHash {
        OwnerHash::of(&self.0)
    }
}

impl fmt::Display for OwnerNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.hash(), f)
    }
}

impl fmt::Debug for OwnerNonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.hash(), f)
    }
}

/// The first 32 bits of an owner nonce's SHA-256, shown as eight hexadecimal digits: enough to tell owners apart in a log,
/// useless to act as one.
///
/// ```
/// use leastlock_lease::OwnerHash;
///
/// assert_eq!(OwnerHash::of(&[0; 16]).to_string(), "374708ff");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerHash([u8; 4]);

impl OwnerHash {
    /// The hash of a nonce as it is stored.
    #[must_use]
    pub fn of(nonce: &[u8]) -> Self {
        let digest = Sha256::digest(nonce);
        Self::of_first([digest[0], digest[1], digest[2], digest[3]])
    }

    /// Of the first four bytes of the SHA-256.
    pub(crate) const fn of_first(digest: [u8; 4]) -> Self {
        Self(digest)
    }

    /// Reads one as it is shown.
    #[cfg(feature = "postgres")]
    pub(crate) fn from_hex(shown: &str) -> Option<Self> {
        let is_one = shown.len() == 8 && shown.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_one.then(|| u32::from_str_radix(shown, 16).ok()).flatten().map(|hash| Self(hash.to_be_bytes()))
    }
}

impl fmt::Display for OwnerHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for OwnerHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
