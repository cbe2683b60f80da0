//! What stands for an owner where others can read it.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::token::OwnerHash;

/// The first 128 bits of an owner nonce's SHA-256: tells two owners apart wherever it is kept or sent, and is of no use to
/// renew or release, as the nonce is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OwnerMark([u8; 16]);

impl OwnerMark {
    /// Of a nonce as it is stored.
    pub(crate) fn of(nonce: &[u8]) -> Self {
        let digest = Sha256::digest(nonce);
        let mut mark = [0; 16];
        mark.copy_from_slice(&digest[..16]);
        Self(mark)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Of the bytes that [`as_bytes`](Self::as_bytes) gave.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Of the 32 hexadecimal digits that `Display` wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_hexadecimal = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let value = is_hexadecimal.then(|| u128::from_str_radix(text, 16).ok())??;
        Some(Self(value.to_be_bytes()))
    }

    /// The hash that log lines show of the same owner.
    pub(crate) const fn hash(&self) -> OwnerHash {
        let [a, b, c, d, ..] = self.0;
        OwnerHash::of_first([a, b, c, d])
    }
}

impl fmt::Display for OwnerMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for OwnerMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.hash(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_shows_the_hash_of_its_nonce_and_comes_back_from_its_digits() {
        let mark = OwnerMark::of(&[7; 16]);
        assert_eq!(mark.hash(), OwnerHash::of(&[7; 16]));
        assert_eq!(OwnerMark::parse(&mark.to_string()), Some(mark));
        assert_eq!(OwnerMark::from_bytes(mark.as_bytes()), Some(mark));
        let zero = format!("{:032x}", 0);
        for wrong in
            ["", "0", &zero[1..], &format!("{zero}0"), &zero.replacen('0', "A", 1), &zero.replacen('0', "+", 1)]
        {
            assert_eq!(OwnerMark::parse(wrong), None, "{wrong}");
        }
    }
}
