//! A holder in a process of its own: it acquires, writes at its door until its lease is over, and acquires again.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use etcd_client::ConnectOptions;
use leastlock_core::begin;
use leastlock_lease::{
    Acquire, CorrectnessLease, Error, EtcdLeaseStore, Fence, FencedStore, Hold, Leases, LockName, RedisLeaseStore,
    Refusal, SqlLeaseStore, ZooKeeperLeaseStore,
};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use leastlock_testkit::process::{Child, hear, speak};
use serde::{Deserialize, Serialize};
use sqlx::Pool;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::clock::{Standing, nanoseconds, since_boot};
use super::door::{self, Doors, Written};
use crate::engine::BenchEngine;
use crate::lease::Backend;

/// What a holder says.
pub(super) const TOOK: &str = "took";
pub(super) const WROTE: &str = "wrote";
pub(super) const REFUSED: &str = "refused";
pub(super) const ENDED: &str = "ended";
pub(super) const STANDING: &str = "standing";
/// What it is told.
pub(super) const STAND: &str = "stand";
pub(super) const GO: &str = "go";

/// Between two writes.
const BEAT: Duration = Duration::from_millis(40);
/// Before something that has failed is tried again.
const AGAIN: Duration = Duration::from_millis(100);
/// The server ends a transaction that idles for so long: it is less than any TTL.
const IDLE: Duration = Duration::from_secs(1);
/// Longer than any run.
const PATIENCE: Duration = Duration::from_hours(1);
/// One that asks, one that renews, one that shows who waits.
const CONNECTIONS: u32 = 3;

/// What a holder goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Conduct {
    /// As leastlock is to be used.
    Fenced,
    /// The same, but during the fault its clock stands still, so that it believes in its lease: only the resource refuses it.
    Believing,
    /// The double: as `Believing`, and the resource does not check.
    Unchecked,
}

impl Conduct {
    /// Its name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fenced => "fenced",
            Self::Believing => "fenced, its clock stands still",
            Self::Unchecked => "the double without the check",
        }
    }

    pub(super) fn believes(self) -> bool {
        self != Self::Fenced
    }
}

/// What a holder is told when it begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) backend: Backend,
    pub(super) conduct: Conduct,
    pub(super) ttl: Duration,
    pub(super) door: i64,
    /// Its number among all processes.
    pub(super) holder: i64,
    /// Where the locks are, and under which name beside others.
    pub(super) store: String,
    pub(super) namespace: String,
    /// Where the door is.
    pub(super) resource: String,
}

/// What a child is told.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChildOptions {
    /// A task, as JSON.
    task: String,
}

/// Starts a holder; it does not outlive the value.
pub(super) fn launch(task: &Task) -> anyhow::Result<Child> {
    let mut command = Command::new(std::env::current_exe().context("this program has no path")?);
    command.arg("lease-child").arg(serde_json::to_string(task)?);
    Ok(Child::spawn(command))
}

/// The child's part: until its standard input ends.
pub(crate) async fn run(options: &ChildOptions) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let task: Task = serde_json::from_str(&options.task)?;
    match task.backend {
        Backend::Postgres => in_sql::<Postgres>(task).await,
        Backend::Sqlite => in_sql::<Sqlite>(task).await,
        Backend::Mariadb => in_sql::<MySql>(task).await,
        Backend::Redis => {
            let store = RedisLeaseStore::new(redis::Client::open(&*task.store)?).namespace(&*task.namespace);
            beside(store, task).await
        }
        Backend::Etcd => {
            let store = EtcdLeaseStore::new([&*task.store], ConnectOptions::new()).namespace(&*task.namespace);
            beside(store, task).await
        }
        Backend::Zookeeper => {
            let connector = zookeeper_client::Client::connector().with_session_timeout(task.ttl);
            let store = ZooKeeperLeaseStore::new(&*task.store, connector).root(format!("/{}", task.namespace));
            beside(store, task).await
        }
    }
}

async fn in_sql<DB: Doors>(task: Task) -> anyhow::Result<()> {
    let store = SqlLeaseStore::new(&DB::pool(&task.store, CONNECTIONS).await?);
    let resource = DB::pool(&task.resource, CONNECTIONS).await?;
    Holder::new(store, resource, task)?.live().await
}

/// The door is in PostgreSQL.
async fn beside<S: FencedStore>(store: S, task: Task) -> anyhow::Result<()> {
    let resource = Postgres::pool(&task.resource, CONNECTIONS).await?;
    Holder::new(store, resource, task)?.live().await
}

struct Holder<S, DB: Doors> {
    leases: Leases<S>,
    name: LockName,
    hold: Hold,
    fence: Fence,
    pool: Pool<DB>,
    task: Task,
    shutdown: CancellationToken,
}

impl<S: FencedStore, DB: Doors> Holder<S, DB> {
    fn new(store: S, pool: Pool<DB>, task: Task) -> anyhow::Result<Self> {
        let name = LockName::new(format!("bench:door:{}", task.door))?;
        let fence = Fence::new(name.as_str())?.idle_timeout(IDLE);
        let (clock, shutdown) = (Standing::default(), CancellationToken::new());
        listen(clock.clone(), shutdown.clone());
        let leases = Leases::new(store).clock(clock);
        let hold = Hold::renewed(task.ttl);
        // It goes on believing while a renewal is not answered, which was on its way when its clock began to stand still.
        let hold = if task.conduct.believes() { hold.permits_while_unconfirmed() } else { hold };
        Ok(Self { leases, name, hold, fence, pool, task, shutdown })
    }

    async fn live(self) -> anyhow::Result<()> {
        loop {
            let acquired = self.leases.acquire_with(&self.name, self.hold, Acquire::waiting(PATIENCE));
            match self.shutdown.run_until_cancelled(acquired).await {
                None => return Ok(()),
                Some(Ok(lease)) => self.hold(lease).await,
                // The store is away, or was.
                Some(Err(_)) => sleep(AGAIN).await,
            }
        }
    }

    /// Writes until the lease is over.
    async fn hold(&self, lease: CorrectnessLease) {
        let token = lease.token().value();
        tell(TOOK, token);
        tokio::select! {
            () = lease.lost() => {}
            () = self.shutdown.cancelled() => {}
            () = self.write_on(&lease) => {}
        }
        let _whatever = lease.release().await;
        tell(ENDED, token);
    }

    async fn write_on(&self, lease: &CorrectnessLease) {
        let (mut sealed, mut has_written) = (false, false);
        loop {
            match self.write(lease, &mut sealed).await {
                Ok(()) if !has_written => {
                    has_written = true;
                    tell(WROTE, lease.token().value());
                }
                // What the holder itself knows is no refusal of the resource's.
                Err(Failure::Lease(Error::Refused { refusal: Refusal::Lost { .. }, .. })) => {}
                Err(Failure::Lease(Error::Refused { .. })) => tell(REFUSED, lease.token().value()),
                // The database is away, or the outcome is not known: the next write may fare better.
                Ok(()) | Err(_) => {}
            }
            sleep(BEAT).await;
        }
    }

    async fn write(&self, lease: &CorrectnessLease, sealed: &mut bool) -> Result<(), Failure> {
        let permit = lease.permit()?;
        let write = Written { door: self.task.door, token: permit.token().value(), holder: self.task.holder };
        if self.task.conduct == Conduct::Unchecked {
            let mut tx = begin::<DB>(&self.pool).await?;
            door::write::<DB>(&mut tx, write).await?;
            return Ok(tx.commit().await?);
        }
        if !*sealed {
            self.fence.seal(&self.pool, &permit).await?;
            *sealed = true;
        }
        let mut tx = self.fence.begin(&self.pool, &permit).await?;
        door::write::<DB>(&mut tx, write).await?;
        Ok(tx.commit().await?)
    }
}

/// Why a write did not happen, or nobody knows.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Lease(#[from] Error),
    #[error(transparent)]
    Database(#[from] sqlx::Error),
}

/// Hears what the parent says, until that ends.
fn listen(clock: Standing, shutdown: CancellationToken) {
    std::thread::spawn(move || {
        while let Some(line) = hear() {
            match &*line {
                STAND => {
                    clock.stand();
                    tell(STANDING, 0);
                }
                GO => clock.go(),
                _ => {}
            }
        }
        shutdown.cancel();
    });
}

/// Says what has happened, of which token, and when.
fn tell(what: &str, token: i64) {
    speak(format_args!("{what} {token} {}", nanoseconds(since_boot())));
}
