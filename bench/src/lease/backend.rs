//! All backends, a line each.

use std::sync::Arc;

use clap::ValueEnum;
use leastlock_lease::{LeaseStore, Order};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use serde::{Deserialize, Serialize};

use super::Round;
use super::etcd::Etcd;
use super::locks::Locks;
use super::redis::Redis;
use super::sql::Sql;
use super::turn::Turn;
use super::zookeeper::ZooKeeper;
use crate::sheet::Sheet;

macro_rules! backends {
    ($($(#[$doc:meta])* $name:ident: $locks:ty = $label:literal),+ $(,)?) => {
        /// Where the locks are.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
        pub(crate) enum Backend {
            $($(#[$doc])* $name),+
        }

        impl Backend {
            /// Its name in the report.
            pub(super) const fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label),+
                }
            }

            /// Whether those that wait come in their turn.
            pub(super) fn is_fair(self) -> bool {
                match self {
                    $(Self::$name => <$locks as Locks>::Store::CAPABILITIES.order == Order::Fifo),+
                }
            }

            /// What there is not, if it cannot be used here.
            pub(super) fn missing(self) -> Option<String> {
                let server = match self {
                    $(Self::$name => <$locks>::SERVER),+
                };
                let server = server.filter(|variable| std::env::var_os(variable).is_none())?;
                Some(format!("{} ({server} is not set: eval \"$(scripts/services env)\")", self.label()))
            }

            /// Makes what the locks need.
            pub(super) async fn create(self) -> anyhow::Result<Site> {
                Ok(match self {
                    $(Self::$name => Site::$name(<$locks>::create().await?)),+
                })
            }
        }

        /// A backend that is there.
        #[derive(Debug)]
        #[expect(clippy::large_enum_variant, reason = "there is one in a run")]
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
    Redis: Redis = "Redis",
    /// The first etcd that `LEASTLOCK_ETCD_ENDPOINTS` names.
    Etcd: Etcd = "etcd",
    /// The first ZooKeeper that `LEASTLOCK_ZOOKEEPER_CONNECT` names.
    Zookeeper: ZooKeeper = "ZooKeeper",
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
