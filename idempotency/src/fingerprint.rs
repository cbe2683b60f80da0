//! What the request says, so that a key used for two different requests is noticed.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::canonical::canonical;

/// SHA-256 over length-prefixed method, path, query and canonical body.
///
/// A JSON body is brought into a canonical form first: object keys sorted by UTF-16 code unit (as RFC 8785, section 3.2.3),
/// arrays in order, strings unescaped and escaped one way, numbers as they were written (`1.0` is not `1`: whether they
/// mean the same is the application's to say, and no number is rounded into another).
///
/// Anything else counts as bytes, and so does JSON that has no one meaning or is not worth the stack: a name twice in one
/// object (readers differ in which they take, RFC 8259, section 4), an escape that is half a surrogate pair, more than 128
/// levels of nesting. Such a body matches itself only, which is safe: a repeat is the same bytes. `tests/fingerprint/vectors.json` has
/// examples, with their fingerprints, for a client that computes its own.
///
/// ```
/// use leastlock_idempotency::Fingerprint;
///
/// let one = Fingerprint::request("POST", "/orders", "").json(br#"{"item": "lamp", "units": 2}"#);
/// let two = Fingerprint::request("POST", "/orders", "").json(br#"{"units":2,"item":"lamp"}"#);
/// let three = Fingerprint::request("POST", "/orders", "").json(br#"{"units":3,"item":"lamp"}"#);
/// assert_eq!(one, two);
/// assert_ne!(one, three);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Begins the fingerprint of a request; its body comes next.
    pub fn request(method: &str, path: &str, query: &str) -> RequestFingerprint {
        let mut hash = Sha256::new();
        for part in [method, path, query] {
            update(&mut hash, part.as_bytes());
        }
        RequestFingerprint { hash }
    }

    /// The fingerprint of parts that the caller chose. Parts keep their borders: `["ab", "c"]` is not `["a", "bc"]`.
    #[must_use]
    pub fn of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            update(&mut hash, part.as_ref());
        }
        Self(hash.finalize().into())
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fingerprint(…)")
    }
}

/// The fingerprint of a request whose body is still to come.
#[derive(Debug, Clone)]
#[must_use = "a fingerprint needs a body; without one, give empty bytes"]
pub struct RequestFingerprint {
    hash: Sha256,
}

impl RequestFingerprint {
    /// A JSON body, in canonical form; as bytes if it is not JSON.
    #[must_use]
    pub fn json(self, body: &[u8]) -> Fingerprint {
        match canonical(body) {
            Some(text) => self.body(b"json", text.as_bytes()),
            None => self.bytes(body),
        }
    }

    /// Any other body, byte for byte.
    #[must_use]
    pub fn bytes(self, body: &[u8]) -> Fingerprint {
        self.body(b"bytes", body)
    }

    fn body(mut self, kind: &[u8], body: &[u8]) -> Fingerprint {
        update(&mut self.hash, kind);
        update(&mut self.hash, body);
        Fingerprint(self.hash.finalize().into())
    }
}

/// A part with its length before it, so that no two lists of parts hash the same bytes.
fn update(hash: &mut Sha256, part: &[u8]) {
    hash.update((part.len() as u64).to_be_bytes());
    hash.update(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(body: &str) -> Fingerprint {
        Fingerprint::request("POST", "/orders", "").json(body.as_bytes())
    }

    #[test]
    fn i7_reordered_keys_are_one_request_and_reordered_arrays_are_two() {
        assert_eq!(json(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#), json(r#" {"b": {"d":null, "c":[1, 2]}, "a":1 }"#));
        assert_ne!(json(r#"{"a":[1,2]}"#), json(r#"{"a":[2,1]}"#));
        // The double: bytes as they came tell reordered keys apart.
        let bytes = |body: &str| Fingerprint::request("POST", "/orders", "").bytes(body.as_bytes());
        assert_ne!(bytes(r#"{"a":1,"b":2}"#), bytes(r#"{"b":2,"a":1}"#));
    }

    #[test]
    fn i8_parts_keep_their_borders() {
        assert_ne!(Fingerprint::of_parts(["ab", "c"]), Fingerprint::of_parts(["a", "bc"]));
        assert_ne!(
            Fingerprint::request("POST", "/a", "b").bytes(b""),
            Fingerprint::request("POST", "/ab", "").bytes(b"")
        );
        // The double: plain concatenation.
        let joined = |parts: [&str; 2]| Sha256::digest(parts.concat());
        assert_eq!(joined(["ab", "c"]), joined(["a", "bc"]));
    }

    #[test]
    fn numbers_count_as_written_and_escapes_as_meant() {
        assert_ne!(json("1.0"), json("1"));
        assert_ne!(json("10000000000000000000000001"), json("10000000000000000000000002"));
        assert_eq!(json(r#""\u0041\/""#), json(r#""A/""#));
    }

    #[test]
    fn what_is_not_json_counts_as_bytes() {
        let bytes = |body: &[u8]| Fingerprint::request("POST", "/orders", "").bytes(body);
        assert_eq!(json("not json"), bytes(b"not json"));
        assert_eq!(json(r#"{"a":1,"a":2}"#), bytes(br#"{"a":1,"a":2}"#));
        assert_ne!(json("1"), bytes(b"1"), "a kind is part of the body");
    }
}
