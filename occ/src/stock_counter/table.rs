//! The table whose rows are counted.

/// The longest identifier that every engine keeps whole.
const MAX_LENGTH: usize = 63;
/// How MySQL calls the index of a primary key.
const PRIMARY: &str = "PRIMARY";

/// Which table holds the units, by which column a row is found, and which column is counted.
///
/// The key column is text (`text`, `varchar`; on MySQL and MariaDB `VARBINARY`), unique, and told apart byte by byte (no
/// case-insensitive collation); the units column is a 64-bit integer, `NOT NULL`. On MySQL and MariaDB the key is the table's
/// `PRIMARY KEY`, or its unique index is named [`by_index`](Self::by_index). The names are put into the statements as they are, once, when the counter is built:
/// so they are checked to be plain identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockTable {
    table: String,
    key: String,
    units: String,
    index: String,
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
        Ok(Self { table: table.to_owned(), key: key.to_owned(), units: units.to_owned(), index: PRIMARY.to_owned() })
    }

    /// The crate's own table, `leastlock_occ_stock`, which [`MIGRATIONS`](crate::MIGRATIONS) makes.
    #[must_use]
    pub fn own() -> Self {
        let (table, key, units) = ("leastlock_occ_stock".to_owned(), "stock_key".to_owned(), "units".to_owned());
        Self { table, key, units, index: PRIMARY.to_owned() }
    }

    /// The unique index on the key column, for a table on MySQL or MariaDB whose `PRIMARY KEY` is another column. Rows are locked
    /// in the order in which they are found, so the index is named in the statements. Other engines do not need it.
    ///
    /// # Errors
    /// [`IdentifierError`] as [`new`](Self::new).
    pub fn by_index(mut self, index: &str) -> Result<Self, IdentifierError> {
        if !is_identifier(index) {
            return Err(IdentifierError { identifier: index.to_owned() });
        }
        index.clone_into(&mut self.index);
        Ok(self)
    }

    /// A statement of this crate with the names in their places.
    pub(super) fn name_in(&self, template: &str) -> String {
        let named =
            [("{table}", &self.table), ("{key}", &self.key), ("{units}", &self.units), ("{index}", &self.index)];
        named.into_iter().fold(template.to_owned(), |text, (place, name)| text.replace(place, name))
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
        assert_eq!(table.name_in("{table} {key} {units} {index}"), "shop.stock _code units2 PRIMARY");
        let table = table.by_index("stock_code").expect("a plain name");
        assert_eq!(table.name_in("{key} {index}"), "_code stock_code");
        for wrong in ["", "1a", "a b", "a.b.c", "a.", ".a", "a\"", "a'", "a;b", "a--", "ä", "{key}", &"a".repeat(64)] {
            assert!(StockTable::new(wrong, "code", "units").is_err(), "{wrong}");
            assert!(StockTable::new("stock", wrong, "units").is_err(), "{wrong}");
            assert!(StockTable::new("stock", "code", wrong).is_err(), "{wrong}");
            assert!(StockTable::own().by_index(wrong).is_err(), "{wrong}");
        }
        assert!(StockTable::new("stock", "a.b", "units").is_err());
    }
}
