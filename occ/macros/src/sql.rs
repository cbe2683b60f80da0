//! The statements of one versioned row, as literals of the generated code: no SQL is put together at call time.
//!
//! Each is right at READ COMMITTED and above, in autocommit as in a transaction. `update` and `delete` take the lock of
//! the one row that they write and check the version under it; no lock is held while the value is being changed.
//! `actual` is a statement of its own, because under READ COMMITTED every statement has a new snapshot, and that of an
//! `update` which waited for another writer still shows the version from before the wait.
//!
//! Columns are quoted, so that reserved words are ordinary names, and qualified by the alias `t`, because SQLite takes a
//! quoted name that it does not know for a string, but never a qualified one.

use crate::model::{Column, Model, Table};

/// The statements of one dialect, with their parameters in the order of their names' description.
pub(crate) struct Statements {
    /// Answers version, key, values, what is only read. Binds the key.
    pub(crate) select: String,
    /// Binds key, values, version.
    pub(crate) insert: String,
    /// Binds values, key, expected version.
    pub(crate) update: String,
    /// Binds key, expected version.
    pub(crate) delete: String,
    /// Answers version. Binds the key.
    pub(crate) actual: String,
    /// Writes nothing, and has SQLite's write lock taken: that depends on what a statement could write, not on what it does.
    pub(crate) touch: String,
}

/// What the texts differ in.
#[derive(Clone, Copy)]
pub(crate) struct Dialect {
    pub(crate) quote: char,
    /// `$1` and so on, or `?`: the texts bind every parameter once and in order, so that both are right.
    pub(crate) has_numbers: bool,
    /// MariaDB has a table's alias in `DELETE` from 11.6 on only, and takes no quoted name for a string.
    delete_has_alias: bool,
    /// MySQL's snapshot may be that of the transaction (REPEATABLE READ is the default there), which an `update` looks
    /// beyond and a plain read does not. `FOR SHARE` is not MariaDB's.
    actual_lock: &'static str,
}

/// PostgreSQL and SQLite.
pub(crate) const STANDARD: Dialect = Dialect { quote: '"', has_numbers: true, delete_has_alias: true, actual_lock: "" };

/// MySQL and MariaDB.
pub(crate) const MYSQL: Dialect =
    Dialect { quote: '`', has_numbers: false, delete_has_alias: false, actual_lock: " LOCK IN SHARE MODE" };

impl Statements {
    /// For PostgreSQL and SQLite.
    pub(crate) fn standard(model: &Model) -> Self {
        STANDARD.statements(model)
    }

    /// For MySQL and MariaDB.
    pub(crate) fn mysql(model: &Model) -> Self {
        MYSQL.statements(model)
    }
}

impl Dialect {
    fn statements(self, model: &Model) -> Statements {
        let table = self.table(&model.table);
        let version = self.quoted(&model.version);
        let after_key = self.place(model.key.len() + 1);
        let key = self.conjunction("t.", &model.key, 1);

        let selected = self.selected(model);

        let inserted = model.key.iter().chain(&model.values).chain([&model.version]);
        let inserted: Vec<_> = inserted.map(|column| self.quoted(column)).collect();
        let places = (1..=inserted.len()).map(|n| self.place(n)).collect::<Vec<_>>().join(", ");

        let first_key = model.values.len() + 1;
        let key_after_values = self.conjunction("t.", &model.key, first_key);
        let expected = self.place(first_key + model.key.len());
        let assigned = model.values.iter().zip(1..);
        let assigned = assigned.map(|(column, n)| format!("{} = {}, ", self.quoted(column), self.place(n)));
        let assigned = assigned.collect::<Vec<_>>().concat();

        let (alias, t) = if self.delete_has_alias { (" AS t", "t.") } else { ("", "") };
        let deleted = self.conjunction(t, &model.key, 1);

        Statements {
            select: format!("SELECT {selected} FROM {table} AS t WHERE {key}"),
            insert: format!("INSERT INTO {table} ({}) VALUES ({places})", inserted.join(", ")),
            update: format!(
                "UPDATE {table} AS t SET {assigned}{version} = t.{version} + 1 \
                 WHERE {key_after_values} AND t.{version} = {expected}"
            ),
            delete: format!("DELETE FROM {table}{alias} WHERE {deleted} AND {t}{version} = {after_key}"),
            actual: format!("SELECT t.{version} FROM {table} AS t WHERE {key}{}", self.actual_lock),
            touch: format!("UPDATE {table} SET {version} = {version} WHERE 0 = 1"),
        }
    }

    /// Version, key, values and what is only read: the columns of a whole row.
    pub(crate) fn selected(self, model: &Model) -> String {
        let all = [&model.version].into_iter().chain(&model.key).chain(&model.values).chain(&model.read_only);
        all.map(|column| format!("t.{}", self.quoted(column))).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn conjunction(self, qualifier: &str, columns: &[Column], first: usize) -> String {
        let numbered = columns.iter().zip(first..);
        let equal = numbered.map(|(column, n)| format!("{qualifier}{} = {}", self.quoted(column), self.place(n)));
        equal.collect::<Vec<_>>().join(" AND ")
    }

    pub(crate) fn place(self, number: usize) -> String {
        if self.has_numbers { format!("${number}") } else { "?".to_owned() }
    }

    pub(crate) fn quoted(self, column: &Column) -> String {
        self.name(&column.name)
    }

    pub(crate) fn table(self, table: &Table) -> String {
        table.parts.iter().map(|part| self.name(part)).collect::<Vec<_>>().join(".")
    }

    pub(crate) fn name(self, name: &str) -> String {
        format!("{0}{name}{0}", self.quote)
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    #[test]
    fn every_statement_that_writes_checks_key_and_version() {
        let model = Model::parse(&parse_quote! {
            #[versioned(table = "shop.order", key("warehouse", "code"), version = "version", crate = "leastlock_occ")]
            struct Stock {
                code: String,
                #[versioned(column = "on_hand")]
                units: i64,
                warehouse: String,
                r#type: String,
                version: i64,
            }
        });
        let sql = Statements::standard(&model.unwrap_or_else(|error| panic!("{error}")));
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
    fn mysql_binds_the_same_values_in_the_same_order() {
        let model = Model::parse(&parse_quote! {
            #[versioned(table = "shop.order", key("warehouse", "code"), version = "version", crate = "leastlock_occ")]
            struct Stock { code: String, units: i64, warehouse: String, version: i64 }
        });
        let model = model.unwrap_or_else(|error| panic!("{error}"));
        let (sql, standard) = (Statements::mysql(&model), Statements::standard(&model));
        assert_eq!(
            sql.update,
            "UPDATE `shop`.`order` AS t SET `units` = ?, `version` = t.`version` + 1 \
             WHERE t.`warehouse` = ? AND t.`code` = ? AND t.`version` = ?"
        );
        assert_eq!(sql.delete, "DELETE FROM `shop`.`order` WHERE `warehouse` = ? AND `code` = ? AND `version` = ?");
        assert_eq!(
            sql.actual,
            "SELECT t.`version` FROM `shop`.`order` AS t WHERE t.`warehouse` = ? AND t.`code` = ? LOCK IN SHARE MODE"
        );
        // With `$n` in order, the n-th `?` is the same value; beyond that the texts differ in quotes.
        for (ours, theirs) in
            [(sql.select, standard.select), (sql.insert, standard.insert), (sql.update, standard.update)]
        {
            let in_order = (1..=4).fold(theirs.replace('"', "`"), |text, n| text.replacen(&format!("${n}"), "?", 1));
            assert_eq!(ours, in_order);
        }
    }

    #[test]
    fn a_row_of_key_and_version_only_has_its_version_raised() {
        let model = Model::parse(&parse_quote! {
            #[versioned(table = "gate", key = "name", version = "version", crate = "leastlock_occ")]
            struct Gate { name: String, version: i64 }
        });
        let sql = Statements::standard(&model.unwrap_or_else(|error| panic!("{error}")));
        assert_eq!(
            sql.update,
            r#"UPDATE "gate" AS t SET "version" = t."version" + 1 WHERE t."name" = $1 AND t."version" = $2"#
        );
    }
}
