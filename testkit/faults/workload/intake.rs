//! Orders: each key takes effect once, no unit is sold twice, and what was committed is published in order; whoever dies in between.

use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leastlock_core::Statement;
use leastlock_testkit::database::{MySql, Postgres, sql};

use super::{Choice, Role, Stage, Verdict, Workload};
use crate::ground::{Ground, Server};
use crate::inject::Blow;
use crate::part::Part;
use crate::record::Journal;

mod books;
mod by_hand;
mod client;
mod mutant;
mod relay;
mod shop;
mod verdict;

pub(crate) use mutant::MUTANTS;

/// Items, of which so many are on sale at a time, for so many orders each.
const ITEMS: i64 = 8_000;
const WIDTH: i64 = 4;
const OF_ITEM: i64 = 24;
/// Units of each: fewer than are asked for.
const OPENING: i64 = 30;
const PARTITIONS: i32 = 4;
/// A relay's lease.
const LEASE: Duration = Duration::from_secs(3);
/// How long a transaction may be idle, and a repeat waits for the first.
const IDLE: Duration = Duration::from_secs(3);

/// The workload on each engine.
pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(Intake::<Postgres> { name: "intake/postgres", engine: PhantomData }),
        Box::new(Intake::<MySql> { name: "intake/mariadb", engine: PhantomData }),
    ]
}

#[derive(Debug)]
struct Intake<DB> {
    name: &'static str,
    engine: PhantomData<fn() -> DB>,
}

impl<DB: shop::Engine> Workload for Intake<DB> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn roles(&self) -> Vec<Role> {
        vec![Role { name: "client", count: 2 }, Role { name: "relay", count: 2 }]
    }

    fn menu(&self) -> Vec<Choice> {
        let database = DB::SERVER;
        let mut menu = vec![
            Choice::any(Blow::Kill, 1..2),
            Choice::of("client", Blow::KillAt(shop::TAKEN), 500..1_000),
            Choice::of("client", Blow::KillAt(shop::APPENDED), 500..1_000),
            Choice::of("client", Blow::StopAt(shop::APPENDED), 500..6_000),
            Choice::of("relay", Blow::Kill, 1..2),
            Choice::of("relay", Blow::Stop, 500..6_000),
            Choice::any(Blow::Stop, 500..6_000),
        ];
        menu.extend(Choice::on_the_way_to(database, None));
        menu.extend([
            Choice::any(Blow::Terminate(database), 1..2),
            Choice::of("relay", Blow::Delay(Server::Kafka), 500..2_000),
            Choice::of("relay", Blow::BlackHole(Server::Kafka), 1_000..6_000),
            Choice::of("relay", Blow::Mute(Server::Kafka), 1_000..6_000),
            Choice::of("relay", Blow::Cut(Server::Kafka), 200..2_000),
        ]);
        menu
    }

    /// A relay's lease, and what a transaction that nobody goes on with holds.
    fn longest_lease(&self) -> Duration {
        LEASE + IDLE
    }

    fn prepare<'a>(&'a self, ground: &'a mut Ground) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            ground.topic(PARTITIONS).await?;
            DB::make(ground).await;
            let database = ground.database::<DB>()?;
            leastlock_idempotency::MIGRATIONS.run(&database.pool).await?;
            leastlock_outbox::MIGRATIONS.run(&database.pool).await?;
            for table in [
                include_str!("../sql/intake/stock.sql"),
                include_str!("../sql/intake/order.sql"),
                include_str!("../sql/intake/claim.sql"),
            ] {
                database.execute(table).await;
            }
            let fill = sql::<DB>(include_str!("../sql/intake/fill.sql"), include_str!("../sql/intake/fill_mysql.sql"));
            let mut connection = database.pool.acquire().await?;
            Statement::new(fill).bind(OPENING).execute::<DB>(&mut connection).await?;
            Ok(())
        })
    }

    fn play(&self, part: Part) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            if part.task.role == "relay" { relay::play::<DB>(part).await } else { client::play::<DB>(part).await }
        })
    }

    fn unfinished<'a>(
        &'a self,
        ground: &'a Ground,
        journal: &'a Journal,
    ) -> BoxFuture<'a, anyhow::Result<Option<String>>> {
        Box::pin(async move {
            let books = books::Books::read::<DB>(ground).await?;
            Ok(verdict::unfinished(&books, &journal.calls(client::PLACE)?))
        })
    }

    fn check<'a>(
        &'a self,
        ground: &'a Ground,
        journal: &'a Journal,
        stage: Stage,
    ) -> BoxFuture<'a, anyhow::Result<Verdict>> {
        Box::pin(async move {
            let books = books::Books::read::<DB>(ground).await?;
            let mut verdict = verdict::of(&books, &journal.calls(client::PLACE)?, stage)?;
            verdict.count("times that a relay ended with an error", journal.notes::<String>(relay::ENDED)?.len());
            Ok(verdict)
        })
    }
}
