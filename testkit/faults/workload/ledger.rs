//! A ledger that is kept by partition workers: each record takes effect once, in order, by the worker whose partition it is.

use std::time::Duration;

use futures_util::future::BoxFuture;
use leastlock_core::Statement;
use leastlock_testkit::database::Postgres;

use super::{Choice, Role, Stage, Verdict, Workload};
use crate::ground::{Ground, OfGround, Server};
use crate::inject::Blow;
use crate::part::Part;
use crate::record::Journal;

mod by_hand;
mod mutant;
mod producer;
mod verdict;
mod worker;

pub(crate) use mutant::MUTANTS;

const ACCOUNTS: i64 = 40;
const PARTITIONS: i32 = 6;
/// After so long without a word a worker is taken for dead.
const SESSION: Duration = Duration::from_secs(6);
/// How long a stopped worker may hold up the next owner.
const IDLE: Duration = Duration::from_secs(3);

/// What takes effect in a transaction: a record, or a batch of them.
const RECORDS: &str = "ledger";
const BATCHES: &str = "ledger/batches";

/// The workload, both ways.
pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![Box::new(Ledger { name: RECORDS }), Box::new(Ledger { name: BATCHES })]
}

#[derive(Debug)]
struct Ledger {
    name: &'static str,
}

impl Workload for Ledger {
    fn name(&self) -> &'static str {
        self.name
    }

    fn roles(&self) -> Vec<Role> {
        vec![Role { name: "producer", count: 1 }, Role { name: "worker", count: 3 }]
    }

    fn menu(&self) -> Vec<Choice> {
        let of = |blow, lasts_ms| Choice::of("worker", blow, lasts_ms);
        let mut menu = vec![
            Choice::any(Blow::Kill, 1..2),
            of(Blow::Kill, 1..2),
            of(Blow::KillAt(worker::MOVED), 500..1_000),
            of(Blow::Stop, 500..4_000),
            // Beyond the session.
            of(Blow::Stop, 7_000..10_000),
            of(Blow::StopAt(worker::MOVED), 7_000..10_000),
        ];
        menu.extend(Choice::on_the_way_to(Server::Postgres, Some("worker")));
        menu.extend([
            of(Blow::Terminate(Server::Postgres), 1..2),
            of(Blow::Delay(Server::Kafka), 500..2_000),
            of(Blow::BlackHole(Server::Kafka), 1_000..9_000),
            of(Blow::Mute(Server::Kafka), 1_000..9_000),
            of(Blow::Cut(Server::Kafka), 200..2_000),
        ]);
        menu
    }

    fn longest_lease(&self) -> Duration {
        SESSION + IDLE
    }

    fn prepare<'a>(&'a self, ground: &'a mut Ground) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            ground.topic(PARTITIONS).await?;
            Postgres::make(ground).await;
            let database = ground.database::<Postgres>()?;
            leastlock_partition_worker::MIGRATIONS.run(&database.pool).await?;
            for table in [
                include_str!("../sql/ledger/account.sql"),
                include_str!("../sql/ledger/effect.sql"),
                include_str!("../sql/ledger/mutant_turn.sql"),
                include_str!("../sql/ledger/mutant_gate.sql"),
                include_str!("../sql/ledger/mutant_done.sql"),
            ] {
                database.execute(table).await;
            }
            let mut connection = database.pool.acquire().await?;
            for (fill, rows) in [
                (include_str!("../sql/ledger/fill.sql"), ACCOUNTS),
                (include_str!("../sql/ledger/mutant_fill_turn.sql"), i64::from(PARTITIONS)),
                (include_str!("../sql/ledger/mutant_fill_gate.sql"), i64::from(PARTITIONS)),
            ] {
                Statement::new(fill).bind(rows).execute::<Postgres>(&mut connection).await?;
            }
            Ok(())
        })
    }

    fn play(&self, part: Part) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move {
            if part.task.role == "producer" {
                producer::play(part).await
            } else if let Some(mistake) = mutant::of(&part) {
                by_hand::play(part, mistake).await
            } else {
                worker::play(part).await
            }
        })
    }

    fn unfinished<'a>(
        &'a self,
        ground: &'a Ground,
        _journal: &'a Journal,
    ) -> BoxFuture<'a, anyhow::Result<Option<String>>> {
        Box::pin(async move {
            let mut connection = ground.database::<Postgres>()?.pool.acquire().await?;
            let count = Statement::new(include_str!("../sql/ledger/count_effects.sql"));
            let effects = count.fetch_one::<Postgres>(&mut connection).await?.int(0)?;
            let records = i64::try_from(ground.records().await?.len())?;
            Ok((effects < records).then(|| format!("{effects} of {records} records have taken effect")))
        })
    }

    fn check<'a>(
        &'a self,
        ground: &'a Ground,
        journal: &'a Journal,
        stage: Stage,
    ) -> BoxFuture<'a, anyhow::Result<Verdict>> {
        Box::pin(async move {
            let books = verdict::Books::read(ground).await?;
            let mut verdict = verdict::of(&books, stage);
            verdict.count("times that a worker ended with an error", journal.notes::<String>(worker::ENDED)?.len());
            Ok(verdict)
        })
    }
}
