//! The table whose rows are counted.

/// The longest identifier that every engine keeps whole.
const MAX_LENGTH: usize = 63;

/// Which table holds the units, by which column a row is found, and which column is counted.
///
/// The key column is text (`text`, `varchar`), unique, and told apart byte by byte (no case-insensitive collation); the units
/// column is a 64-bit integer, `NOT NULL`. The names are put into the statements as they are, once, when the counter is built:
/// so they are checked to be plain identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockTable {
    table: String,
    key: String,
    units: String,
}

impl StockTable {
    /// A table of the application's own; `table` may have a schema before a dot.
    ///
    /// # Errors
    /// [`IdentifierError`] when a name is anything but ASCII letters, digits and `_`, begins with a digit, or is longer than
    /// 63 bytes.
    ///
    /// ```
    /// use leastlock_occ::StockTable;
    ///
    /// assert!(StockTable::new("shop.stock", "code", "units").is_ok());
    /// assert!(StockTable::new("stock; DROP TABLE stock", "code", "units").is_err());
    /// ```
    pub fn new(table: &str, key: &str, units: &str) -> Result<Self, IdentifierError> {
        let (schema, name) = table.split_once('.').map_or((None, table), |(schema, name)| (Some(schema), name));
        for identifier in schema.into_iter().chain([name, key, units]) {
            if !is_identifier(identifier) {
                return Err(IdentifierError { identifier: identifier.to_owned() });
            }
        }
        Ok(Self { table: table.to_owned(), key: key.to_owned(), units: units.to_owned() })
    }

    /// The crate's own table, `leastlock_occ_stock`, which [`MIGRATIONS`](crate::MIGRATIONS) makes.
    #[must_use]
    pub fn own() -> Self {
        Self { table: "leastlock_occ_stock".to_owned(), key: "stock_key".to_owned(), units: "units".to_owned() }
    }

    /// A statement of this crate with the names in their places.
    pub(super) fn name_in(&self, template: &str) -> String {
        template.replace("{table}", &self.table).replace("{key}", &self.key).replace("{units}", &self.units)
    }
}

fn is_identifier(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.len() <= MAX_LENGTH
        && text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

/// A name that is not put into a statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{identifier:?} is no plain identifier: ASCII letters, digits and _, at most 63 bytes, no digit first")]
pub struct IdentifierError {
    identifier: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_identifiers_reach_a_statement() {
        let table = StockTable::new("shop.stock", "_code", "units2").expect("plain names");
        assert_eq!(table.name_in("{table} {key} {units}"), "shop.stock _code units2");
        for wrong in ["", "1a", "a b", "a.b.c", "a.", ".a", "a\"", "a'", "a;b", "a--", "ä", "{key}", &"a".repeat(64)] {
            assert!(StockTable::new(wrong, "code", "units").is_err(), "{wrong}");
            assert!(StockTable::new("stock", wrong, "units").is_err(), "{wrong}");
            assert!(StockTable::new("stock", "code", wrong).is_err(), "{wrong}");
        }
        assert!(StockTable::new("stock", "a.b", "units").is_err());
    }
}
