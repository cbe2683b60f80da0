//! Batches on one shelf by whoever holds a lease, on each backend: of two that believe to hold it, the shelf takes the newer.

use std::time::Duration;

use etcd_client::ConnectOptions;
use futures_util::future::BoxFuture;
use leastlock_lease::{EtcdLeaseStore, FencedStore, MIGRATIONS, RedisLeaseStore, SqlLeaseStore, ZooKeeperLeaseStore};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};

use self::holder::Holder;
use self::mutants::{CLIENT_CLOCK, Mistaken, UPSERT};
use self::shelf::Shelves;
use super::{Choice, Role, Stage, Verdict, Workload};
use crate::ground::{Ground, Server};
use crate::part::Part;
use crate::record::Journal;

mod backend;
mod holder;
mod mutants;
mod recorded;
mod shelf;
mod verdict;

/// How long a lease lasts.
const TTL: Duration = Duration::from_secs(2);
/// The server ends a transaction that idles for so long.
const IDLE: Duration = Duration::from_secs(1);
/// ZooKeeper's shortest session here, and the TTL, and what a transaction may idle, together.
const LONGEST: Duration = Duration::from_secs(10);
/// Those that ask for and renew leases, beside each other.
const CONNECTIONS: u32 = 3;

/// The workload on each backend.
pub(super) fn all() -> Vec<Box<dyn Workload>> {
    backend::ALL.iter().map(|backend| Box::new(*backend) as Box<dyn Workload>).collect()
}

impl Workload for backend::Backend {
    fn name(&self) -> &'static str {
        backend::Backend::name(*self)
    }

    fn roles(&self) -> Vec<Role> {
        vec![Role { name: "writer", count: 3 }]
    }

    fn menu(&self) -> Vec<Choice> {
        backend::Backend::menu(*self)
    }

    fn longest_lease(&self) -> Duration {
        LONGEST
    }

    fn prepare<'a>(&'a self, ground: &'a mut Ground) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            match self.resource() {
                Server::MariaDb => prepare::<MySql>(ground).await,
                Server::Sqlite => prepare::<Sqlite>(ground).await,
                _ => prepare::<Postgres>(ground).await,
            }?;
            if self.store() != self.resource() {
                ground.common(self.store())?;
            }
            Ok(())
        })
    }

    fn play(&self, part: Part) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(play(*self, part))
    }

    fn unfinished<'a>(
        &'a self,
        _ground: &'a Ground,
        journal: &'a Journal,
    ) -> BoxFuture<'a, anyhow::Result<Option<String>>> {
        Box::pin(async move {
            let finished = journal.notes::<()>(holder::FINISHED)?;
            let missing = (0..3).map(|number| format!("writer-{number}-"));
            let missing = missing.filter(|name| !finished.iter().any(|note| note.by.starts_with(name)));
            let missing: Vec<String> = missing.collect();
            Ok((!missing.is_empty()).then(|| format!("{missing:?} could not write once more")))
        })
    }

    fn check<'a>(
        &'a self,
        ground: &'a Ground,
        journal: &'a Journal,
        _stage: Stage,
    ) -> BoxFuture<'a, anyhow::Result<Verdict>> {
        Box::pin(async move {
            let (batches, halves) = match self.resource() {
                Server::MariaDb => shelf::history(ground.database::<MySql>()?).await?,
                Server::Sqlite => shelf::history(ground.database::<Sqlite>()?).await?,
                _ => shelf::history(ground.database::<Postgres>()?).await?,
            };
            verdict::of(&batches, &halves, journal, self.keeps_its_word())
        })
    }
}

async fn prepare<DB: Shelves>(ground: &mut Ground) -> anyhow::Result<()> {
    DB::make(ground).await;
    let database = ground.database::<DB>()?;
    MIGRATIONS.run(&database.pool).await?;
    shelf::prepare(database).await;
    Ok(())
}

async fn play(backend: backend::Backend, part: Part) -> anyhow::Result<()> {
    let name = part.task.name.clone();
    match backend.store() {
        Server::MariaDb => in_sql::<MySql>(backend, part).await,
        Server::Sqlite => in_sql::<Sqlite>(backend, part).await,
        Server::Redis => {
            let store = RedisLeaseStore::new(redis::Client::open(part.address(Server::Redis)?)?).namespace(name);
            on::<_, Postgres>(backend, store, part).await
        }
        Server::Etcd => {
            let store = EtcdLeaseStore::new([part.address(Server::Etcd)?], ConnectOptions::new()).namespace(name);
            on::<_, Postgres>(backend, store, part).await
        }
        Server::ZooKeeper => {
            let connector = zookeeper_client::Client::connector().with_session_timeout(TTL);
            let store = ZooKeeperLeaseStore::new(part.address(Server::ZooKeeper)?, connector).root(format!("/{name}"));
            on::<_, Postgres>(backend, store, part).await
        }
        _ if part.is_mutant(CLIENT_CLOCK) || part.is_mutant(UPSERT) => {
            let store = Mistaken::new(&backend::pool::<Postgres>(&part, CONNECTIONS)?, &part);
            on::<_, Postgres>(backend, store, part).await
        }
        _ => in_sql::<Postgres>(backend, part).await,
    }
}

/// Locks and shelf are in one database.
async fn in_sql<DB: Shelves>(backend: backend::Backend, part: Part) -> anyhow::Result<()> {
    let store = SqlLeaseStore::new(&backend::pool::<DB>(&part, CONNECTIONS)?);
    on::<_, DB>(backend, store, part).await
}

async fn on<S: FencedStore, DB: Shelves>(backend: backend::Backend, store: S, part: Part) -> anyhow::Result<()> {
    let pool = backend::pool::<DB>(&part, u32::try_from(backend.lanes())? + 2)?;
    Holder::new(store, pool, part, backend)?.live().await
}
