//! One text for every way to write a JSON value.
//!
//! `serde_json` says what is JSON; what follows walks a text that is known to be, once, because serde's values lose how a number
//! was written.

use std::ops::Range;

use serde::de::IgnoredAny;

/// How deep arrays and objects may nest: as deep as `serde_json` reads values. Bounds the recursion.
const MAX_DEPTH: u32 = 128;

/// The canonical text of a JSON value: object keys sorted by UTF-16 code unit (RFC 8785, section 3.2.3), no white space, strings
/// escaped as `serde_json` does, numbers as they were written. `None` for what has no such text: what is not JSON (RFC 8259) in
/// UTF-8, has a name twice in one object or an escape that is no character, or nests deeper than 128.
pub(crate) fn canonical(body: &[u8]) -> Option<String> {
    serde_json::from_slice::<IgnoredAny>(body).ok()?;
    let text = std::str::from_utf8(body).ok()?;
    let mut walk = Walk { text, at: 0, out: String::with_capacity(body.len()) };
    walk.value(0)?;
    Some(walk.out)
}

struct Walk<'a> {
    text: &'a str,
    at: usize,
    out: String,
}

impl Walk<'_> {
    fn value(&mut self, depth: u32) -> Option<()> {
        match self.next()? {
            b'{' if depth < MAX_DEPTH => self.object(depth + 1),
            b'[' if depth < MAX_DEPTH => self.array(depth + 1),
            b'{' | b'[' => None,
            b'"' => {
                let string = self.string()?;
                self.write_string(&string)
            }
            _ => {
                let literal = self.until(|byte| matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace());
                self.out.push_str(&self.text[literal]);
                Some(())
            }
        }
    }

    fn array(&mut self, depth: u32) -> Option<()> {
        self.at += 1;
        self.out.push('[');
        while self.next()? != b']' {
            if self.skip(b',') {
                self.out.push(',');
            }
            self.value(depth)?;
        }
        self.at += 1;
        self.out.push(']');
        Some(())
    }

    /// Writes the members as they come, then puts what was written in order.
    fn object(&mut self, depth: u32) -> Option<()> {
        self.at += 1;
        let begin = self.out.len();
        let mut members: Vec<(Vec<u16>, Range<usize>)> = Vec::new();
        while self.next()? != b'}' {
            self.skip(b',');
            self.next()?;
            let name = self.string()?;
            let from = self.out.len();
            self.write_string(&name)?;
            self.skip(b':');
            self.out.push(':');
            self.value(depth)?;
            members.push((name.encode_utf16().collect(), from..self.out.len()));
        }
        self.at += 1;
        members.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return None;
        }
        let written: Vec<&str> = members.iter().map(|(_, range)| &self.out[range.clone()]).collect();
        let sorted = format!("{{{}}}", written.join(","));
        self.out.replace_range(begin.., &sorted);
        Some(())
    }

    /// The string that begins here, unescaped.
    fn string(&mut self) -> Option<String> {
        let begin = self.at;
        self.at += 1;
        let mut is_escaped = false;
        self.until(|byte| {
            let is_end = byte == b'"' && !is_escaped;
            is_escaped = byte == b'\\' && !is_escaped;
            is_end
        });
        self.at += 1;
        serde_json::from_str(self.text.get(begin..self.at)?).ok()
    }

    fn write_string(&mut self, string: &str) -> Option<()> {
        self.out.push_str(&serde_json::to_string(string).ok()?);
        Some(())
    }

    /// The next byte that is no white space, without going past it.
    fn next(&mut self) -> Option<u8> {
        self.until(|byte| !byte.is_ascii_whitespace());
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes past the next byte if it is this one.
    fn skip(&mut self, byte: u8) -> bool {
        let is_next = self.next() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Goes to the first byte for which `ends` holds, or to the end.
    fn until(&mut self, mut ends: impl FnMut(u8) -> bool) -> Range<usize> {
        let begin = self.at;
        let rest = &self.text.as_bytes()[begin..];
        self.at += rest.iter().position(|byte| ends(*byte)).unwrap_or(rest.len());
        begin..self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_for_every_way_to_write_it() {
        for (body, text) in [
            (" null ", "null"),
            ("[ ]", "[]"),
            ("{ }", "{}"),
            ("[1, [ ] ,{\"b\":1,\"a\":[true , false]}]", "[1,[],{\"a\":[true,false],\"b\":1}]"),
            ("{\"\":\"\\\\\",\"\\\"\":\"\\u000a\\/\"}", "{\"\":\"\\\\\",\"\\\"\":\"\\n/\"}"),
            ("[-0,0,0.0,1E+2,1e2,100]", "[-0,0,0.0,1E+2,1e2,100]"),
            ("\"\\ud83d\\ude00\"", "\"\u{1f600}\""),
        ] {
            assert_eq!(canonical(body.as_bytes()).as_deref(), Some(text), "{body}");
        }
    }

    #[test]
    fn what_has_no_canonical_text_is_told() {
        for body in ["", "{", "[1,]", "nul", "01", "1 2", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "\"\\ud800\""]
        {
            assert_eq!(canonical(body.as_bytes()), None, "{body}");
        }
        assert_eq!(canonical(b"\"\xff\""), None);
        assert_eq!(canonical("\u{feff}1".as_bytes()), None);
    }

    #[test]
    fn nesting_is_bounded_and_costs_no_stack() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(canonical(nested(128).as_bytes()).is_some());
        assert!(canonical(nested(129).as_bytes()).is_none());
        assert!(canonical(nested(1_000_000).as_bytes()).is_none());
        let objects = format!("{}1{}", "{\"a\":".repeat(1_000_000), "}".repeat(1_000_000));
        assert!(canonical(objects.as_bytes()).is_none());
    }

    #[test]
    fn keys_sort_by_utf16_code_unit() {
        // U+FB33 sorts after U+1F600 by code unit (its surrogates are lower) and before it by code point.
        let text = canonical("{\"\u{fb33}\":1,\"\u{1f600}\":2}".as_bytes()).unwrap();
        assert!(text.find('\u{1f600}') < text.find('\u{fb33}'));
    }
}
