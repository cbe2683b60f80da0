//! Columns that the database makes, and rows that sqlx reads by itself.

use leastlock_core::Engine;
use leastlock_occ::{Version, Versioned};
use sqlx::{ColumnIndex, Decode, FromRow, Row, Type};

/// With all that the derive can say.
#[derive(Debug, Clone, PartialEq, Versioned)]
#[versioned(table = "parcel", key("depot", "number"), version = "version")]
pub(crate) struct Parcel {
    pub(crate) depot: i64,
    pub(crate) number: i64,
    pub(crate) grams: i64,
    #[versioned(column = "note")]
    pub(crate) remark: Option<String>,
    #[versioned(read_only, column = "kilos")]
    pub(crate) rounded: Option<i64>,
    #[versioned(read_only)]
    pub(crate) colour: String,
    pub(crate) version: Version,
}

/// What sqlx's own derive would say; it would build the drivers once more, for the compiler.
impl<'r, R: Row> FromRow<'r, R> for Parcel
where
    &'static str: ColumnIndex<R>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    Option<i64>: Decode<'r, R::Database> + Type<R::Database>,
    Option<String>: Decode<'r, R::Database> + Type<R::Database>,
    Version: Decode<'r, R::Database> + Type<R::Database>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Self {
            depot: row.try_get("depot")?,
            number: row.try_get("number")?,
            grams: row.try_get("grams")?,
            remark: row.try_get("note")?,
            rounded: row.try_get("kilos")?,
            colour: row.try_get("colour")?,
            version: row.try_get("version")?,
        })
    }
}

pub(crate) fn parcel(number: i64) -> Parcel {
    Parcel {
        depot: 1,
        number,
        grams: 4_000,
        remark: None,
        rounded: Some(77),
        colour: "ignored".to_owned(),
        version: Version::FIRST,
    }
}

pub(crate) const fn table(engine: Engine) -> &'static str {
    match engine {
        Engine::MySql => {
            "CREATE TABLE parcel (depot BIGINT, number BIGINT, grams BIGINT NOT NULL, note TEXT, \
             kilos BIGINT GENERATED ALWAYS AS (grams DIV 1000) STORED, colour VARCHAR(9) NOT NULL DEFAULT 'brown', \
             version BIGINT NOT NULL, PRIMARY KEY (depot, number))"
        }
        _ => {
            "CREATE TABLE parcel (depot BIGINT, number BIGINT, grams BIGINT NOT NULL, note TEXT, \
             kilos BIGINT GENERATED ALWAYS AS (grams / 1000) STORED, colour VARCHAR(9) NOT NULL DEFAULT 'brown', \
             version BIGINT NOT NULL, PRIMARY KEY (depot, number))"
        }
    }
}
