//! Which run a database belongs to. A run that was killed is gone on with; any other day needs `--fresh`.

use leastlock::core::{Statement, begin};
use sqlx::{Pool, Transaction};

use super::migrate;
use crate::args::Args;
use crate::ended::Ended;
use crate::engine::Engine;
use crate::orders::OrderBook;
use crate::run::Form;

const RUN: &str = "SELECT run_id, orders_sha256, opening_stock, brokers, form FROM shop_run";
const INSERT_RUN: &str = "INSERT INTO shop_run (only_one, run_id, orders_sha256, opening_stock, brokers, form) \
    VALUES (1, $1, $2, $3, $4, $5)";
const INSERT_STOCK: &str = "INSERT INTO shop_stock (stock_code, opening, remaining) VALUES ($1, $2, $2)";
const INSERT_LEDGER: &str = "INSERT INTO ledger (stock_code) VALUES ($1)";
/// Everything that an earlier run left, and nothing of an application's own. Topic and group bear the run's id, so the
/// worker's progress needs no clearing.
const FORGET: [&str; 7] = [
    "DELETE FROM shop_run",
    "DELETE FROM shop_stock",
    "DELETE FROM shop_order",
    "DELETE FROM ledger",
    "DELETE FROM leastlock_outbox WHERE topic LIKE 'checkout-%'",
    "DELETE FROM leastlock_idempotency WHERE scope = '//place-order'",
    "DELETE FROM leastlock_occ_order WHERE order_id LIKE 'place-order/%'",
];
/// What an application of its own would have in the tables that it shares with the run: the relay would publish its events.
const OTHERS: &str = "SELECT (SELECT count(*) FROM leastlock_outbox WHERE topic NOT LIKE 'checkout-%') \
    + (SELECT count(*) FROM leastlock_idempotency WHERE scope <> '//place-order') \
    + (SELECT count(*) FROM leastlock_occ_order WHERE order_id NOT LIKE 'place-order/%')";

/// Makes the tables and the day's stock, or finds them as an earlier start of the same day left them. Answers the run's id.
pub(super) async fn belong<DB: Engine>(
    pool: &Pool<DB>,
    args: &Args,
    orders: &OrderBook,
    (broker, form): (&str, Form),
) -> Result<String, Ended> {
    migrate(pool).await.map_err(|error| Ended::refused("cannot make the tables", &error))?;
    let refused = |error: sqlx::Error| Ended::refused("cannot prepare the day", &error);
    let mut tx = begin(pool).await.map_err(refused)?;
    if Statement::new(OTHERS).fetch_one::<DB>(&mut tx).await.and_then(|row| row.int(0)).map_err(refused)? > 0 {
        let reason =
            "the database holds events or keys of another application; the checkout needs a database of its own";
        return Err(Ended::Refused(reason.to_owned()));
    }
    if args.fresh {
        for sql in FORGET {
            Statement::new(sql).execute::<DB>(&mut tx).await.map_err(refused)?;
        }
    }
    let run_id = match Statement::new(RUN).fetch_optional::<DB>(&mut tx).await.map_err(refused)? {
        None => open_day(&mut tx, args, orders, (broker, form)).await.map_err(refused)?,
        Some(row) => {
            let stored = || Ok((row.text(0)?, (row.text(1)?, row.int(2)?, row.text(3)?, row.text(4)?)));
            let (run_id, stored) = stored().map_err(refused)?;
            check(args, orders, (broker, form), &stored)?;
            run_id
        }
    };
    tx.commit().await.map_err(refused)?;
    Ok(run_id)
}

/// What a run's row says besides its id: the file's hash, the opening stock, the brokers, the form.
type Stored = (String, i64, String, String);

fn check(args: &Args, orders: &OrderBook, (broker, form): (&str, Form), stored: &Stored) -> Result<(), Ended> {
    let (sha256, opening, stored_broker, stored_form) = stored;
    let other = if *sha256 != orders.sha256 {
        "the database belongs to a run of another file of orders".to_owned()
    } else if stored_form != form.name() {
        // The answers of one form are not where the other looks for them: every order would be placed again.
        format!("the database belongs to a run of the {stored_form} form (--combine names the combined one)")
    } else if *opening != args.opening_stock {
        format!("the database belongs to a run whose opening stock is {opening}")
    } else if stored_broker == "in-process" {
        "the database belongs to a run whose Kafka was in its process, and is gone".to_owned()
    } else if broker == "in-process" {
        format!("the database belongs to a run on the brokers {stored_broker}; name them with --brokers")
    } else if stored_broker != broker {
        // Another cluster has none of the events that were published already.
        format!("the database belongs to a run on the brokers {stored_broker}, not {broker}")
    } else {
        return Ok(());
    };
    Err(Ended::Refused(format!("{other}; --fresh forgets that run and begins anew")))
}

async fn open_day<DB: Engine>(
    tx: &mut Transaction<'_, DB>,
    args: &Args,
    orders: &OrderBook,
    (broker, form): (&str, Form),
) -> Result<String, sqlx::Error> {
    let run_id = format!("{:016x}", fastrand::u64(..));
    let insert = Statement::new(INSERT_RUN).bind(&run_id).bind(&orders.sha256).bind(args.opening_stock).bind(broker);
    let insert = insert.bind(form.name());
    insert.execute::<DB>(tx).await?;
    for code in orders.stock_codes() {
        Statement::new(INSERT_STOCK).bind(code).bind(args.opening_stock).execute::<DB>(tx).await?;
        Statement::new(INSERT_LEDGER).bind(code).execute::<DB>(tx).await?;
    }
    Ok(run_id)
}
