//! Columns that the database makes, and rows that sqlx reads by itself.

use leastlock_core::Engine;
use leastlock_occ::{Version, Versioned};

/// With all that the derive can say, beside sqlx's own.
#[derive(Debug, Clone, PartialEq, Versioned, sqlx::FromRow)]
#[versioned(table = "parcel", key("depot", "number"), version = "version")]
pub(crate) struct Parcel {
    pub(crate) depot: i64,
    pub(crate) number: i64,
    pub(crate) grams: i64,
    #[versioned(column = "note")]
    #[sqlx(rename = "note")]
    pub(crate) remark: Option<String>,
    #[versioned(read_only, column = "kilos")]
    #[sqlx(rename = "kilos")]
    pub(crate) rounded: Option<i64>,
    #[versioned(read_only)]
    pub(crate) colour: String,
    pub(crate) version: Version,
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
