//! What writes a report.

use std::io::Write;

use leastlock::lease::{Acquire, Error, Fence, Hold, Leases, LockName, SqlLeaseStore};
use sqlx::Pool;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::Mutex;

use crate::args::WorkerArgs;
use crate::books;
use crate::draft::{Draft, Published};
use crate::ended::Ended;
use crate::engine::Engine;

/// What ends a halt.
pub(crate) const GO_ON: &str = "go on";

/// Reads lines `MONTH [halt]` from stdin, writes the report of that month, and answers each with a line. Told to halt, it says when its
/// draft is written, and goes on at the next line.
pub(crate) async fn work<DB: Engine>(args: &WorkerArgs) -> Result<(), Ended> {
    let pool = DB::open(&args.database).await.map_err(|error| Ended::refused("cannot reach the database", &error))?;
    let writer = Writer { pool, args, lines: Mutex::new(BufReader::new(tokio::io::stdin()).lines()) };
    while let Some(line) = writer.hear().await {
        // The halt that it ends may be over: the lease was lost, and the work dropped.
        if line == GO_ON {
            continue;
        }
        let (month, halt) = line.split_once(' ').unwrap_or((&line, ""));
        let written = match (args.unfenced, Halt(halt == "halt")) {
            (false, halt) => writer.write(month, halt).await,
            (true, halt) => writer.write_unfenced(month, halt).await,
        };
        match written {
            Ok(report) => say(&format!("{month} published {}", report.file)),
            // The lease knows, or the resource does.
            Err(error @ (Error::Lost { .. } | Error::Refused { .. })) => say(&format!("{month} refused: {error}")),
            Err(error) => return Err(Ended::refused("the report failed", &error)),
        }
    }
    Ok(())
}

/// Whether to stand still before the draft is published.
#[derive(Clone, Copy)]
struct Halt(bool);

struct Writer<'a, DB: Engine> {
    pool: Pool<DB>,
    args: &'a WorkerArgs,
    lines: Mutex<Lines<BufReader<Stdin>>>,
}

impl<DB: Engine> Writer<'_, DB> {
    /// The whole of what the example shows.
    async fn write(&self, month: &str, halt: Halt) -> Result<Published, Error> {
        let leases = Leases::new(SqlLeaseStore::new(&self.pool));
        let (name, fence) =
            (LockName::new(format!("report:bookings:{month}"))?, Fence::new(format!("report:{month}"))?);
        // Should the lock table be restored from an old copy, its tokens still rise above what the reports have seen.
        let policy = self.patience().floor(fence.generation(&self.pool).await?);
        let lease = leases.acquire_with(&name, Hold::renewed(self.args.ttl()), policy).await?;
        let written = lease.run(async |scope| {
            let permit = scope.permit()?;
            fence.seal(&self.pool, &permit).await?; // from here on, older holders are refused
            let bookings = books::read(&self.pool, month).await?;
            let draft = Draft::write(&self.args.folder, &bookings)?; // temporary file, fsync
            self.halt_if(month, halt).await;
            let mut tx = fence.begin(&self.pool, &permit).await?; // this transaction is protected
            let report = draft.put(month, permit.token().value())?; // rename, under a name of this generation's own
            books::publish(&mut tx, &report).await?;
            tx.commit().await?;
            report.remove_older(&self.args.folder)?;
            Ok(report)
        });
        written.await
    }

    /// The same, as it is often done: the lease is believed, and the last one to rename wins.
    async fn write_unfenced(&self, month: &str, halt: Halt) -> Result<Published, Error> {
        let leases = Leases::new(SqlLeaseStore::new(&self.pool));
        let name = LockName::new(format!("report:bookings:{month}"))?;
        let lease = leases.acquire_with(&name, Hold::renewed(self.args.ttl()), self.patience()).await?;
        let broken = |source| Error::Work { known: false, source };
        let bookings = books::read(&self.pool, month).await.map_err(|error| broken(error.into()))?;
        let draft = Draft::write(&self.args.folder, &bookings).map_err(|error| broken(error.into()))?;
        self.halt_if(month, halt).await;
        let report = draft.put_over(month).map_err(|error| broken(error.into()))?;
        let _released = lease.release().await;
        Ok(report)
    }

    /// Longer than a stopped holder keeps others out.
    fn patience(&self) -> Acquire {
        Acquire::waiting(self.args.ttl() * 10).job(format!("worker {}", self.args.name))
    }

    async fn halt_if(&self, month: &str, halt: Halt) {
        if halt.0 {
            say(&format!("{month} written"));
            let _go_on = self.hear().await;
        }
    }

    async fn hear(&self) -> Option<String> {
        self.lines.lock().await.next_line().await.ok().flatten()
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: then stdin is closed as well.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
