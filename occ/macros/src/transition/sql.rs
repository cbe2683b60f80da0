//! The statements of a state machine, as literals of the generated code.
//!
//! `advance` is right at READ COMMITTED and above: its condition is judged under the lock of the one row that it takes itself. `actual`
//! is a statement of its own for the snapshot of its own, and locks the row, so that what it finds is still so when
//! `advance` is run once more.

use super::Machine;
use crate::sql::Dialect;

pub(super) struct Statements {
    /// Binds the new state, the key, the old state.
    pub(super) advance: String,
    /// The same, and the expected version. Empty if the table has no version.
    pub(super) advance_at: String,
    /// Answers state, and version if there is one. Binds the key. On PostgreSQL and MySQL a lock clause follows.
    pub(super) actual: String,
    /// Binds the key, the old state, the new one. Empty if there is no history.
    pub(super) history: String,
}

impl Statements {
    pub(super) fn new(dialect: Dialect, machine: &Machine) -> Self {
        let table = dialect.table(&machine.table);
        let [key, state] = [&machine.key, &machine.state].map(|name| dialect.name(name));
        let place = |n| dialect.place(n);
        let (raised, can_be_raised, actual_version) = match &machine.version {
            Some(version) => {
                let version = dialect.name(version);
                (
                    format!(", {version} = t.{version} + 1"),
                    // SQLite would go on with a floating-point number.
                    format!(" AND t.{version} < {}", i64::MAX),
                    format!(", t.{version}"),
                )
            }
            None => Default::default(),
        };
        let advance = format!(
            "UPDATE {table} AS t SET {state} = {}{raised} WHERE t.{key} = {} AND t.{state} = {}",
            place(1),
            place(2),
            place(3),
        );
        let stored = match (machine.is_integer(), dialect.has_numbers) {
            (true, true) => format!("CAST(t.{state} AS BIGINT)"),
            (true, false) => format!("CAST(t.{state} AS SIGNED)"),
            (false, true) => format!("CAST(t.{state} AS TEXT)"),
            (false, false) => format!("t.{state}"),
        };
        let history = machine.history.as_ref().map(|history| {
            let (history, [from, to]) =
                (dialect.table(history), ["from_state", "to_state"].map(|name| dialect.name(name)));
            format!("INSERT INTO {history} ({key}, {from}, {to}) VALUES ({}, {}, {})", place(1), place(2), place(3))
        });
        let advance_at =
            machine.version.as_ref().map(|version| format!("{advance} AND t.{} = {}", dialect.name(version), place(4)));
        Self {
            advance: advance + &can_be_raised,
            advance_at: advance_at.unwrap_or_default(),
            actual: format!("SELECT {stored}{actual_version} FROM {table} AS t WHERE t.{key} = {}", place(1)),
            history: history.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::*;
    use crate::sql::{MYSQL, STANDARD};

    #[test]
    fn an_advance_is_conditional_on_the_old_state() {
        let machine = Machine::parse(&parse_quote! {
            #[transition(table = "shop.orders", key = "id", state = "state", version = "version", history = "log")]
            #[transition(integer, crate = "leastlock_occ")]
            enum State { #[transition(initial, to(Paid))] Placed = 1, Paid = 2 }
        });
        let machine = machine.unwrap_or_else(|error| panic!("{error}"));
        let sql = Statements::new(STANDARD, &machine);
        assert_eq!(
            sql.advance_at,
            r#"UPDATE "shop"."orders" AS t SET "state" = $1, "version" = t."version" + 1 WHERE t."id" = $2 AND t."state" = $3 AND t."version" = $4"#
        );
        assert_eq!(sql.history, r#"INSERT INTO "log" ("id", "from_state", "to_state") VALUES ($1, $2, $3)"#);
        let sql = Statements::new(MYSQL, &machine);
        assert_eq!(
            sql.advance,
            "UPDATE `shop`.`orders` AS t SET `state` = ?, `version` = t.`version` + 1 \
             WHERE t.`id` = ? AND t.`state` = ? AND t.`version` < 9223372036854775807"
        );
        assert_eq!(
            sql.actual,
            "SELECT CAST(t.`state` AS SIGNED), t.`version` FROM `shop`.`orders` AS t WHERE t.`id` = ?"
        );
    }
}
