//! A: the holder that is stopped, in a process of its own.

use leastlock::core::Statement;
use leastlock::lease::{BootClock, BootTime, Clock, Error, Hold, Leases, Permit, Released, SqlLeaseStore};
use sqlx::Pool;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use crate::args::Args;
use crate::engine::{BoxError, Engine};
use crate::experiment::{fence, lock};

const LATE_TO_UNPROTECTED: &str =
    "UPDATE late_writer_example SET result = 'late A result' WHERE resource = 'unprotected'";
const LATE_TO_FENCED: &str = "UPDATE late_writer_example SET result = 'late A result' WHERE resource = 'fenced'";
/// What a release must not be: it ends the lease, whosever it is.
const RELEASE_WHOSEVER_IT_IS: &str = "UPDATE leastlock_lease SET lease_until = NULL";

/// A clock that stands still, as that of a machine may seem to which was suspended.
///
/// By its real clock A would see on waking that its lease is over, and would not write. But a process can be stopped *after* it
/// has looked, and no clock helps then; so this one leaves the decision to the resource.
#[derive(Debug)]
struct Standing(BootTime);

impl Clock for Standing {
    fn now(&self) -> BootTime {
        self.0
    }
}

/// Acquires, seals, and says so; then it is stopped. Told to go on, it writes and releases as if nothing had been.
pub(crate) async fn run<DB: Engine>(pool: &Pool<DB>, args: &Args) -> Result<(), BoxError> {
    let leases = Leases::new(SqlLeaseStore::new(pool)).clock(Standing(BootClock.now()));
    let lease = leases.acquire(&lock()?, Hold::fixed(args.ttl())).await?;
    let permit = lease.permit()?;
    fence()?.seal(pool, &permit).await?;
    println!("holding");
    let mut line = String::new();
    BufReader::new(stdin()).read_line(&mut line).await?;

    execute(pool, LATE_TO_UNPROTECTED).await?;
    if args.without_fence {
        execute(pool, LATE_TO_FENCED).await?;
    } else {
        match write_fenced(pool, &permit).await {
            Err(Error::Refused { refusal, .. }) => eprintln!("A: the fenced resource refuses: {refusal}"),
            other => other?,
        }
    }
    if args.without_owner {
        execute(pool, RELEASE_WHOSEVER_IT_IS).await?;
        return Ok(());
    }
    match lease.release().await {
        Released::NotOwner => eprintln!("A: the store says that the lease is not A's"),
        other => eprintln!("A: released: {other:?}"),
    }
    Ok(())
}

async fn write_fenced<DB: Engine>(pool: &Pool<DB>, permit: &Permit) -> Result<(), Error> {
    let mut tx = fence()?.begin(pool, permit).await?;
    // An update that fails would show as the other result.
    let _ = Statement::new(LATE_TO_FENCED).execute::<DB>(&mut tx).await;
    tx.commit().await
}

async fn execute<DB: Engine>(pool: &Pool<DB>, statement: &'static str) -> Result<(), BoxError> {
    Statement::new(statement).execute::<DB>(&mut *pool.acquire().await?).await?;
    Ok(())
}
