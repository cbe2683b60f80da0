//! The two sessions of a relay: one has the lock that makes it the slot's one reader, and is kept alive by the
//! heartbeat; the other reads. Decoding can take longer than a lease, so a heartbeat cannot share its session.

use std::time::Duration;

use leastlock_core::Statement;
use sqlx::{Pool, Postgres};

use crate::error::Error;
use crate::relay::connection::Lent;
use crate::wal::error::WalError;
use crate::wal::name::SlotName;

const CLAIM: &str = include_str!("../../sql/postgres/wal/claim.sql");
const OWNER: &str = include_str!("../../sql/postgres/wal/owner.sql");
const RENEW: &str = include_str!("../../sql/postgres/wal/renew.sql");
const RELEASE: &str = include_str!("../../sql/postgres/wal/release.sql");
const READER: &str = include_str!("../../sql/postgres/wal/reader.sql");

/// The session that holds the lock. Dropped, it is closed, and the lock is free.
#[derive(Debug)]
pub(super) struct Holder {
    connection: Lent<Postgres>,
    owner: Owner,
}

/// Who holds the lock, and on which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// The number of the session.
    pub(super) session: i64,
    /// When the server started: a server that was promoted instead of it started at another time.
    server: String,
    /// For how long the session may be silent, in milliseconds.
    lease_ms: String,
}

impl Holder {
    /// Takes the lock if it is free, in a session that ends when it is silent for the lease.
    pub(super) async fn claim(
        mut connection: Lent<Postgres>,
        name: &SlotName,
        lease_ms: i64,
    ) -> Result<Option<Self>, Error> {
        let database = Error::database::<Postgres>;
        let lease_ms = lease_ms.to_string();
        let claim = Statement::new(CLAIM).bind(name.as_str()).bind(&lease_ms);
        let row = claim.fetch_one::<Postgres>(&mut connection).await.map_err(database)?;
        if !row.value::<bool>(0).map_err(database)? {
            connection.give_back();
            return Ok(None);
        }
        let (session, server) = (row.int(1).map_err(database)?, row.text(2).map_err(database)?);
        Ok(Some(Self { connection, owner: Owner { session, server, lease_ms } }))
    }

    pub(super) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Whether the session lives, and is still the same.
    pub(super) async fn renew(&mut self) -> Result<bool, Error> {
        let row = Statement::new(RENEW).fetch_one::<Postgres>(&mut self.connection).await;
        let session = row.and_then(|row| row.int(0)).map_err(Error::database::<Postgres>)?;
        Ok(session == self.owner.session)
    }

    /// Gives the lock back, sooner than the end of the session would.
    pub(super) async fn release(mut self, name: &SlotName) -> Result<(), Error> {
        let release = Statement::new(RELEASE).bind(name.as_str());
        release.fetch_one::<Postgres>(&mut self.connection).await.map(drop).map_err(Error::database::<Postgres>)
    }
}

/// The session that holds the lock.
pub(super) async fn owner(connection: &mut sqlx::PgConnection, name: &SlotName) -> Result<Option<i64>, Error> {
    let row = Statement::new(OWNER).bind(name.as_str()).fetch_optional::<Postgres>(connection).await;
    row.and_then(|row| row.map(|row| row.int(0)).transpose()).map_err(Error::database::<Postgres>)
}

/// A session to read with, on the server on which `owner` holds the lock.
pub(super) async fn reader(pool: &Pool<Postgres>, name: &SlotName, owner: &Owner) -> Result<Lent<Postgres>, Error> {
    let mut connection = Lent::from(pool).await?;
    let session_name = name.of_session();
    let reader = Statement::new(READER).bind(&owner.lease_ms).bind(&session_name);
    let row = reader.fetch_one::<Postgres>(&mut connection).await;
    let server = row.and_then(|row| row.text(0)).map_err(Error::database::<Postgres>)?;
    if server == owner.server { Ok(connection) } else { Err(WalError::OtherServer.into()) }
}

/// As long as something took it is not done again, so that at most half of the time is spent on it.
#[derive(Debug, Default)]
pub(super) struct Pause(Option<std::time::Instant>);

impl Pause {
    pub(super) fn after(took: Duration) -> Self {
        Self(std::time::Instant::now().checked_add(took))
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_none_or(|until| std::time::Instant::now() >= until)
    }
}
