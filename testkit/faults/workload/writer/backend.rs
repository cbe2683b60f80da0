//! Where the locks are, where the shelf is, and what may happen in between.

use std::ops::Range;
use std::time::Duration;

use sqlx::Pool;

use super::holder::{CHECKED, LAST_MOMENT, PERMITTED, SEALED, WRITTEN};
use super::recorded::{ACQUIRING, RENEWING};
use super::shelf::Shelves;
use crate::ground::Server;
use crate::inject::Blow;
use crate::part::Part;
use crate::workload::Choice;

/// Where the locks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    Postgres,
    Sqlite,
    MariaDb,
    Redis,
    Etcd,
    ZooKeeper,
    /// Its lock table is restored from an older copy again and again, and its clock is stepped: there are two holders then.
    PostgresRestored,
}

pub(super) const ALL: [Backend; 7] = [
    Backend::Postgres,
    Backend::Sqlite,
    Backend::MariaDb,
    Backend::Redis,
    Backend::Etcd,
    Backend::ZooKeeper,
    Backend::PostgresRestored,
];

impl Backend {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "writer/postgres",
            Self::Sqlite => "writer/sqlite",
            Self::MariaDb => "writer/mariadb",
            Self::Redis => "writer/redis",
            Self::Etcd => "writer/etcd",
            Self::ZooKeeper => "writer/zookeeper",
            Self::PostgresRestored => "writer/postgres-restored",
        }
    }

    /// Where the locks are.
    pub(super) const fn store(self) -> Server {
        match self {
            Self::Postgres | Self::PostgresRestored => Server::Postgres,
            Self::Sqlite => Server::Sqlite,
            Self::MariaDb => Server::MariaDb,
            Self::Redis => Server::Redis,
            Self::Etcd => Server::Etcd,
            Self::ZooKeeper => Server::ZooKeeper,
        }
    }

    /// Where the shelf is.
    pub(super) const fn resource(self) -> Server {
        match self {
            Self::Sqlite => Server::Sqlite,
            Self::MariaDb => Server::MariaDb,
            _ => Server::Postgres,
        }
    }

    /// How many batches a writer writes at once. Many where a seal has to get past them.
    pub(super) const fn lanes(self) -> usize {
        match self {
            Self::Redis => 12,
            Self::Sqlite => 1,
            _ => 3,
        }
    }

    /// How long a checked transaction has something else to do before it writes, in milliseconds: long where they are to overlap
    /// without a gap, so that a seal that only waits for all of them starves.
    pub(super) const fn work_ms(self) -> Range<u64> {
        match self {
            Self::Redis => 20..60,
            _ => 0..2,
        }
    }

    /// How long a writer goes on before it gives the lease back. Longer where others are to starve for as long.
    pub(super) const fn turn(self) -> Duration {
        match self {
            Self::Redis => Duration::from_secs(15),
            _ => Duration::from_secs(4),
        }
    }

    /// Whether its lock is one: a store that was restored is not.
    pub(super) fn keeps_its_word(self) -> bool {
        self != Self::PostgresRestored
    }

    pub(super) fn menu(self) -> Vec<Choice> {
        let mut menu = vec![
            Choice::any(Blow::Kill, 1..2),
            Choice::any(Blow::Kill, 1..2),
            Choice::any(Blow::KillAt(ACQUIRING), 500..1_500),
            Choice::any(Blow::KillAt(RENEWING), 500..1_500),
            Choice::any(Blow::KillAt(SEALED), 500..1_500),
            Choice::any(Blow::KillAt(CHECKED), 500..1_500),
            Choice::any(Blow::KillAt(WRITTEN), 500..1_500),
            Choice::any(Blow::StopAt(PERMITTED), 2_500..6_000),
            Choice::any(Blow::StopAt(RENEWING), 2_500..6_000),
            Choice::any(Blow::StopAt(ACQUIRING), 2_500..6_000),
            Choice::any(Blow::StopAt(SEALED), 2_500..6_000),
            Choice::any(Blow::StopAt(LAST_MOMENT), 4_000..10_000),
        ];
        if self == Self::Sqlite {
            // Whoever is stopped in a transaction stops all others at the file: only at points outside of one.
            return menu;
        }
        menu.extend([
            Choice::any(Blow::Stop, 500..1_500),
            Choice::any(Blow::Stop, 2_500..6_000),
            Choice::any(Blow::StopAt(CHECKED), 2_500..6_000),
            Choice::any(Blow::StopAt(WRITTEN), 2_500..6_000),
        ]);
        let (store, resource) = (self.store(), self.resource());
        menu.extend([
            Choice::any(Blow::Delay(store), 500..3_000),
            Choice::any(Blow::BlackHole(store), 1_000..6_000),
            Choice::any(Blow::Believe(store), 2_500..6_000),
            Choice::any(Blow::Mute(store), 1_000..6_000),
            Choice::any(Blow::Cut(store), 200..4_000),
        ]);
        if self == Self::Redis {
            // Here it is shown that a seal gets through: the way to the shelf is left alone.
            return menu;
        }
        menu.extend([
            Choice::any(Blow::SwallowCommit(resource), 500..2_000),
            Choice::any(Blow::LoseCommit(resource), 500..2_000),
        ]);
        if store == resource {
            menu.push(Choice::any(Blow::Swallow(store, "UPDATE leastlock_lease"), 500..2_000));
            menu.push(Choice::any(Blow::Terminate(store), 1..2));
        } else {
            menu.push(Choice::any(Blow::BlackHole(resource), 1_000..6_000));
        }
        if self == Self::PostgresRestored {
            menu.extend((0..6).map(|_| Choice::any(Blow::Restore, 1_500..5_000)));
            menu.extend((0..3).map(|_| Choice::any(Blow::StepServer, 1..2)));
        }
        menu
    }
}

/// Connections to the database in which the shelf is.
pub(super) fn pool<DB: Shelves>(part: &Part, connections: u32) -> anyhow::Result<Pool<DB>> {
    DB::lazy(part.address(DB::SERVER)?, connections)
}
