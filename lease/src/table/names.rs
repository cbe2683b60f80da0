//! The names of a table and of its columns, checked.

use std::marker::PhantomData;
use std::sync::Arc;

use leastlock_core::Engine;

use super::FencedTable;
use super::update::{RowRule, Text};
use crate::error::Error;
use crate::sql::LeaseSql;

/// What a table and its columns are called.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) table: String,
    pub(super) key: String,
    pub(super) generation: String,
    pub(super) owner: Option<String>,
    pub(super) brought: Option<String>,
}

impl Names {
    fn check(&self) -> Result<(), Error> {
        let columns = [Some(&self.key), Some(&self.generation), self.owner.as_ref(), self.brought.as_ref()];
        let columns: Vec<_> = columns.into_iter().flatten().collect();
        if !is_identifier(&self.table) || !columns.iter().all(|column| is_identifier(column)) {
            return Err(Error::Table {
                fault: "a name must have 1 to 40 letters, digits and underscores, and not begin with a digit",
            });
        }
        let are_different = columns
            .iter()
            .enumerate()
            .all(|(index, column)| columns[..index].iter().all(|other| !other.eq_ignore_ascii_case(column)));
        if are_different { Ok(()) } else { Err(Error::Table { fault: "its columns must have different names" }) }
    }

    /// A template of the statements, filled in.
    pub(super) fn fill(&self, template: &str) -> String {
        template
            .replace("{table}", &self.table)
            .replace("{key}", &self.key)
            .replace("{generation}", &self.generation)
            .replace("{brought}", self.brought.as_deref().unwrap_or("NULL"))
    }
}

/// A plain identifier: it needs no quotes, and leaves room for the names of triggers (63 bytes on PostgreSQL).
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 40
        && bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Builds a [`FencedTable`]; [`build`](Self::build) checks the names.
#[derive(Debug, Clone)]
#[must_use = "call `build`"]
pub struct TableBuilder<DB> {
    names: Names,
    engine: PhantomData<fn() -> DB>,
}

impl<DB: LeaseSql> FencedTable<DB> {
    /// A table, and the column by which a row is found: its key must be unique. They are plain identifiers, not reserved words.
    pub fn builder(table: impl Into<String>, key: impl Into<String>) -> TableBuilder<DB> {
        let (table, key, generation) = (table.into(), key.into(), "fence".to_owned());
        let names = Names { table, key, generation, owner: None, brought: None };
        TableBuilder { names, engine: PhantomData }
    }

    fn of(names: Names) -> Result<Self, Error> {
        names.check()?;
        let owner = names.owner.as_ref().map(|owner| format!(", {owner}")).unwrap_or_default();
        let key_value = if DB::ENGINE == Engine::MySql { "?" } else { "$1" };
        let read = names.fill(DB::ROW_READ).replace("{owner}", &owner).replace("{key_value}", key_value);
        let seal = Text::new::<DB>(&names, RowRule::Newest, None);
        Ok(Self { names: Arc::new(names), seal, read: read.into(), engine: PhantomData })
    }
}

impl<DB: LeaseSql> TableBuilder<DB> {
    /// The column of the generation (default: `fence`): `BIGINT NOT NULL DEFAULT 0`. A row in which it is NULL is refused.
    pub fn generation_column(mut self, name: impl Into<String>) -> Self {
        self.names.generation = name.into();
        self
    }

    /// A column for what stands for the owner, 16 bytes, so that two owners of one number are told apart.
    pub fn owner_column(mut self, name: impl Into<String>) -> Self {
        self.names.owner = Some(name.into());
        self
    }

    /// A column by which a writer shows that it brings its generation, `BIGINT` and NULL at rest; the
    /// [trigger](FencedTable::require_generation) needs it.
    pub fn brought_column(mut self, name: impl Into<String>) -> Self {
        self.names.brought = Some(name.into());
        self
    }

    /// The table, with its statements.
    ///
    /// # Errors
    /// [`Error::Table`] if a name is no plain identifier, or two columns have one name.
    pub fn build(self) -> Result<FencedTable<DB>, Error> {
        FencedTable::of(self.names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &str, key: &str, owner: &str) -> bool {
        let (table, key, generation) = (table.to_owned(), key.to_owned(), "fence".to_owned());
        Names { table, key, generation, owner: Some(owner.to_owned()), brought: None }.check().is_ok()
    }

    #[test]
    fn names_are_plain_identifiers_and_differ() {
        assert!(check("report", "tenant", "_owner2"));
        for wrong in ["", "2nd", "a b", "a.b", "a\"b", "a;b", "a--", "über", &"x".repeat(41)] {
            assert!(!check(wrong, "tenant", "owner") && !check("report", wrong, "owner"), "{wrong}");
        }
        assert!(!check("report", "tenant", "FENCE"));
        assert!(!check("report", "tenant", "tenant"));
    }
}
