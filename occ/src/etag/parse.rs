//! The grammar of the two headers: `"*" / #entity-tag` (RFC 9110, 8.8.3, 13.1.1, 13.1.2).

use crate::version::Version;

/// The most bytes of a condition that are read, in all lines.
const MAX_BYTES: usize = 8 * 1024;

/// An entity tag: `[ "W/" ] DQUOTE *etagc DQUOTE`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EntityTag {
    is_weak: bool,
    opaque: Vec<u8>,
}

impl EntityTag {
    /// Whether it begins with `W/`.
    #[must_use]
    pub const fn is_weak(&self) -> bool {
        self.is_weak
    }

    /// What stands between the quotes.
    #[must_use]
    pub fn opaque(&self) -> &[u8] {
        &self.opaque
    }

    /// Whether it is the strong tag of this version (RFC 9110, 8.8.3.2).
    #[must_use]
    pub fn matches_strongly(&self, version: Version) -> bool {
        !self.is_weak && self.matches_weakly(version)
    }

    /// Whether it is the tag of this version, weak or not.
    #[must_use]
    pub fn matches_weakly(&self, version: Version) -> bool {
        self.opaque == format!("v{version}").as_bytes()
    }
}

/// A header is no list of entity tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("not a list of entity tags, nor *")]
#[non_exhaustive]
pub struct MalformedHeader;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    Any,
    OneOf(Vec<EntityTag>),
}

impl Condition {
    pub(super) fn parse<L: AsRef<[u8]>>(lines: impl IntoIterator<Item = L>) -> Result<Option<Self>, MalformedHeader> {
        let mut joined: Option<Vec<u8>> = None;
        for line in lines {
            let bytes = match &mut joined {
                Some(bytes) => {
                    bytes.push(b',');
                    bytes
                }
                None => joined.insert(Vec::new()),
            };
            bytes.extend_from_slice(line.as_ref());
            if bytes.len() > MAX_BYTES {
                return Err(MalformedHeader);
            }
        }
        joined.map(|bytes| Self::parse_value(&bytes)).transpose()
    }

    fn parse_value(value: &[u8]) -> Result<Self, MalformedHeader> {
        if trimmed(value) == b"*" {
            return Ok(Self::Any);
        }
        let mut tags = Vec::new();
        let mut rest = value;
        // A recipient takes empty elements of a list (5.6.1.2).
        loop {
            rest = without_blanks(rest);
            match rest {
                [] => return Ok(Self::OneOf(tags)),
                [b',', tail @ ..] => rest = tail,
                _ => {
                    let (tag, tail) = entity_tag(rest)?;
                    tags.push(tag);
                    rest = match without_blanks(tail) {
                        [] => &[],
                        [b',', tail @ ..] => tail,
                        _ => return Err(MalformedHeader),
                    };
                }
            }
        }
    }

    /// Whether one of the tags matches.
    pub(super) fn names(&self, version: Version, matches: impl Fn(&EntityTag, Version) -> bool) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.iter().any(|tag| matches(tag, version)),
        }
    }
}

/// The tag at the start, and what follows it. `W/` is case-sensitive; a comma may stand between the quotes.
fn entity_tag(text: &[u8]) -> Result<(EntityTag, &[u8]), MalformedHeader> {
    let (is_weak, quoted) = text.strip_prefix(b"W/").map_or((false, text), |quoted| (true, quoted));
    let inner = quoted.strip_prefix(b"\"").ok_or(MalformedHeader)?;
    let end = inner.iter().position(|byte| *byte == b'"').ok_or(MalformedHeader)?;
    let (opaque, tail) = inner.split_at(end);
    // etagc: visible ASCII without the quote, and obs-text.
    if !opaque.iter().all(|byte| matches!(byte, 0x21..=0x7e | 0x80..=0xff)) {
        return Err(MalformedHeader);
    }
    Ok((EntityTag { is_weak, opaque: opaque.to_vec() }, &tail[1..]))
}

fn trimmed(text: &[u8]) -> &[u8] {
    let text = without_blanks(text);
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
    &text[..end]
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    &text[start..]
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::super::{IfMatch, IfNoneMatch, Read, Rejected, etag};
    use super::*;

    const CURRENT: Option<Version> = Some(Version::new(3));

    #[test]
    fn if_match_holds_as_the_table_says() {
        let table: [(&[&str], bool); 21] = [
            (&["\"v3\""], true),
            (&["*"], true),
            (&[" * \t"], true),
            (&["\"v2\", \"v3\""], true),
            (&["\"v2\",\"v3\",\"v4\""], true),
            (&["\"v2\"", "\"v3\""], true),
            (&[",, \"v3\" ,\t,"], true),
            (&["W/\"v2\", \"v3\""], true),
            (&["W/\"v3\""], false),
            (&["W/\"v2\", W/\"v3\""], false),
            (&["\"v2\""], false),
            (&["\"3\""], false),
            (&["\"v03\""], false),
            (&["\"v+3\""], false),
            (&["\"V3\""], false),
            (&["\"v3,\""], false),
            (&["\"a,v3\""], false),
            (&["\"\""], false),
            (&["\"*\""], false),
            (&[""], false),
            (&[","], false),
        ];
        for (lines, holds) in table {
            let condition = IfMatch::required(lines).unwrap_or_else(|error| panic!("{lines:?}: {error}"));
            assert_eq!(condition.holds(CURRENT), holds, "{lines:?}");
            assert!(!condition.holds(None), "{lines:?}: there is no row");
            let right = if holds { Ok(()) } else { Err(Rejected::Stale) };
            assert_eq!(condition.check(CURRENT), right, "{lines:?}");
        }
    }

    #[test]
    fn if_none_match_compares_weakly() {
        for (line, read) in [
            ("\"v3\"", Read::NotModified),
            ("W/\"v3\"", Read::NotModified),
            ("\"v2\", W/\"v3\"", Read::NotModified),
            ("*", Read::NotModified),
            ("\"v2\"", Read::Changed),
            ("W/\"v4\"", Read::Changed),
            ("", Read::Changed),
        ] {
            let condition = IfNoneMatch::parse([line]).expect("it is well formed").expect("it is there");
            assert_eq!(condition.read(CURRENT), read, "{line}");
            assert_eq!(condition.check(CURRENT).is_ok(), read == Read::Changed, "{line}");
            assert_eq!(condition.read(None), Read::Changed, "{line}: there is no row");
            assert_eq!(condition.check(None), Ok(()), "{line}: it may be created");
        }
    }

    #[test]
    fn what_is_no_list_of_tags_is_a_bad_request() {
        for line in [
            "v3",
            "\"v3",
            "v3\"",
            "w/\"v3\"",
            "W/v3",
            "W /\"v3\"",
            "\"v3\" \"v4\"",
            "\"v3\";q=1",
            "*, \"v3\"",
            "\"v3\", *",
            "**",
            "'v3'",
            "\"v 3\"",
            "\"v3\"x",
            "\"v\u{7f}\"",
            "\"v\\\"3\"",
        ] {
            let rejected = IfMatch::required([line]).expect_err(line);
            assert_eq!((rejected.status(), IfNoneMatch::parse([line])), (400, Err(MalformedHeader)), "{line}");
        }
        // Two lines are one list, so `*` beside others is none either.
        assert_eq!(IfMatch::parse(["*", "\"v3\""]), Err(MalformedHeader));
        assert_eq!(IfMatch::parse(["\"v3\",".repeat(MAX_BYTES)]), Err(MalformedHeader));
        assert_eq!(IfMatch::parse([b"\"\xe4\"".as_slice()]).map(|condition| condition.is_some()), Ok(true));
    }

    #[test]
    fn a_missing_condition_is_told_from_an_empty_one() {
        let none: [&str; 0] = [];
        assert_eq!(IfMatch::parse(none), Ok(None));
        assert_eq!(IfMatch::required(none).map_err(Rejected::status), Err(428));
        assert_eq!(IfMatch::required([""]).and_then(|empty| empty.check(CURRENT)), Err(Rejected::Stale));
    }

    #[test]
    fn every_version_comes_back() {
        for version in [i64::MIN, -1, 0, 1, i64::MAX].map(Version::new) {
            let condition = IfMatch::required([etag(version)]).expect("our own tag");
            assert!(condition.holds(Some(version)), "{version}");
            assert!(!condition.holds(Some(Version::new(7))), "{version}");
        }
    }
}
