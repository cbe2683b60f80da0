//! The types of attributes, as CloudEvents 1.0.2 (“Type System”) and the RFCs that it names define them.

use std::time::{Duration, SystemTime};

/// The end of the year 9999, in seconds since 1970: RFC 3339 has four digits for a year.
const END_OF_TIME_S: u64 = 253_402_300_800;

/// A time in RFC 3339's form, to the millisecond; `None` if that has no form for it.
pub(super) fn timestamp(time: SystemTime) -> Option<String> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    (since < Duration::from_secs(END_OF_TIME_S)).then(|| humantime::format_rfc3339_millis(time).to_string())
}

/// Text that may stand in an attribute: no control characters, no noncharacters, and not empty.
pub(super) fn is_text(value: &str) -> bool {
    let is_nonchar = |char: char| {
        let code = u32::from(char);
        (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
    };
    !value.is_empty() && !value.chars().any(|char| char.is_control() || is_nonchar(char))
}

/// A URI reference that is not empty (RFC 3986, section 4.1): its characters, escapes, one fragment, and a scheme if its first
/// segment has a colon.
pub(super) fn is_uri_reference(value: &str) -> bool {
    let (before, fragment) = value.split_once('#').unwrap_or((value, ""));
    let has_scheme = match before.find([':', '/', '?']) {
        Some(at) if before[at..].starts_with(':') => is_scheme(&before[..at]),
        _ => true,
    };
    !value.is_empty() && has_scheme && are_uri_chars(before) && are_uri_chars(fragment)
}

/// A URI with a scheme (RFC 3986, section 3).
pub(super) fn is_uri(value: &str) -> bool {
    is_uri_reference(value) && value.split_once(':').is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// `type/subtype`, with parameters (RFC 2045, section 5.1; RFC 2046), that is not of CloudEvents' own.
pub(super) fn is_media_type(value: &str) -> bool {
    let mut parts = value.split(';');
    let essence = parts.next().unwrap_or_default().trim_end();
    let named = essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    let is_parameter = |part: &str| {
        part.trim().split_once('=').is_some_and(|(name, value)| is_token(name) && (is_token(value) || is_quoted(value)))
    };
    let is_structured_mode = essence.to_ascii_lowercase().starts_with("application/cloudevents");
    named && parts.all(is_parameter) && !is_structured_mode
}

fn is_scheme(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Unreserved and reserved characters, and whole escapes; a `#` only begins the fragment.
fn are_uri_chars(text: &str) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let right = match byte {
            b'%' => {
                let mut digit = || bytes.next().is_some_and(|byte| byte.is_ascii_hexdigit());
                digit() && digit()
            }
            _ => byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=".contains(&byte),
        };
        if !right {
            return false;
        }
    }
    true
}

fn is_token(text: &str) -> bool {
    let special = |byte: u8| b"()<>@,;:\\\"/[]?=".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !special(byte))
}

/// A quoted string without a semicolon or a quote in it.
fn is_quoted(text: &str) -> bool {
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inner.is_some_and(|inner| inner.bytes().all(|byte| (byte.is_ascii_graphic() || byte == b' ') && byte != b'"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(is_right: impl Fn(&str) -> bool, right: &[&str], wrong: &[&str]) {
        for value in right {
            assert!(is_right(value), "{value:?} is right");
        }
        for value in wrong {
            assert!(!is_right(value), "{value:?} is wrong");
        }
    }

    #[test]
    fn times_are_those_of_rfc_3339() {
        let at = |seconds| timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(1_522_900_584).as_deref(), Some("2018-04-05T03:56:24.000Z"));
        assert_eq!(at(END_OF_TIME_S - 1).as_deref(), Some("9999-12-31T23:59:59.000Z"));
        assert_eq!(at(END_OF_TIME_S), None);
        assert_eq!(timestamp(SystemTime::UNIX_EPOCH - Duration::from_nanos(1)), None);
    }

    #[test]
    fn text_has_no_control_characters_and_no_noncharacters() {
        split(
            is_text,
            &["a", "€ 5", "\u{10348}"],
            &["", "a\nb", "\u{7f}", "\u{85}", "\u{fffe}", "\u{fdd0}", "\u{1ffff}"],
        );
    }

    /// The examples of the specification, and what RFC 3986 forbids.
    #[test]
    fn uri_references_are_those_of_rfc_3986() {
        let right = [
            "https://github.com/cloudevents",
            "mailto:cncf-wg-serverless@lists.cncf.io",
            "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
            "/cloudevents/spec/pull/123",
            "/sensors/tn-1234567/alerts",
            "1-555-123-4567",
            "a%20b?c=d:e#f",
            "./1a:b",
        ];
        let wrong = ["", "a b", "a%2", "a%zz", "a#b#c", "1a:b", ":b", "ü", "a\\b", "<a>"];
        split(is_uri_reference, &right, &wrong);
        split(is_uri, &["urn:a:b", "https://example.com/schema"], &["/schema", "schema", "1a:b", "", "?a:b"]);
    }

    #[test]
    fn media_types_are_those_of_rfc_2045() {
        let right = ["application/json", "text/plain; charset=utf-8", "a/b;c=\"d e\"", "application/vnd.a+json"];
        let wrong = ["", "json", "a/", "/b", "a/b/c", "a b/c", "a/b;c", "a/b;=d", "application/cloudevents+json"];
        split(is_media_type, &right, &wrong);
        assert!(!is_media_type("Application/CloudEvents; charset=utf-8"));
    }
}
