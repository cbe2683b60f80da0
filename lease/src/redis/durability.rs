//! Whether a Redis can lose a write that it has acknowledged.

use std::collections::HashMap;
use std::fmt;

use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisError, Value};

/// What a store asks of its server. Sealed: [`Durable`] and [`AcceptBestEffortToken`].
pub trait Durability: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// Whether the server is asked.
    const CHECKED: bool;
}

/// The server is asked, on every connect, whether it can lose an acknowledged write.
#[derive(Debug, Clone, Copy)]
pub struct Durable(());

/// The caller accepts that a token may be issued again after a crash, a restart or a fail-over of the server.
#[derive(Debug, Clone, Copy)]
pub struct AcceptBestEffortToken(());

impl Durability for Durable {
    const CHECKED: bool = true;
}

impl Durability for AcceptBestEffortToken {
    const CHECKED: bool = false;
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Durable {}
    impl Sealed for super::AcceptBestEffortToken {}
}

/// Why a Redis may issue a token again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undurable {
    /// A setting is not what it must be.
    Setting {
        /// Its name.
        name: &'static str,
        /// What it must be.
        needed: &'static str,
        /// What it is; `None` for a server that has no such setting.
        found: Option<String>,
    },
    /// It follows another server, which may overwrite it.
    Replica,
    /// Replicas follow it. One of them can be promoted before it has heard of the last token.
    HasReplicas,
    /// A Sentinel watches it, and promotes a replica when it sees fit.
    Watched,
    /// It does not let itself be asked.
    Refused {
        /// The command.
        command: &'static str,
        /// What it said.
        reason: String,
    },
}

impl fmt::Display for Undurable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this Redis can lose a token that it has issued: ")?;
        match self {
            Self::Setting { name, needed, found } => {
                write!(f, "{name} must be {needed}, and is {}", found.as_deref().unwrap_or("not there"))?;
            }
            Self::Replica => f.write_str("it is a replica")?,
            Self::HasReplicas => f.write_str("it has replicas, and a promoted one may lack the last token")?,
            Self::Watched => f.write_str("a Sentinel watches it")?,
            Self::Refused { command, reason } => write!(f, "it refuses {command} ({reason}), so nobody knows")?,
        }
        f.write_str("; set it up so, or accept that with RedisLeaseStore::best_effort")
    }
}

impl std::error::Error for Undurable {}

/// What must be set, and to what.
///
/// `everysec` loses the last second in a crash, and so does `no-appendfsync-on-rewrite` while the file is rewritten (Redis
/// manual, "Persistence"). An eviction policy may evict the fence.
const NEEDED: [(&str, &str); 4] = [
    ("appendonly", "yes"),
    ("appendfsync", "always"),
    ("no-appendfsync-on-rewrite", "no"),
    ("maxmemory-policy", "noeviction"),
];

/// The channel on which Sentinels speak to each other through every server that they watch.
const SENTINELS: &str = "__sentinel__:hello";

/// Asks the server. `Err` if it cannot be reached.
pub(super) async fn undurable(connection: &mut MultiplexedConnection) -> Result<Option<Undurable>, RedisError> {
    for (name, needed) in NEEDED {
        let settings = match ask::<HashMap<String, String>>(connection, "CONFIG", &["GET", name]).await? {
            Ok(settings) => settings,
            Err(refused) => return Ok(Some(refused)),
        };
        let found = settings.get(name).cloned();
        if found.as_deref() != Some(needed) {
            return Ok(Some(Undurable::Setting { name, needed, found }));
        }
    }
    let replication = match ask::<String>(connection, "INFO", &["replication"]).await? {
        Ok(replication) => replication,
        Err(refused) => return Ok(Some(refused)),
    };
    let says = |line: &str| replication.lines().any(|found| found.trim_end() == line);
    if !says("role:master") {
        return Ok(Some(Undurable::Replica));
    }
    if !says("connected_slaves:0") {
        return Ok(Some(Undurable::HasReplicas));
    }
    Ok(match ask::<HashMap<String, u64>>(connection, "PUBSUB", &["NUMSUB", SENTINELS]).await? {
        Ok(listeners) if listeners.values().all(|count| *count == 0) => None,
        Ok(_) => Some(Undurable::Watched),
        Err(refused) => Some(refused),
    })
}

/// What the server answers, or that it refuses to.
async fn ask<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &'static str,
    arguments: &[&str],
) -> Result<Result<T, Undurable>, RedisError> {
    match redis::cmd(command).arg(arguments).query_async::<Value>(connection).await {
        Ok(answer) => Ok(Ok(redis::from_redis_value(answer)?)),
        // An answer, as opposed to none; a server that is loading its data will have another one soon.
        Err(error) if error.code().is_some_and(|code| code != "LOADING") => {
            Ok(Err(Undurable::Refused { command, reason: error.to_string() }))
        }
        Err(error) => Err(error),
    }
}
