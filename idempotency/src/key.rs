//! Scope and key: which request is meant.

use std::fmt;

/// Longest scope in bytes, as stored.
const MAX_SCOPE_BYTES: usize = 512;
/// Longest key in characters (Stripe's limit).
const MAX_KEY_CHARS: usize = 255;

/// Whose keys, for what: tenant, principal and operation. Equal keys in different scopes are different records, so one
/// tenant can neither read nor block another's answers.
///
/// ```
/// use leastlock_idempotency::Scope;
///
/// let scope = Scope::new("tenant-7", "user-3", "place-order").unwrap();
/// assert_eq!(scope.as_str(), "tenant-7/user-3/place-order");
/// // Parts keep their borders whatever they contain.
/// assert_ne!(Scope::new("a/b", "c", "d"), Scope::new("a", "b/c", "d"));
/// assert!(Scope::new("", "user-3", "place-order").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Scope(String);

impl Scope {
    /// The scope of a tenant's principal and an operation.
    ///
    /// # Errors
    /// [`KeyError::ScopePart`] if a part is empty or has control characters, [`KeyError::ScopeTooLong`] over 512 bytes.
    pub fn new(tenant: &str, principal: &str, operation: &str) -> Result<Self, KeyError> {
        for (name, part) in [("tenant", tenant), ("principal", principal), ("operation", operation)] {
            if part.is_empty() || part.chars().any(char::is_control) {
                return Err(KeyError::ScopePart { name });
            }
        }
        Self::joined([tenant, principal, operation])
    }

    /// The scope of an operation in a service that has neither tenants nor principals.
    ///
    /// # Errors
    /// As [`new`](Self::new). It never equals a scope that has a tenant.
    pub fn of_operation(operation: &str) -> Result<Self, KeyError> {
        if operation.is_empty() || operation.chars().any(char::is_control) {
            return Err(KeyError::ScopePart { name: "operation" });
        }
        Self::joined(["", "", operation])
    }

    /// The scope as it is stored: its parts with `/` between them, `/` and `%` in a part written `%2F` and `%25`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// From the database, where only checked scopes are.
    pub(crate) fn stored(scope: String) -> Self {
        Self(scope)
    }

    fn joined(parts: [&str; 3]) -> Result<Self, KeyError> {
        let scope = parts.map(|part| part.replace('%', "%25").replace('/', "%2F")).join("/");
        if scope.len() > MAX_SCOPE_BYTES {
            return Err(KeyError::ScopeTooLong { bytes: scope.len() });
        }
        Ok(Self(scope))
    }
}

/// A client's key for one request, in its scope: 1 to 255 visible ASCII characters.
///
/// ```
/// use leastlock_idempotency::{Key, KeyError, Scope};
///
/// let scope = Scope::of_operation("place-order").unwrap();
/// assert!(Key::new(&scope, "8f14e45f-ceea-467f").is_ok());
/// assert_eq!(Key::new(&scope, ""), Err(KeyError::Missing));
/// assert_eq!(Key::required(&scope, None), Err(KeyError::Missing));
/// assert!(Key::new(&scope, "two words").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    scope: Scope,
    key: String,
}

impl Key {
    /// A key in a scope.
    ///
    /// # Errors
    /// [`KeyError::Missing`] if it is empty, [`KeyError::Malformed`] if it is too long or has a character that is not
    /// visible ASCII.
    pub fn new(scope: &Scope, key: &str) -> Result<Self, KeyError> {
        if key.is_empty() {
            return Err(KeyError::Missing);
        }
        if key.len() > MAX_KEY_CHARS || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KeyError::Malformed);
        }
        Ok(Self { scope: scope.clone(), key: key.to_owned() })
    }

    /// A key that a request may have forgotten. There is no such thing as a shared record for requests without a key.
    ///
    /// # Errors
    /// As [`new`](Self::new); `None` is [`KeyError::Missing`].
    pub fn required(scope: &Scope, key: Option<&str>) -> Result<Self, KeyError> {
        Self::new(scope, key.ok_or(KeyError::Missing)?)
    }

    /// From the database, where only checked keys are.
    pub(crate) fn stored(scope: Scope, key: String) -> Self {
        Self { scope, key }
    }

    /// The scope.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The key without its scope.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.key
    }
}

// Keys and scopes can name people, so they do not reach a log by way of `{:?}`.
impl fmt::Debug for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Scope(…)")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

/// Why a scope or key was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A part of the scope is empty or has control characters.
    #[error("the {name} of an idempotency scope must not be empty or have control characters")]
    ScopePart {
        /// Which part.
        name: &'static str,
    },
    /// The scope is longer than 512 bytes.
    #[error("an idempotency scope takes at most {MAX_SCOPE_BYTES} bytes, this one has {bytes}")]
    ScopeTooLong {
        /// Its length.
        bytes: usize,
    },
    /// There is no key.
    #[error("the request has no idempotency key; send one, unique to this request and equal on every repeat of it")]
    Missing,
    /// The key is not 1 to 255 visible ASCII characters.
    #[error("an idempotency key is 1 to {MAX_KEY_CHARS} visible ASCII characters")]
    Malformed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i9_a_request_without_a_key_has_no_record() {
        /// Whether two requests that brought no key would meet in one record.
        fn meet<K: PartialEq>(key_of: impl Fn(Option<&str>) -> Option<K>) -> bool {
            [None, Some("")].into_iter().any(|none| key_of(none).is_some() && key_of(none) == key_of(none))
        }
        let scope = Scope::of_operation("place-order").unwrap();
        assert!(!meet(|key| Key::required(&scope, key).ok()));
        assert!(meet(|key| Some(key.unwrap_or_default().to_owned())), "the double makes a key of nothing");
        assert_eq!(Key::required(&scope, None), Err(KeyError::Missing));
    }

    #[test]
    fn only_visible_ascii_of_bounded_length_is_a_key() {
        let scope = Scope::of_operation("place-order").unwrap();
        for wrong in ["a b", "a\n", "ä", "\u{7f}", &"k".repeat(256)] {
            assert_eq!(Key::new(&scope, wrong), Err(KeyError::Malformed), "{wrong:?}");
        }
        assert!(Key::new(&scope, &"k".repeat(255)).is_ok());
    }

    #[test]
    fn an_operation_scope_never_meets_a_tenants() {
        assert_ne!(Scope::of_operation("x"), Scope::new("-", "-", "x"));
        assert!(Scope::new("t", " ", "x").is_ok());
        assert!(Scope::new("t", "p", "\u{1}").is_err());
    }

    #[test]
    fn debug_shows_neither_key_nor_scope() {
        let key = Key::new(&Scope::of_operation("secret").unwrap(), "hush").unwrap();
        assert_eq!(format!("{key:?} {:?}", key.scope()), "Key(…) Scope(…)");
    }
}
