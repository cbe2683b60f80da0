//! Sales and payouts, the work of a day, and what must come of it.

use leastlock::core::{Row, Statement, begin};
use sqlx::{Pool, Transaction};

use crate::engine::{Engine, execute};

/// A payout is unique in nothing: a second one is to be found, not refused.
const TABLES: [&str; 6] = [
    "DROP TABLE IF EXISTS settlement_sale",
    "DROP TABLE IF EXISTS settlement_payout",
    "DROP TABLE IF EXISTS settlement_merchant",
    "CREATE TABLE settlement_sale (day text NOT NULL, merchant text NOT NULL, cents bigint NOT NULL)",
    "CREATE TABLE settlement_payout (day text NOT NULL, merchant text NOT NULL, cents bigint NOT NULL, worker text NOT NULL)",
    "CREATE TABLE settlement_merchant (merchant text PRIMARY KEY, cents bigint NOT NULL)",
];

const SELL: &str = "INSERT INTO settlement_sale VALUES ($1, $2, $3)";
const OPEN: &str = "INSERT INTO settlement_merchant VALUES ($1, 0)";
const PAY: &str = "INSERT INTO settlement_payout SELECT day, merchant, CAST(sum(cents) AS bigint), $1 \
                   FROM settlement_sale WHERE day = $2 GROUP BY day, merchant";
const CREDIT: &str = "UPDATE settlement_merchant SET cents = cents + (SELECT CAST(COALESCE(sum(cents), 0) AS bigint) \
                      FROM settlement_sale WHERE day = $1 AND settlement_sale.merchant = settlement_merchant.merchant)";
const MISPAID: &str = "SELECT sold.day, sold.merchant, sold.cents, CAST(count(paid.cents) AS bigint), \
                              CAST(COALESCE(sum(paid.cents), 0) AS bigint) \
                       FROM (SELECT day, merchant, CAST(sum(cents) AS bigint) AS cents FROM settlement_sale \
                             GROUP BY day, merchant) AS sold \
                       LEFT JOIN settlement_payout AS paid ON paid.day = sold.day AND paid.merchant = sold.merchant \
                       GROUP BY sold.day, sold.merchant, sold.cents \
                       HAVING count(paid.cents) <> 1 OR COALESCE(sum(paid.cents), 0) <> sold.cents \
                       ORDER BY sold.day, sold.merchant";
const TOTALS: &str = "SELECT (SELECT CAST(COALESCE(sum(cents), 0) AS bigint) FROM settlement_sale), \
                             (SELECT CAST(COALESCE(sum(cents), 0) AS bigint) FROM settlement_merchant), \
                             (SELECT CAST(count(*) AS bigint) FROM settlement_payout)";

/// Days as they are written.
pub(crate) fn day(number: u32) -> String {
    format!("2026-09-{number:02}")
}

/// Makes the tables anew, and fills them with sales.
pub(crate) async fn fill<DB: Engine>(
    pool: &Pool<DB>,
    days: u32,
    merchants: u32,
    sales: u32,
) -> Result<(), sqlx::Error> {
    execute(pool, &TABLES).await?;
    let mut tx = begin(pool).await?;
    for merchant in 0..merchants {
        let merchant = format!("merchant-{merchant:04}");
        Statement::new(OPEN).bind(&*merchant).execute::<DB>(&mut tx).await?;
        for day in (1..=days).map(day) {
            for _ in 0..sales {
                let cents = fastrand::i64(1..=99_999);
                Statement::new(SELL).bind(&*day).bind(&*merchant).bind(cents).execute::<DB>(&mut tx).await?;
            }
        }
    }
    tx.commit().await
}

/// The work: pays every merchant for the day; answers how many were paid. Nothing in it asks whether that was done before.
pub(crate) async fn pay<DB: Engine>(tx: &mut Transaction<'_, DB>, day: &str, worker: &str) -> Result<u64, sqlx::Error> {
    let paid = Statement::new(PAY).bind(worker).bind(day).execute::<DB>(tx).await?;
    Statement::new(CREDIT).bind(day).execute::<DB>(tx).await?;
    Ok(paid)
}

/// What was sold, what merchants have got, and in how many payouts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) sold: i64,
    pub(crate) paid: i64,
    pub(crate) payouts: i64,
}

/// Compares the payouts with the sales; answers what is wrong.
pub(crate) async fn reconcile<DB: Engine>(pool: &Pool<DB>) -> Result<(Totals, Vec<String>), sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let mispaid = Statement::new(MISPAID).fetch_all::<DB>(&mut connection).await?;
    let mut breaches = mispaid.iter().map(breach).collect::<Result<Vec<_>, _>>()?;
    let row = Statement::new(TOTALS).fetch_one::<DB>(&mut connection).await?;
    let totals = Totals { sold: row.int(0)?, paid: row.int(1)?, payouts: row.int(2)? };
    if totals.sold != totals.paid {
        breaches.push(format!("merchants have {} cents, and sold for {}", totals.paid, totals.sold));
    }
    Ok((totals, breaches))
}

fn breach<DB: Engine>(row: &Row<DB>) -> Result<String, sqlx::Error> {
    let (day, merchant, sold) = (row.text(0)?, row.text(1)?, row.int(2)?);
    Ok(format!("{day}: {merchant} was paid {} times, {} cents for {sold}", row.int(3)?, row.int(4)?))
}
