//! A place in the write-ahead log.

use std::fmt;

/// A log sequence number: a byte's place in the server's write-ahead log. Displayed as PostgreSQL does (`16/B374D848`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Reads PostgreSQL's form: two hexadecimal numbers with a slash between them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (high, low) = text.split_once('/')?;
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        Some(Self((u64::from(number(high)?) << 32) | u64::from(number(low)?)))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_as_postgres_does() {
        for text in ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"] {
            assert_eq!(Lsn::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Lsn::parse("1/0"), Some(Lsn(1 << 32)));
        for text in ["", "1", "1/", "/1", "1/1/1", "1/100000000", "x/1"] {
            assert_eq!(Lsn::parse(text), None, "{text}");
        }
    }
}
