//! An event's headers: ordered, repeats allowed.

use serde::{Deserialize, Serialize};

/// Headers in order. Stored as a JSON list of `[name, value]`, so that plain SQL can write them: text is a string, bytes that
/// are not UTF-8 are `{"hex": "…"}`, and a header without a value (Kafka has such) is `null`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Option<Vec<u8>>)>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredValue {
    Text(String),
    Binary { hex: String },
}

impl Headers {
    /// Adds one at the end.
    pub fn push(&mut self, name: String, value: Vec<u8>) {
        self.0.push((name, Some(value)));
    }

    /// Adds one without a value at the end. To Kafka that is another header than one with an empty value.
    pub fn push_null(&mut self, name: String) {
        self.0.push((name, None));
    }

    /// The headers in order; one without a value has `None`.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
    }

    /// The last value of `name`; `None` if there is no such header, or the last has no value.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().rev().find(|(other, _)| other == name).and_then(|(_, value)| value.as_deref())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a header of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len)).sum()
    }

    /// The headers as the log keeps them.
    #[must_use]
    pub fn to_stored(&self) -> String {
        let stored: Vec<(&str, Option<StoredValue>)> =
            self.iter().map(|(name, value)| (name, value.map(store))).collect();
        serde_json::to_string(&stored).unwrap_or_else(|error| unreachable!("strings are always JSON: {error}"))
    }

    /// Reads headers as the log keeps them.
    ///
    /// # Errors
    /// When `text` is not such a list, or a name has a NUL, which no client of Kafka's in C can send.
    pub fn from_stored(text: &str) -> Result<Self, serde_json::Error> {
        use serde::de::Error as _;

        // What most events have.
        if text == "[]" {
            return Ok(Self::default());
        }
        let stored: Vec<(String, Option<StoredValue>)> = serde_json::from_str(text)?;
        let header = |(name, value): (String, Option<StoredValue>)| {
            if name.contains('\0') {
                return Err(serde_json::Error::custom("a header's name has a NUL"));
            }
            Ok((name, value.map(load).transpose()?))
        };
        stored.into_iter().map(header).collect::<Result<_, _>>().map(Self)
    }
}

fn store(value: &[u8]) -> StoredValue {
    match str::from_utf8(value) {
        Ok(text) => StoredValue::Text(text.to_owned()),
        Err(_) => StoredValue::Binary { hex: hex(value) },
    }
}

/// Two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15].map(hex_digit)).collect()
}

fn hex_digit(nibble: u8) -> char {
    char::from_digit(u32::from(nibble), 16).unwrap_or_else(|| unreachable!("four bits are one digit"))
}

fn load(value: StoredValue) -> Result<Vec<u8>, serde_json::Error> {
    use serde::de::Error as _;

    match value {
        StoredValue::Text(text) => Ok(text.into_bytes()),
        StoredValue::Binary { hex } => {
            let digits: Option<Vec<u8>> =
                hex.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
            let digits = digits.filter(|digits| digits.len() % 2 == 0);
            let digits = digits.ok_or_else(|| serde_json::Error::custom("a header's hex value has a wrong digit"))?;
            Ok(digits.chunks(2).map(|pair| (pair[0] << 4) | pair[1]).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_keep_order_repeats_and_bytes() {
        let mut headers = Headers::default();
        headers.push("b".into(), b"1".to_vec());
        headers.push("a".into(), vec![0xff, 0x00, 0x1a]);
        headers.push_null("n".into());
        headers.push("n".into(), Vec::new());
        headers.push("b".into(), b"2\"".to_vec());
        assert_eq!(headers.to_stored(), r#"[["b","1"],["a",{"hex":"ff001a"}],["n",null],["n",""],["b","2\""]]"#);
        assert_eq!(Headers::from_stored(&headers.to_stored()).unwrap(), headers);
        assert_eq!(headers.last("b"), Some(&b"2\""[..]));
        for malformed in
            [r#"[["a",{"hex":"f"}]]"#, r#"[["a\u0000","1"]]"#, r#"[["a",1]]"#, r#"[["a"]]"#, r#"{"a":"1"}"#]
        {
            assert!(Headers::from_stored(malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn a_header_without_a_value_is_not_one_with_an_empty_value() {
        let mut headers = Headers::default();
        headers.push_null("n".into());
        assert!(headers.contains("n") && headers.last("n").is_none() && !headers.contains("m"));
        headers.push("n".into(), Vec::new());
        assert_eq!(headers.last("n"), Some(&[][..]));
    }
}
