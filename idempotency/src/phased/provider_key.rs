//! The key that a provider is given for one step.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::key::Key;

/// The idempotency key of one external step, to be sent to its provider: 64 hexadecimal digits, the SHA-256 over scope, key and
/// step, each preceded by its length (so that no two divisions of the same letters meet).
///
/// It depends on nothing else: every attempt, process and version of the program derives the same one, so that a provider which
/// takes such keys has one effect for all of them. A key made anew for each attempt is a second charge.
///
/// ```
/// use leastlock_idempotency::phased::ProviderKey;
/// use leastlock_idempotency::{Key, Scope};
///
/// let key = Key::new(&Scope::new("tenant-7", "user-3", "pay").unwrap(), "8f14e45f").unwrap();
/// let charge = ProviderKey::derive(&key, "charge");
/// assert_eq!(charge, ProviderKey::derive(&key, "charge"));
/// assert_ne!(charge, ProviderKey::derive(&key, "refund"));
/// assert_eq!(charge.as_str().len(), 64);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProviderKey(String);

impl ProviderKey {
    /// The key of `step` of the request `key`.
    #[must_use]
    pub fn derive(key: &Key, step: &str) -> Self {
        let mut digest = Sha256::new();
        for part in [key.scope().as_str(), key.as_str(), step] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        let hex = |digits: String, byte: &u8| digits + &format!("{byte:02x}");
        Self(digest.finalize().iter().fold(String::with_capacity(64), hex))
    }

    /// The key, as it is sent.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

// Whoever knows a provider key can replay its answer, so it does not reach a log by way of `{:?}`.
impl fmt::Debug for ProviderKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProviderKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Scope;

    fn of(scope: &str, key: &str, step: &str) -> ProviderKey {
        ProviderKey::derive(&Key::new(&Scope::of_operation(scope).unwrap(), key).unwrap(), step)
    }

    #[test]
    fn i17_derived_key_is_the_same_in_every_version() {
        // Computed apart from this code: sha256(u64be(5) "//pay" u64be(2) "k1" u64be(6) "charge").
        let charge = "6c4af5f75f9624ffffb085f9450968ee94b2faf0934a8b08248bbd0acb64feb5";
        assert_eq!(of("pay", "k1", "charge").as_str(), charge);
    }

    #[test]
    fn i8_parts_that_meet_at_another_border_derive_other_keys() {
        assert_ne!(of("pay", "k1", "1charge"), of("pay", "k11", "charge"));
        assert_ne!(of("pay", "k1", "charge"), of("pa", "yk1", "charge"));
    }
}
