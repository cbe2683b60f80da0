//! A card provider in a process of its own, with books of its own: it charges once for each key, and declines for good.
//!
//! A call is a line `key reference cents`, and so is the answer: `charged 7`, `declined`. Without an answer it may have charged.

use std::time::Duration;

use anyhow::Context;
use leastlock_core::Statement;
use leastlock_testkit::database::Postgres;
use sqlx::PgPool;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::port_file;
use crate::ground::Server;
use crate::part::Part;
use crate::pool::Pooled;

/// Where the provider may be killed or stopped: it has charged, and not said so.
pub(super) const CHARGED: &str = "charged";

/// How long a connection may be idle.
const IDLE: Duration = Duration::from_secs(5);
const CONNECTIONS: u32 = 6;

pub(super) async fn play(part: Part) -> anyhow::Result<()> {
    let own: u16 = std::fs::read_to_string(port_file(&part.task.histories))?.trim().parse()?;
    let pool = Postgres::lazy(part.address(Server::Postgres)?, CONNECTIONS)?;
    let listener = TcpListener::bind(("127.0.0.1", own)).await.context("the provider's port")?;
    while let Some(accepted) = part.shutdown.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else { continue };
        let (part, pool) = (part.clone(), pool.clone());
        // Who is told nothing does not know.
        tokio::spawn(async move { tokio::time::timeout(IDLE, answer(&part, &pool, stream)).await });
    }
    Ok(())
}

async fn answer(part: &Part, pool: &PgPool, stream: TcpStream) -> anyhow::Result<()> {
    let (mut reader, mut call) = (BufReader::new(stream), String::new());
    reader.read_line(&mut call).await?;
    let mut words = call.split_whitespace();
    let (key, reference) = (words.next().context("a key")?, words.next().context("a reference")?);
    let cents: i64 = words.next().context("an amount")?.parse()?;
    let said = charge(pool, key, reference, cents).await?;
    part.point(CHARGED);
    reader.get_mut().write_all(said.as_bytes()).await?;
    Ok(())
}

/// The first outcome of a key stands.
async fn charge(pool: &PgPool, key: &str, reference: &str, cents: i64) -> anyhow::Result<String> {
    let mut tx = pool.begin().await?;
    let see = Statement::new(include_str!("../../sql/payments/see.sql")).bind(key);
    let is_new = see.execute::<Postgres>(&mut tx).await? > 0;
    let charge = if is_new && !declines(cents) {
        let take = Statement::new(include_str!("../../sql/payments/take_money.sql"));
        let take = take.bind(key).bind(reference).bind(cents);
        let charge = take.fetch_one::<Postgres>(&mut tx).await?.int(0)?;
        let note = Statement::new(include_str!("../../sql/payments/note_charge.sql")).bind(key).bind(charge);
        note.execute::<Postgres>(&mut tx).await?;
        charge
    } else {
        let look = Statement::new(include_str!("../../sql/payments/look.sql")).bind(key);
        look.fetch_one::<Postgres>(&mut tx).await?.int(0)?
    };
    tx.commit().await?;
    Ok(if charge == 0 { "declined\n".to_owned() } else { format!("charged {charge}\n") })
}

/// The amount decides, so that every call of a payment is answered alike.
pub(super) const fn declines(cents: i64) -> bool {
    cents % 5 == 0
}
