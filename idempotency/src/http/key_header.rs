//! The key in the request's header.

use http::{HeaderMap, HeaderName, HeaderValue};
use sfv::{BareItem, Item, Parser};

use super::problem::Problem;

/// The header that carries the key, by the draft.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// How the key is written.
#[derive(Debug, Clone)]
pub(super) struct KeyHeader {
    pub(super) name: HeaderName,
    pub(super) accepts_bare: bool,
}

impl KeyHeader {
    /// The text of the one key in `headers`. Its length and alphabet are still to be checked.
    pub(super) fn read(&self, headers: &HeaderMap) -> Result<String, Problem> {
        let mut values = headers.get_all(&self.name).iter();
        let value = values.next().ok_or(Problem::KeyMissing)?;
        if values.next().is_some() {
            return Err(Problem::KeyRepeated);
        }
        match string(value) {
            Some(key) => Ok(key),
            None if self.accepts_bare => bare(value).ok_or(Problem::KeyMalformed),
            None => Err(Problem::KeyMalformed),
        }
    }
}

/// An Item whose value is a String (RFC 8941, 3.3.3). Parameters after it mean nothing as yet and are ignored, as section 2
/// of the RFC advises.
fn string(value: &HeaderValue) -> Option<String> {
    match Parser::new(value.as_bytes()).parse::<Item>().ok()?.bare_item {
        BareItem::String(key) => Some(key.into()),
        _ => None,
    }
}

/// A key without quotes, as many clients send it: visible ASCII with nothing in it that means something in a structured
/// field. The same key in quotes is the same key.
fn bare(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b',' | b';'));
    (is_plain && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(accepts_bare: bool, values: &[&str]) -> Result<String, Problem> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IDEMPOTENCY_KEY, HeaderValue::from_str(value).unwrap());
        }
        KeyHeader { name: IDEMPOTENCY_KEY, accepts_bare }.read(&headers)
    }

    #[test]
    fn a_string_in_quotes_is_a_key_and_a_bare_one_by_setting_only() {
        for accepts_bare in [false, true] {
            assert_eq!(read(accepts_bare, &["\"8e03978e-40d5\""]).as_deref(), Ok("8e03978e-40d5"));
            assert_eq!(read(accepts_bare, &["  \"k\"  "]).as_deref(), Ok("k"));
            assert_eq!(read(accepts_bare, &["\"k\";v=1"]).as_deref(), Ok("k"), "parameters are ignored");
            assert_eq!(read(accepts_bare, &[r#""a\"b\\c""#]).as_deref(), Ok(r#"a"b\c"#));
        }
        for bare in ["8e03978e-40d5", "token", "42", "?1", ":YQ==:", "a/b"] {
            assert_eq!(read(false, &[bare]), Err(Problem::KeyMalformed), "{bare}");
            assert_eq!(read(true, &[bare]).as_deref(), Ok(bare));
        }
    }

    #[test]
    fn no_key_two_keys_and_half_a_key_are_told_apart() {
        for accepts_bare in [false, true] {
            assert_eq!(read(accepts_bare, &[]), Err(Problem::KeyMissing));
            assert_eq!(read(accepts_bare, &["\"a\"", "\"a\""]), Err(Problem::KeyRepeated));
            for half in ["\"a", "a\"", "\"a\", \"b\"", "\"a\" \"b\"", "", " ", "a b", "a,b", "a;b", "\"\\x\""] {
                assert_eq!(read(accepts_bare, &[half]), Err(Problem::KeyMalformed), "{half:?}");
            }
        }
    }
}
