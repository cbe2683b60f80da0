//! All backends, a line each.

use std::sync::Arc;

use anyhow::bail;
use clap::ValueEnum;
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use leastlock_testkit::{ETCD_ENDPOINTS, ZOOKEEPER_CONNECT};
use serde::{Deserialize, Serialize};

use super::Round;
use super::locks::Locks;
use super::redis::Redis;
use super::sql::Sql;
use super::turn::Turn;
use crate::sheet::Sheet;

/// Behind the first semicolon are those that only meet faults: there are no two commands on them that one would write by hand.
macro_rules! backends {
    (
        $($(#[$doc:meta])* $name:ident: $locks:ty = $label:literal),+ ;
        $($(#[$only_doc:meta])* $only:ident: $variable:ident = $only_label:literal),+ $(,)?
    ) => {
        /// Where the locks are.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
        pub(crate) enum Backend {
            $($(#[$doc])* $name,)+
            $($(#[$only_doc])* $only),+
        }

        impl Backend {
            /// Its name in the report.
            pub(super) const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)+
                    $(Self::$only => $only_label),+
                }
            }

            /// Whether there are two commands to compare with.
            pub(super) const fn is_measured(self) -> bool {
                match self {
                    $(Self::$name => true,)+
                    $(Self::$only => false),+
                }
            }

            /// What there is not, if it cannot be used here.
            pub(super) fn missing(self) -> Option<String> {
                let server = match self {
                    $(Self::$name => <$locks>::SERVER,)+
                    $(Self::$only => Some($variable)),+
                };
                let server = server.filter(|variable| std::env::var_os(variable).is_none())?;
                Some(format!("{} ({server} is not set: eval \"$(scripts/services env)\")", self.label()))
            }

            /// Makes what the locks need.
            pub(super) async fn create(self) -> anyhow::Result<Site> {
                Ok(match self {
                    $(Self::$name => Site::$name(<$locks>::create().await?),)+
                    _ => bail!("{} is not measured, it only meets faults", self.label()),
                })
            }
        }

        /// A backend that is there.
        #[derive(Debug)]
        pub(super) enum Site {
            $($name($locks)),+
        }

        impl Site {
            /// Name and version.
            pub(super) async fn about(&self) -> anyhow::Result<String> {
                match self {
                    $(Self::$name(locks) => locks.about().await),+
                }
            }

            /// Measures the contenders of a round in turn.
            pub(super) async fn hold(&self, round: &Round<'_>, sheet: &mut Sheet) -> anyhow::Result<()> {
                match self {
                    $(Self::$name(locks) => hold(locks, $label, round, sheet).await),+
                }
            }

            /// Removes what was made.
            pub(super) async fn end(self) -> anyhow::Result<()> {
                match self {
                    $(Self::$name(locks) => locks.end().await),+
                }
            }
        }
    };
}

backends! {
    /// PostgreSQL; needs `LEASTLOCK_POSTGRES_URL`.
    Postgres: Sql<Postgres> = "PostgreSQL",
    /// A temporary SQLite file.
    Sqlite: Sql<Sqlite> = "SQLite",
    /// MariaDB; needs `LEASTLOCK_MYSQL_URL`.
    Mariadb: Sql<MySql> = "MariaDB",
    /// The second of the Redis that `LEASTLOCK_REDIS_URLS` names.
    Redis: Redis = "Redis" ;
    /// etcd, for `pauses` and `cuts` only; needs `LEASTLOCK_ETCD_ENDPOINTS`.
    Etcd: ETCD_ENDPOINTS = "etcd",
    /// ZooKeeper, for `pauses` and `cuts` only; needs `LEASTLOCK_ZOOKEEPER_CONNECT`.
    Zookeeper: ZOOKEEPER_CONNECT = "ZooKeeper",
}

async fn hold<L: Locks>(locks: &L, label: &str, round: &Round<'_>, sheet: &mut Sheet) -> anyhow::Result<()> {
    let Round { part, clients, options, progress, .. } = *round;
    let noun = if clients == 1 { "client" } else { "clients" };
    let setting = format!("{label}, {clients} {noun}");
    let driver = Arc::new(locks.open(clients).await?);
    for way in options.running(part.ways()) {
        let turn = Turn { locks, driver: &driver, way, part, clients, time: options.common.seconds };
        let place = || format!("{}, {setting}, {}", part.name(), way.name());
        let measured = anyhow::Context::with_context(turn.run().await, place)?;
        progress.turn_ended(&format!("{}: {:.0} cycles/s", place(), measured.per_second));
        if !round.warms_up {
            sheet.note(&setting, way.name(), measured.figures(part));
        }
    }
    locks.close(driver).await
}
