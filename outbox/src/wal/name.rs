//! What a slot, its publication and the prefix of its messages are called.

use crate::wal::error::WalError;

/// A name as PostgreSQL allows for replication slots, that needs no quotes as an identifier either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotName(String);

impl SlotName {
    pub(crate) fn new(name: &str) -> Result<Self, WalError> {
        let allowed = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_';
        let starts_well = name.starts_with(|char: char| char.is_ascii_lowercase() || char == '_');
        if name.len() <= 63 && starts_well && name.chars().all(allowed) {
            Ok(Self(name.to_owned()))
        } else {
            Err(WalError::Name { name: name.to_owned() })
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The prefix of its messages as it stands in the log: ended by a zero.
    pub(crate) fn ended(&self) -> Vec<u8> {
        [self.0.as_bytes(), &[0]].concat()
    }

    /// What the sessions that read it are called; the server cuts it at 63 bytes.
    pub(crate) fn of_session(&self) -> String {
        let mut name = format!("leastlock_wal {}", self.0);
        name.truncate(63);
        name
    }

    // An identifier cannot be bound; the quotes make keywords names, and there is nothing else in it to quote.

    pub(crate) fn create_publication(&self) -> String {
        format!("CREATE PUBLICATION \"{}\"", self.0)
    }

    pub(crate) fn drop_publication(&self) -> String {
        format!("DROP PUBLICATION IF EXISTS \"{}\"", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_need_no_quotes_are_taken() {
        let longest = "a".repeat(63);
        for name in ["a", "_1", "leastlock_outbox", &longest] {
            assert_eq!(SlotName::new(name).unwrap().as_str(), name);
        }
        let too_long = "a".repeat(64);
        for name in ["", "1a", "A", "a-b", "a b", "a\"", "ä", &too_long] {
            assert_eq!(SlotName::new(name), Err(WalError::Name { name: name.to_owned() }));
        }
    }
}
