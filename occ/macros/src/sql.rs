//! The five statements of a versioned row, as literals of the generated code: no SQL is put together at call time.
//!
//! Each is right at READ COMMITTED and above, in autocommit as in a transaction. `update` and `delete` take the lock of
//! the one row that they write and check the version under it; no lock is held while the value is being changed.
//! `actual` is a statement of its own, because under READ COMMITTED every statement has a new snapshot, and that of an
//! `update` which waited for another writer still shows the version from before the wait.
//!
//! Columns are quoted, so that reserved words are ordinary names, and qualified by the alias `t`, because SQLite takes a
//! quoted name that it does not know for a string, but never a qualified one.

use crate::model::{Column, Model, Table};

/// The statements, with their parameters in the order of their names' description.
pub(crate) struct Statements {
    /// Answers version, key, values. Binds the key.
    pub(crate) select: String,
    /// Binds key, values, version.
    pub(crate) insert: String,
    /// Binds values, key, expected version.
    pub(crate) update: String,
    /// Binds key, expected version.
    pub(crate) delete: String,
    /// Answers version. Binds the key.
    pub(crate) actual: String,
}

impl Statements {
    pub(crate) fn of(model: &Model) -> Self {
        let table = quoted_table(&model.table);
        let version = quoted(&model.version);
        let key_at = |first| conjunction(&model.key, first);
        let after_key = model.key.len() + 1;

        let all: Vec<_> = [&model.version].into_iter().chain(&model.key).chain(&model.values).collect();
        let selected = all.iter().map(|column| format!("t.{}", quoted(column))).collect::<Vec<_>>().join(", ");

        let inserted: Vec<_> = model.key.iter().chain(&model.values).chain([&model.version]).map(quoted).collect();
        let places = (1..=inserted.len()).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");

        let first_key = model.values.len() + 1;
        let expected = first_key + model.key.len();
        let numbered = model.values.iter().zip(1..);
        let assigned = numbered.map(|(column, n)| format!("{} = ${n}, ", quoted(column))).collect::<Vec<_>>().concat();

        Self {
            select: format!("SELECT {selected} FROM {table} AS t WHERE {}", key_at(1)),
            insert: format!("INSERT INTO {table} ({}) VALUES ({places})", inserted.join(", ")),
            update: format!(
                "UPDATE {table} AS t SET {assigned}{version} = t.{version} + 1 WHERE {} AND t.{version} = ${expected}",
                key_at(first_key),
            ),
            delete: format!("DELETE FROM {table} AS t WHERE {} AND t.{version} = ${after_key}", key_at(1)),
            actual: format!("SELECT t.{version} FROM {table} AS t WHERE {}", key_at(1)),
        }
    }
}

fn conjunction(columns: &[Column], first: usize) -> String {
    let numbered = columns.iter().zip(first..);
    numbered.map(|(column, n)| format!("t.{} = ${n}", quoted(column))).collect::<Vec<_>>().join(" AND ")
}

fn quoted(column: &Column) -> String {
    format!("\"{}\"", column.name)
}

fn quoted_table(table: &Table) -> String {
    table.parts.iter().map(|part| format!("\"{part}\"")).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn every_statement_that_writes_checks_key_and_version() {
        let model = Model::parse(&parse_quote! {
            #[versioned(table = "shop.order", key("warehouse", "code"), version = "version")]
            struct Stock {
                code: String,
                #[versioned(column = "on_hand")]
                units: i64,
                warehouse: String,
                r#type: String,
                version: i64,
            }
        });
        let sql = Statements::of(&model.unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(
            sql.select,
            r#"SELECT t."version", t."warehouse", t."code", t."on_hand", t."type" FROM "shop"."order" AS t WHERE t."warehouse" = $1 AND t."code" = $2"#
        );
        assert_eq!(
            sql.insert,
            r#"INSERT INTO "shop"."order" ("warehouse", "code", "on_hand", "type", "version") VALUES ($1, $2, $3, $4, $5)"#
        );
        assert_eq!(
            sql.update,
            r#"UPDATE "shop"."order" AS t SET "on_hand" = $1, "type" = $2, "version" = t."version" + 1 WHERE t."warehouse" = $3 AND t."code" = $4 AND t."version" = $5"#
        );
        assert_eq!(
            sql.delete,
            r#"DELETE FROM "shop"."order" AS t WHERE t."warehouse" = $1 AND t."code" = $2 AND t."version" = $3"#
        );
        assert_eq!(
            sql.actual,
            r#"SELECT t."version" FROM "shop"."order" AS t WHERE t."warehouse" = $1 AND t."code" = $2"#
        );
    }

    #[test]
    fn a_row_of_key_and_version_only_has_its_version_raised() {
        let model = Model::parse(&parse_quote! {
            #[versioned(table = "gate", key = "name", version = "version")]
            struct Gate { name: String, version: i64 }
        });
        let sql = Statements::of(&model.unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(
            sql.update,
            r#"UPDATE "gate" AS t SET "version" = t."version" + 1 WHERE t."name" = $1 AND t."version" = $2"#
        );
    }
}
