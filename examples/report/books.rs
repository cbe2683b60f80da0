//! The bookings, and which file is the report of a month.

use leastlock::core::{Statement, begin};
use sqlx::{Pool, Transaction};

use crate::draft::Published;
use crate::engine::{Engine, execute};

const TABLES: [&str; 4] = [
    "DROP TABLE IF EXISTS report_booking",
    "DROP TABLE IF EXISTS report_published",
    "CREATE TABLE report_booking (month text NOT NULL, number bigint NOT NULL, cents bigint NOT NULL, PRIMARY KEY (month, number))",
    "CREATE TABLE report_published (month text PRIMARY KEY, generation bigint NOT NULL, file text NOT NULL, sha256 text NOT NULL)",
];
const BOOK: &str = "INSERT INTO report_booking VALUES ($1, $2, $3)";
const READ: &str = "SELECT number, cents FROM report_booking WHERE month = $1 ORDER BY number";
const PUBLISH: &str = "INSERT INTO report_published (month, generation, file, sha256) VALUES ($1, $2, $3, $4) \
                       ON CONFLICT (month) DO UPDATE SET generation = excluded.generation, file = excluded.file, sha256 = excluded.sha256";
const FIND: &str = "SELECT generation, file, sha256 FROM report_published WHERE month = $1";

/// A booking: its number and its amount in cents.
pub(crate) type Booking = (i64, i64);

/// Months as they are written.
pub(crate) fn month(number: u32) -> String {
    format!("2026-{number:02}")
}

pub(crate) async fn make<DB: Engine>(pool: &Pool<DB>) -> Result<(), sqlx::Error> {
    execute(pool, &TABLES).await
}

/// Books so many, from the number `from` on.
pub(crate) async fn book<DB: Engine>(pool: &Pool<DB>, month: &str, from: u32, count: u32) -> Result<(), sqlx::Error> {
    let mut tx = begin(pool).await?;
    for number in from..from + count {
        let book = Statement::new(BOOK).bind(month).bind(i64::from(number)).bind(fastrand::i64(-50_000..=99_999));
        book.execute::<DB>(&mut tx).await?;
    }
    tx.commit().await
}

pub(crate) async fn read<DB: Engine>(pool: &Pool<DB>, month: &str) -> Result<Vec<Booking>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let rows = Statement::new(READ).bind(month).fetch_all::<DB>(&mut connection).await?;
    rows.iter().map(|row| Ok((row.int(0)?, row.int(1)?))).collect()
}

/// Makes this file the report of its month.
pub(crate) async fn publish<DB: Engine>(tx: &mut Transaction<'_, DB>, report: &Published) -> Result<(), sqlx::Error> {
    let publish = Statement::new(PUBLISH).bind(&*report.month).bind(report.generation);
    publish.bind(&*report.file).bind(&*report.sha256).execute::<DB>(tx).await.map(drop)
}

/// Which file is the report of the month.
pub(crate) async fn find<DB: Engine>(pool: &Pool<DB>, month: &str) -> Result<Option<Published>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let Some(row) = Statement::new(FIND).bind(month).fetch_optional::<DB>(&mut connection).await? else {
        return Ok(None);
    };
    Ok(Some(Published { month: month.to_owned(), generation: row.int(0)?, file: row.text(1)?, sha256: row.text(2)? }))
}
