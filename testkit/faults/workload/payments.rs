//! Payments with a provider in a process of its own: nobody is charged twice, whoever dies and whatever is not heard.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use futures_util::future::BoxFuture;
use leastlock_core::Statement;
use leastlock_testkit::database::Postgres;

use super::{Choice, Role, Stage, Verdict, Workload};
use crate::ground::{Ground, OfGround, Server};
use crate::inject::Blow;
use crate::part::Part;
use crate::record::Journal;

mod client;
mod mutant;
mod provider;
mod service;
mod verdict;

pub(crate) use mutant::MUTANTS;

/// Items, of which one is on sale at a time, for so many payments.
const ITEMS: i64 = 5_000;
const OF_ITEM: i64 = 40;
/// Units of each: fewer than are asked for.
const OPENING: i64 = 50;
/// How long a claim stands without a renewal.
const LEASE: Duration = Duration::from_secs(3);

/// The workload.
pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![Box::new(Payments)]
}

#[derive(Debug)]
struct Payments;

impl Workload for Payments {
    fn name(&self) -> &'static str {
        "payments"
    }

    fn roles(&self) -> Vec<Role> {
        vec![Role { name: "provider", count: 1 }, Role { name: "client", count: 2 }]
    }

    fn menu(&self) -> Vec<Choice> {
        let of = |blow, lasts_ms| Choice::of("client", blow, lasts_ms);
        let mut menu = vec![
            Choice::any(Blow::Kill, 1..2),
            Choice::of("provider", Blow::KillAt(provider::CHARGED), 500..1_000),
            Choice::of("provider", Blow::Stop, 500..3_000),
            of(Blow::KillAt(service::RESERVED), 500..1_000),
            of(Blow::KillAt(service::CALLING), 500..1_000),
            of(Blow::KillAt(service::PAID), 500..1_000),
            // Beyond the lease.
            of(Blow::StopAt(service::CALLING), 4_000..6_000),
            of(Blow::StopAt(service::PAID), 4_000..6_000),
            of(Blow::Stop, 500..6_000),
        ];
        menu.extend(Choice::on_the_way_to(Server::Postgres, Some("client")));
        menu.extend([
            of(Blow::Terminate(Server::Postgres), 1..2),
            of(Blow::Delay(Server::Provider), 500..2_000),
            of(Blow::BlackHole(Server::Provider), 1_000..6_000),
            of(Blow::Mute(Server::Provider), 1_000..6_000),
            of(Blow::Cut(Server::Provider), 200..2_000),
        ]);
        menu
    }

    /// A claim's lease, and how long one call of the database may take.
    fn longest_lease(&self) -> Duration {
        LEASE * 2
    }

    fn prepare<'a>(&'a self, ground: &'a mut Ground) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            Postgres::make(ground).await;
            // The provider listens there whenever it is there.
            let port = std::net::TcpListener::bind(("127.0.0.1", 0)).context("a free port")?.local_addr()?.port();
            std::fs::write(port_file(&ground.histories()), port.to_string())?;
            ground.is_at(Server::Provider, format!("127.0.0.1:{port}"));
            let database = ground.database::<Postgres>()?;
            leastlock_idempotency::MIGRATIONS.run(&database.pool).await?;
            for table in [
                include_str!("../sql/payments/stock.sql"),
                include_str!("../sql/payments/order.sql"),
                include_str!("../sql/payments/order_index.sql"),
                include_str!("../sql/payments/seen.sql"),
                include_str!("../sql/payments/charge.sql"),
            ] {
                database.execute(table).await;
            }
            let mut connection = database.pool.acquire().await?;
            let fill = Statement::new(include_str!("../sql/payments/fill.sql")).bind(OPENING);
            fill.execute::<Postgres>(&mut connection).await?;
            Ok(())
        })
    }

    fn play(&self, part: Part) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            if part.task.role == "provider" { provider::play(part).await } else { client::play(part).await }
        })
    }

    fn unfinished<'a>(
        &'a self,
        ground: &'a Ground,
        _journal: &'a Journal,
    ) -> BoxFuture<'a, anyhow::Result<Option<String>>> {
        Box::pin(async move { Ok(verdict::Books::read(ground).await?.open()) })
    }

    fn check<'a>(
        &'a self,
        ground: &'a Ground,
        journal: &'a Journal,
        stage: Stage,
    ) -> BoxFuture<'a, anyhow::Result<Verdict>> {
        Box::pin(async move { verdict::of(&verdict::Books::read(ground).await?, &journal.calls(client::PAY)?, stage) })
    }
}

/// Where it is written at which port the provider listens, beside the folder of histories.
fn port_file(histories: &Path) -> PathBuf {
    histories.with_file_name("provider-port")
}
