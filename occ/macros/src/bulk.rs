//! The statements for many rows of a versioned table, each in a few fixed sizes.
//!
//! A list has no length in SQL's text, and a text that is put together at call time is what this library does without. An
//! array as parameter would be one text, but exists on PostgreSQL only and not for every type; JSON would lose types. So
//! each statement has a text per size, all written here, and what a list does not fill repeats its last row: a key named
//! twice is still one row, to a `SELECT` as to an `UPDATE`. It works for keys of several columns and all types alike.

use crate::model::Model;
use crate::sql::{Dialect, MYSQL, STANDARD};

/// For how many keys a statement is written that reads or locks. The last is the most rows of one checked bulk update: all
/// its locks are taken by one statement, because the order in which two statements lock is no order of the table's.
pub(crate) const KEYS: [usize; 3] = [8, 64, 512];

/// For how many rows a statement is written that updates; more rows, locked by then, are written by several.
pub(crate) const ROWS: [usize; 2] = [8, 64];

/// A statement in all its sizes.
pub(crate) type Sized = Vec<(usize, String)>;

/// The statements, with their parameters in the order of their names' description.
pub(crate) struct Statements {
    /// Answers version, key, values, what is only read. Binds the keys.
    pub(crate) select: Sized,
    /// Answers version, key. Binds the keys.
    pub(crate) lock: Sized,
    /// Standard: binds key, expected version, values, row by row. MySQL: value by value, for each row the key and the value;
    /// then for each row key and expected version.
    pub(crate) update: Sized,
    /// The same without raising the version.
    pub(crate) update_keeping_version: Sized,
}

impl Statements {
    /// For PostgreSQL: the lock that an `UPDATE` takes which leaves the key alone. `FOR UPDATE` would also stop those who insert a row that
    /// refers to one of these.
    pub(crate) fn postgres(model: &Model) -> Self {
        Self::new(STANDARD, model, "", " FOR NO KEY UPDATE")
    }

    /// For SQLite, where whoever writes has locked the file.
    pub(crate) fn sqlite(model: &Model) -> Self {
        Self::new(STANDARD, model, "", "")
    }

    /// For MySQL and MariaDB. `InnoDB` locks rows in the order in which it reads them, whatever `ORDER BY` says, so the index is
    /// named; otherwise it may also read, and lock, the whole of a small table.
    pub(crate) fn mysql(model: &Model) -> Self {
        Self::new(MYSQL, model, " FORCE INDEX (PRIMARY)", " FOR UPDATE")
    }

    fn new(dialect: Dialect, model: &Model, index: &str, lock: &str) -> Self {
        let table = dialect.table(&model.table);
        let sized = |sizes: &[usize], text: &dyn Fn(usize) -> String| -> Sized {
            sizes.iter().map(|&size| (size, text(size))).collect()
        };
        let key = model.key.iter().map(|column| format!("t.{}", dialect.quoted(column))).collect::<Vec<_>>().join(", ");
        let version = dialect.quoted(&model.version);
        let selected = dialect.selected(model);
        Self {
            select: sized(&KEYS, &|n| {
                format!("SELECT {selected} FROM {table} AS t WHERE {}", dialect.is_any(model, n))
            }),
            lock: sized(&KEYS, &|n| {
                let is_any = dialect.is_any(model, n);
                format!("SELECT t.{version}, {key} FROM {table} AS t{index} WHERE {is_any} ORDER BY {key}{lock}")
            }),
            update: sized(&ROWS, &|n| dialect.update(model, n, " + 1")),
            update_keeping_version: sized(&ROWS, &|n| dialect.update(model, n, "")),
        }
    }
}

impl Dialect {
    /// A row whose key is one of `size` keys.
    fn is_any(self, model: &Model, size: usize) -> String {
        let width = model.key.len();
        if let [column] = &model.key[..] {
            return format!("t.{} IN {}", self.quoted(column), self.tuple(1, size));
        }
        let firsts = (0..size).map(|row| row * width + 1);
        if self.has_numbers {
            let key =
                model.key.iter().map(|column| format!("t.{}", self.quoted(column))).collect::<Vec<_>>().join(", ");
            let rows = firsts.map(|first| self.tuple(first, width)).collect::<Vec<_>>().join(", ");
            return format!("({key}) IN (VALUES {rows})");
        }
        // MariaDB finds no range of the index in a list of tuples.
        let rows = firsts.map(|first| format!("({})", self.conjunction("t.", &model.key, first)));
        format!("({})", rows.collect::<Vec<_>>().join(" OR "))
    }

    fn update(self, model: &Model, size: usize, raised: &str) -> String {
        if self.has_numbers { self.update_from(model, size, raised) } else { self.update_case(model, size, raised) }
    }

    /// `UPDATE … FROM (VALUES …)`: PostgreSQL takes the types of the columns from the parameters.
    fn update_from(self, model: &Model, size: usize, raised: &str) -> String {
        let (table, version) = (self.table(&model.table), self.quoted(&model.version));
        let (key, values) = (model.key.len(), model.values.len());
        let width = key + 1 + values;
        let set =
            model.values.iter().zip(key + 2..).map(|(column, n)| format!("{} = v.column{n}, ", self.quoted(column)));
        let rows = (0..size).map(|row| self.tuple(row * width + 1, width)).collect::<Vec<_>>().join(", ");
        let is_row = model.key.iter().zip(1..).map(|(column, n)| format!("t.{} = v.column{n}", self.quoted(column)));
        format!(
            "UPDATE {table} AS t SET {}{version} = t.{version}{raised} FROM (VALUES {rows}) AS v WHERE {} AND t.{version} = v.column{}",
            set.collect::<String>(),
            is_row.collect::<Vec<_>>().join(" AND "),
            key + 1,
        )
    }

    /// MySQL has no such `VALUES`, and the columns of a `UNION` of parameters have the types and lengths of its first run.
    fn update_case(self, model: &Model, size: usize, raised: &str) -> String {
        let (table, version) = (self.table(&model.table), self.quoted(&model.version));
        let is_row = self.conjunction("t.", &model.key, 1);
        let cases = format!(" WHEN {is_row} THEN ?").repeat(size);
        let set = model.values.iter().map(|column| format!("{} = CASE{cases} END, ", self.quoted(column)));
        let row = format!("({is_row} AND t.{version} = ?)");
        let rows = vec![row; size].join(" OR ");
        format!("UPDATE {table} AS t SET {}{version} = t.{version}{raised} WHERE {rows}", set.collect::<String>())
    }

    /// `(…)` of `width` parameters.
    fn tuple(self, first: usize, width: usize) -> String {
        let places = (first..first + width).map(|n| self.place(n)).collect::<Vec<_>>();
        format!("({})", places.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;

    fn stock() -> Model {
        let model = Model::parse(&parse_quote! {
            #[versioned(table = "stock", key("warehouse", "code"), version = "version", crate = "leastlock_occ")]
            struct Stock {
                warehouse: String,
                code: String,
                units: i64,
                #[versioned(read_only)]
                changed: String,
                version: i64,
            }
        });
        model.unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn locks_are_taken_in_the_order_of_the_key() {
        let lock = Statements::postgres(&stock()).lock.swap_remove(0).1;
        assert!(lock.starts_with(
            r#"SELECT t."version", t."warehouse", t."code" FROM "stock" AS t WHERE (t."warehouse", t."code") IN (VALUES ($1, $2), ($3, $4)"#
        ));
        assert!(lock.ends_with(r#", ($15, $16)) ORDER BY t."warehouse", t."code" FOR NO KEY UPDATE"#), "{lock}");
        let lock = Statements::mysql(&stock()).lock.swap_remove(0).1;
        assert!(lock.contains("AS t FORCE INDEX (PRIMARY) WHERE ((t.`warehouse` = ? AND t.`code` = ?) OR ("), "{lock}");
        assert!(lock.ends_with("ORDER BY t.`warehouse`, t.`code` FOR UPDATE"), "{lock}");
    }

    #[test]
    fn each_row_is_checked_against_its_own_version() {
        let sqlite = Statements::sqlite(&stock());
        assert!(
            sqlite.update[0].1.starts_with(
                r#"UPDATE "stock" AS t SET "units" = v.column4, "version" = t."version" + 1 FROM (VALUES ($1, $2, $3, $4), ($5,"#
            )
        );
        assert!(sqlite.update[0].1.ends_with(
            r#"($29, $30, $31, $32)) AS v WHERE t."warehouse" = v.column1 AND t."code" = v.column2 AND t."version" = v.column3"#
        ));
        assert!(sqlite.update_keeping_version[0].1.contains(r#", "version" = t."version" FROM"#));
        let mysql = Statements::mysql(&stock()).update.swap_remove(0).1;
        let start = "UPDATE `stock` AS t SET `units` = CASE WHEN t.`warehouse` = ? AND t.`code` = ? THEN ? WHEN ";
        assert!(mysql.starts_with(start), "{mysql}");
        assert!(mysql.contains(
            "END, `version` = t.`version` + 1 WHERE (t.`warehouse` = ? AND t.`code` = ? AND t.`version` = ?) OR ("
        ));
        assert_eq!(mysql.matches('?').count(), 8 * 3 + 8 * 3);
    }
}
