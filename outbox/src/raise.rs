//! More shards, while events are appended and published.

use std::time::{Duration, Instant};

use leastlock_core::{ErrorClass, Statement, begin, commit};
use sqlx::{PgPool, Postgres, Transaction};

use crate::error::Error;

const LOCK_WAIT: &str = include_str!("../sql/postgres/raise_wait.sql");
const LOCK: &str = include_str!("../sql/postgres/raise_lock.sql");
const STATE: &str = include_str!("../sql/postgres/raise_state.sql");
const UNCHECKED: &str = include_str!("../sql/postgres/unchecked_shards.sql");
const RAISE: &str = include_str!("../sql/postgres/raise.sql");
const CHECKED: &str = include_str!("../sql/postgres/checked_shards.sql");

/// The most shards: each costs a relay a little at every poll.
const MOST_SHARDS: u16 = 1_024;
/// How long it is tried to lock the log.
const LIMIT: Duration = Duration::from_secs(30);
/// Between two attempts: appends and reads that stood behind one go on.
const PAUSE: Duration = Duration::from_millis(250);

/// Gives the outbox of a PostgreSQL database more shards, so that more relays can share it; 16 are there at first.
///
/// Nothing has to be stopped. The `shards` new ones take the place of those that are there: from the commit on events are appended to the
/// new ones only, and the old ones are published to their end. Only then can a relay hold a new one. So the events of a key, which
/// are in an old shard up to here and in a new one from here on, leave in their order. Until the old ones are published new
/// events wait; raise the number while the backlog is small.
///
/// **An event of an old shard that is refused with [`OnRefusal::BlockKey`](crate::OnRefusal::BlockKey) meanwhile keeps all new shards shut, for
/// every key, until an operator has retried, skipped or released it** ([`Parked`](crate::Parked)): later events of its key must not
/// overtake it. What is parked alone (without a key, or with `OnRefusal::ParkAlone`) keeps nothing shut. Look at
/// [`Lag`](crate::Lag) after a raise.
///
/// An [`Outbox`](crate::Outbox) that was opened before fails **once** with [`Error::ShardsRaised`], which rolls its transaction
/// back; run the transaction again, as after a deadlock. Whoever appends by other means has to count the shards anew: by the old numbers
/// the table refuses its events (constraint `leastlock_outbox_active`), in every isolation level.
///
/// Appends and reads of the log wait while it works, which takes milliseconds. It tries for 30 s to find a moment in which no open
/// transaction has appended; an attempt keeps new appends and reads waiting for half a second at most, and a pause lets them go on.
///
/// # Errors
/// [`Error::CannotRaise`] when it would change nothing or break the order, with what to do. [`Error::Database`], with the class of a
/// lock time-out when a transaction that has appended stays open for 30 s. Needs the right to alter the table.
///
/// # Cancel safety
/// Each attempt is one transaction: it is done whole or not at all.
pub async fn raise_shards(pool: &PgPool, shards: u16) -> Result<(), Error> {
    let database = Error::database::<Postgres>;
    let until = Instant::now() + LIMIT;
    let mut tx = loop {
        match locked(pool).await {
            Err(Error::Database { class: ErrorClass::LockTimeout, .. }) if Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            locked => break locked?,
        }
    };
    let state = Statement::new(STATE).fetch_one::<Postgres>(&mut tx).await.map_err(database)?;
    let figure = |index| state.int(index).map_err(database);
    let (active, waiting, parked) = (figure(0)?, figure(1)?, figure(2)?);
    let refused = if i64::from(shards) <= active {
        Some("there are as many already, and their number never falls")
    } else if shards > MOST_SHARDS {
        Some("1,024 is the most")
    } else if waiting > 0 {
        Some("an earlier raise is not through: its old shards are still being published; let relays run")
    } else if parked > 0 {
        Some("events are parked, and later ones of their keys have to follow them; retry, skip or release them first")
    } else {
        None
    };
    if let Some(reason) = refused {
        return Err(Error::CannotRaise { shards, reason });
    }
    Statement::new(UNCHECKED).execute::<Postgres>(&mut tx).await.map_err(database)?;
    Statement::new(RAISE).bind(i64::from(shards)).execute::<Postgres>(&mut tx).await.map_err(database)?;
    Statement::new(CHECKED).execute::<Postgres>(&mut tx).await.map_err(database)?;
    commit(tx).await.map_err(database)?;
    tracing::info!(shards, "the outbox was given more shards");
    Ok(())
}

/// A transaction that has locked the log.
async fn locked(pool: &PgPool) -> Result<Transaction<'static, Postgres>, Error> {
    let mut tx = begin(pool).await.map_err(Error::database::<Postgres>)?;
    for lock in [LOCK_WAIT, LOCK] {
        Statement::new(lock).execute::<Postgres>(&mut tx).await.map_err(Error::database::<Postgres>)?;
    }
    Ok(tx)
}
