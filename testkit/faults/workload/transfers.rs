//! Transfers between accounts with a version column: no unit is lost or made up, whoever dies in between.

use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leastlock_core::Statement;
use leastlock_occ::Stored;
use leastlock_testkit::database::{MySql, Postgres, Sqlite};

use super::{Choice, Role, Stage, Verdict, Workload};
use crate::ground::{Ground, Server};
use crate::inject::Blow;
use crate::part::Part;
use crate::pool::Pooled;
use crate::record::Journal;

mod bank;
mod client;
mod verdict;

/// So few that clients meet at them.
const ACCOUNTS: i64 = 8;
/// What is on each at first.
const OPENING: i64 = 1_000;

/// The workload on each engine.
pub(super) fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(Transfers::<Postgres> { name: "transfers/postgres", engine: PhantomData }),
        Box::new(Transfers::<MySql> { name: "transfers/mariadb", engine: PhantomData }),
        Box::new(Transfers::<Sqlite> { name: "transfers/sqlite", engine: PhantomData }),
    ]
}

#[derive(Debug)]
struct Transfers<DB> {
    name: &'static str,
    engine: PhantomData<fn() -> DB>,
}

impl<DB: client::Engine> Workload for Transfers<DB>
where
    bank::Account: Stored<DB>,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn roles(&self) -> Vec<Role> {
        vec![Role { name: "client", count: 3 }]
    }

    fn menu(&self) -> Vec<Choice> {
        let mut menu = vec![
            Choice::any(Blow::Kill, 1..2),
            Choice::any(Blow::KillAt(client::DEBITED), 500..1_000),
            Choice::any(Blow::KillAt(client::COMMITTING), 500..1_000),
        ];
        if DB::SERVER == Server::Sqlite {
            // Whoever is stopped in a transaction stops all others at the file, for as long as that lasts.
            menu.push(Choice::any(Blow::Stop, 300..2_000));
            return menu;
        }
        let server = DB::SERVER;
        menu.extend([Choice::any(Blow::Stop, 500..4_000), Choice::any(Blow::StopAt(client::DEBITED), 1_000..13_000)]);
        menu.extend(Choice::on_the_way_to(server, None));
        menu
    }

    /// None: a stopped client's transaction is ended by its server.
    fn longest_lease(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn prepare<'a>(&'a self, ground: &'a mut Ground) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            DB::make(ground).await;
            bank::open(ground.database::<DB>()?).await
        })
    }

    fn play(&self, part: Part) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(client::play::<DB>(part))
    }

    fn unfinished<'a>(
        &'a self,
        ground: &'a Ground,
        _journal: &'a Journal,
    ) -> BoxFuture<'a, anyhow::Result<Option<String>>> {
        // Nothing may keep an account from being written: locks of those that are gone are gone.
        Box::pin(async move { bank::is_locked(ground.database::<DB>()?).await })
    }

    fn check<'a>(
        &'a self,
        ground: &'a Ground,
        journal: &'a Journal,
        stage: Stage,
    ) -> BoxFuture<'a, anyhow::Result<Verdict>> {
        Box::pin(async move {
            let bank = bank::Bank::read(ground.database::<DB>()?).await?;
            Ok(verdict::of(&bank, &journal.calls(client::TRANSFER)?, stage))
        })
    }
}

/// The statement that notes a transfer.
fn note<DB: Pooled>(moved: &bank::Moved) -> Statement<'_> {
    let note = leastlock_testkit::database::sql::<DB>(
        include_str!("../sql/transfers/note.sql"),
        include_str!("../sql/transfers/note_mysql.sql"),
    );
    let statement = Statement::new(note).bind(&*moved.id).bind(moved.debtor).bind(moved.creditor);
    statement.bind(moved.units).bind(moved.debtor_version).bind(moved.creditor_version)
}
