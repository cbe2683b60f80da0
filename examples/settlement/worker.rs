//! A machine whose timetable starts the batch of a day.

use std::convert::Infallible;
use std::io::Write;

use leastlock::core::{Statement, begin, commit};
use leastlock::lease::{Acquire, Error, Hold, Leases, Once, Period, SqlLeaseStore, WorkError};
use sqlx::Pool;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::args::{Mistake, WorkerArgs};
use crate::books;
use crate::ended::Ended;
use crate::engine::Engine;

/// Where it stands still, to be killed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halt {
    Never,
    /// In the middle of the transaction.
    Inside,
    /// When the first transaction of the batch is committed, and before the lease is released.
    After,
}

/// Reads lines `DAY [inside|after]` from stdin, runs the batch of that day, and answers each with a line.
pub(crate) async fn work<DB: Engine>(args: &WorkerArgs) -> Result<(), Ended> {
    let pool = DB::open(&args.database).await.map_err(|error| Ended::refused("cannot reach the database", &error))?;
    let leases = Leases::new(SqlLeaseStore::new(&pool));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let (day, halt) = line.split_once(' ').unwrap_or((&line, ""));
        let halt = match halt {
            "inside" => Halt::Inside,
            "after" => Halt::After,
            _ => Halt::Never,
        };
        let batch = Batch { pool: &pool, leases: &leases, args, day, halt };
        let answer = match args.mistake {
            None => batch.run().await,
            Some(mistake) => batch.run_mistaken(mistake).await,
        };
        match answer.map_err(|error| Ended::refused("the batch failed", &error))? {
            Once::Ran(paid) => say(&format!("{day} ran {paid}")),
            Once::Done(_) => say(&format!("{day} done")),
            Once::Running(holder) => say(&format!("{day} running {holder}")),
        }
    }
    Ok(())
}

struct Batch<'a, DB: Engine> {
    pool: &'a Pool<DB>,
    leases: &'a Leases<SqlLeaseStore<DB>>,
    args: &'a WorkerArgs,
    day: &'a str,
    halt: Halt,
}

impl<DB: Engine> Batch<'_, DB> {
    /// Who comes second waits for the first, and longer than a dead one keeps it out.
    fn patience(&self) -> Acquire {
        Acquire::waiting(self.args.ttl() * 3).job(format!("worker {}", self.args.name))
    }

    /// The whole of what the example shows: the work, and the mark of its period, in one transaction.
    async fn run(&self) -> Result<Once<u64>, Error> {
        let (period, hold) = (Period::new("settlement", self.day)?, Hold::renewed(self.args.ttl()));
        let work = async |turn: leastlock::lease::Turn<DB>| {
            let mut tx = turn.begin().await?;
            let paid = books::pay(&mut tx, self.day, &self.args.name).await?;
            self.halt_if(Halt::Inside).await;
            let completed = tx.complete(paid).await?;
            self.halt_if(Halt::After).await;
            Ok(completed)
        };
        self.leases.once_with(self.pool, &period, hold, self.patience(), work).await
    }

    /// The same, as it is often done.
    async fn run_mistaken(&self, mistake: Mistake) -> Result<Once<u64>, Error> {
        let (period, hold) = (Period::new("settlement", self.day)?, Hold::renewed(self.args.ttl()));
        let lease = self.leases.acquire_efficiency_with(period.name(), hold, self.patience()).await?;
        let ran = lease.run(async |_scope| {
            if let (true, Some(done)) = (mistake != Mistake::LeaseAlone, period.done(self.pool).await?) {
                return Ok(Once::Done(done));
            }
            if mistake == Mistake::MarkBefore {
                self.mark().await?;
                self.halt_if(Halt::After).await;
            }
            let mut tx = begin(self.pool).await?;
            let paid = books::pay(&mut tx, self.day, &self.args.name).await?;
            self.halt_if(Halt::Inside).await;
            commit(tx).await?;
            if mistake != Mistake::MarkBefore {
                self.halt_if(Halt::After).await;
            }
            if mistake == Mistake::MarkAfter {
                self.mark().await?;
            }
            Ok(Once::Ran(paid))
        });
        ran.await
    }

    async fn mark(&self) -> Result<(), WorkError> {
        const MARK: &str = "INSERT INTO leastlock_once (job, period, owner_token, began_at, completed_at) \
                            SELECT 'settlement', $1, $2, updated_at, updated_at FROM leastlock_lease WHERE lock_name = $3";
        let lock = format!("job:settlement:{}", self.day);
        let mut connection = self.pool.acquire().await?;
        let mark = Statement::new(MARK).bind(self.day).bind(&[7_u8; 16][..]).bind(&*lock);
        mark.execute::<DB>(&mut connection).await?;
        Ok(())
    }

    /// Says so, and waits to be killed. Its lease is renewed meanwhile.
    async fn halt_if(&self, here: Halt) {
        if self.halt == here {
            say(&format!("{} halted", self.day));
            let never: Infallible = std::future::pending().await;
            match never {}
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: then stdin is closed as well.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
