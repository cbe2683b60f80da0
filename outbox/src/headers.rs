//! An event's headers: ordered, repeats allowed.

use serde::{Deserialize, Serialize};

/// Headers in order. Stored as a JSON list of `[name, value]`, so that plain SQL can write them; a value that is not UTF-8
/// is stored as `{"hex": "…"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, Vec<u8>)>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredValue {
    Text(String),
    Binary { hex: String },
}

impl Headers {
    /// Adds one at the end.
    pub fn push(&mut self, name: String, value: Vec<u8>) {
        self.0.push((name, value));
    }

    /// The headers in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// The last value of `name`.
    #[must_use]
    pub fn last(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.as_slice())
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// The headers as the log keeps them.
    #[must_use]
    pub fn to_stored(&self) -> String {
        let stored: Vec<(&str, StoredValue)> = self.iter().map(|(name, value)| (name, store(value))).collect();
        serde_json::to_string(&stored).unwrap_or_else(|error| unreachable!("strings are always JSON: {error}"))
    }

    /// Reads headers as the log keeps them.
    ///
    /// # Errors
    /// When `text` is not such a list.
    pub fn from_stored(text: &str) -> Result<Self, serde_json::Error> {
        let stored: Vec<(String, StoredValue)> = serde_json::from_str(text)?;
        stored.into_iter().map(|(name, value)| Ok((name, load(value)?))).collect::<Result<_, _>>().map(Self)
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
        headers.push("b".into(), b"2\"".to_vec());
        assert_eq!(headers.to_stored(), r#"[["b","1"],["a",{"hex":"ff001a"}],["b","2\""]]"#);
        assert_eq!(Headers::from_stored(&headers.to_stored()).unwrap(), headers);
        assert_eq!(headers.last("b"), Some(&b"2\""[..]));
        assert!(Headers::from_stored(r#"[["a",{"hex":"f"}]]"#).is_err());
    }
}
