//! What the request says, so that a key used for two different requests is noticed.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

/// SHA-256 over length-prefixed method, path, query and canonical body.
///
/// A JSON body is brought into a canonical form first: object keys sorted by UTF-16 code unit (as RFC 8785, section 3.2.3),
/// arrays in order, strings unescaped and escaped one way, numbers as they were written (`1.0` is not `1`: whether they
/// mean the same is the application's to say). Anything that is not JSON, or has a key twice in one object, counts as bytes.
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

fn canonical(body: &[u8]) -> Option<String> {
    let value: &RawValue = serde_json::from_slice(body).ok()?;
    let mut text = String::with_capacity(body.len());
    write_canonical(value.get(), &mut text).ok()?;
    Some(text)
}

/// The JSON parser's own depth limit (128) bounds the recursion.
fn write_canonical(raw: &str, text: &mut String) -> Result<(), serde_json::Error> {
    match raw.as_bytes().first() {
        Some(b'{') => {
            let members: Members<'_> = serde_json::from_str(raw)?;
            text.push('{');
            for (position, (name, value)) in members.0.values().enumerate() {
                separate(position, text);
                text.push_str(&serde_json::to_string(name)?);
                text.push(':');
                write_canonical(value.get(), text)?;
            }
            text.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(raw)?;
            text.push('[');
            for (position, item) in items.iter().enumerate() {
                separate(position, text);
                write_canonical(item.get(), text)?;
            }
            text.push(']');
        }
        Some(b'"') => text.push_str(&serde_json::to_string(&serde_json::from_str::<String>(raw)?)?),
        _ => text.push_str(raw),
    }
    Ok(())
}

fn separate(position: usize, text: &mut String) {
    if position > 0 {
        text.push(',');
    }
}

/// An object's members by the UTF-16 code units of their names; a name that comes twice is an error.
struct Members<'a>(BTreeMap<Vec<u16>, (String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if members.insert(name.encode_utf16().collect(), (name, value)).is_some() {
                        return Err(A::Error::custom("a name comes twice"));
                    }
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn keys_sort_by_utf16_code_unit() {
        // U+FB33 sorts after U+1F600 by code unit (its surrogates are lower) and before it by code point.
        let text = canonical("{\"\u{fb33}\":1,\"\u{1f600}\":2}".as_bytes()).unwrap();
        assert!(text.find('\u{1f600}') < text.find('\u{fb33}'));
    }

    proptest! {
        #[test]
        fn the_order_of_members_never_matters_and_any_value_does(
            members in proptest::collection::btree_map("[a-z\u{e4}\u{1f600}]{1,4}", any::<i64>(), 1..8),
            rotation in 0_usize..8,
        ) {
            let write = |members: &[(&String, &i64)]| {
                let inner: Vec<_> = members.iter().map(|(k, v)| format!("{}:{v}", serde_json::to_string(k).unwrap())).collect();
                format!("{{{}}}", inner.join(","))
            };
            let mut list: Vec<_> = members.iter().collect();
            let original = json(&write(&list));
            let turn = rotation % list.len();
            list.rotate_left(turn);
            prop_assert_eq!(original, json(&write(&list)));
            let other = list[0].1.wrapping_add(1);
            list[0].1 = &other;
            prop_assert_ne!(original, json(&write(&list)));
        }
    }
}
