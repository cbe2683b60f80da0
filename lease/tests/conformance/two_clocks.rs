//! L11: clients whose wall clocks are three minutes apart.

mod doubles;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use leastlock_lease::{Acquire, CorrectnessLease, Error, FencedStore, Hold, LeaseSql, Leases, Released, SqlLeaseStore};
use leastlock_testkit::TestEngine;
use leastlock_testkit::process::{Child, child_role, hear, speak};
use sqlx::Pool;

use crate::rig::{Rig, Sql};
use crate::world::{LIMIT, LONG, fixed, leases, lock};
use doubles::{FREE, ROW, TABLE, take, unix_ms};

const CLIENT: &str = "two_clocks::client";
const STORE: &str = "LEASTLOCK_TEST_STORE";
const URL: &str = "LEASTLOCK_TEST_URL";
const SKEW: &str = "LEASTLOCK_TEST_SKEW_S";
/// Further apart than the lock is held.
const APART_S: i64 = 180;
/// About as short as each server has it.
const SHORT: Duration = Duration::from_secs(2);

/// A rig whose store another process finds.
trait Shared: Rig {
    /// Kind, and where: for [`client`].
    fn whereabouts(&self) -> String;
}

impl<DB: TestEngine + LeaseSql> Shared for Sql<DB> {
    fn whereabouts(&self) -> String {
        "sql".to_owned()
    }
}

#[cfg(all(feature = "redis", feature = "sqlite"))]
impl Shared for crate::rig::Redis {
    fn whereabouts(&self) -> String {
        format!("redis {}", self.address())
    }
}

#[cfg(all(feature = "etcd", feature = "sqlite"))]
impl Shared for crate::rig::Etcd {
    fn whereabouts(&self) -> String {
        format!("etcd {}", self.address())
    }
}

#[cfg(all(feature = "zookeeper", feature = "sqlite"))]
impl Shared for crate::rig::ZooKeeper {
    fn whereabouts(&self) -> String {
        format!("zookeeper {}", self.address())
    }
}

/// The child, by its own clock: takes the lock, or the double's, when it is told to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client() {
    if !child_role(CLIENT) {
        return;
    }
    let url = std::env::var(URL).unwrap();
    match url.split_once(':').unwrap().0 {
        #[cfg(feature = "sqlite")]
        "sqlite" => serve_on::<sqlx::Sqlite>(&url).await,
        #[cfg(feature = "postgres")]
        "postgres" => serve_on::<sqlx::Postgres>(&url).await,
        #[cfg(feature = "mysql")]
        "mysql" => serve_on::<sqlx::MySql>(&url).await,
        other => panic!("{other}"),
    }
}

async fn serve_on<DB: TestEngine + LeaseSql>(url: &str) {
    let pool = DB::connect(url).await;
    let whereabouts = std::env::var(STORE).unwrap();
    match &whereabouts.split(' ').collect::<Vec<_>>()[..] {
        ["sql"] => serve(SqlLeaseStore::new(&pool), &pool).await,
        #[cfg(all(feature = "redis", feature = "sqlite"))]
        ["redis", url, namespace] => {
            let client = ::redis::Client::open(*url).unwrap();
            serve(leastlock_lease::RedisLeaseStore::new(client).namespace(*namespace), &pool).await;
        }
        #[cfg(all(feature = "etcd", feature = "sqlite"))]
        ["etcd", endpoint, namespace] => {
            let store = leastlock_lease::EtcdLeaseStore::new([*endpoint], etcd_client::ConnectOptions::new());
            serve(store.namespace(*namespace), &pool).await;
        }
        #[cfg(all(feature = "zookeeper", feature = "sqlite"))]
        ["zookeeper", cluster, root] => {
            let connector = zookeeper_client::Client::connector().with_session_timeout(SHORT);
            serve(leastlock_lease::ZooKeeperLeaseStore::new(*cluster, connector).root(*root), &pool).await;
        }
        other => panic!("{other:?}"),
    }
}

async fn serve<S: FencedStore, DB: TestEngine>(store: S, pool: &Pool<DB>) {
    let (leases, mut lease) = (Leases::new(store), None);
    speak(format_args!("clock {}", unix_ms()));
    while let Some(line) = hear() {
        match &*line {
            "take" => lease = say(try_to_take(&leases, fixed()).await),
            "take for short" => lease = say(try_to_take(&leases, Hold::fixed(SHORT)).await),
            "give back" => {
                let released = lease.take().map(CorrectnessLease::release).expect("it holds the lock").await;
                speak(format_args!("{released:?}"));
            }
            "take by own clock" => speak(format_args!("granted: {}", take(pool, LONG).await)),
            other => panic!("{other}"),
        }
    }
}

fn say(lease: Option<CorrectnessLease>) -> Option<CorrectnessLease> {
    speak(format_args!("granted: {}", lease.is_some()));
    lease
}

async fn try_to_take<S: FencedStore>(leases: &Leases<S>, hold: Hold) -> Option<CorrectnessLease> {
    match leases.acquire_with(&lock(), hold, Acquire::fail_fast()).await {
        Ok(lease) => Some(lease),
        Err(Error::Held { .. }) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// A library that is loaded before libc, for the child.
fn skew_library(folder: &Path) -> String {
    let (library, source) = (folder.join("skew.so"), folder.join("skew.c"));
    std::fs::write(&source, include_str!("two_clocks/skew.c")).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("a C compiler, as the linker of Rust's programs is").success());
    library.to_str().unwrap().to_owned()
}

struct Client(Child);

impl Client {
    fn start<R: Shared>(rig: &R, library: &str, skew_s: i64) -> Self {
        let environment = [
            ("LD_PRELOAD", library),
            (SKEW, &skew_s.to_string()),
            (STORE, &rig.whereabouts()),
            (URL, &rig.database().url),
        ];
        let mut child = Child::rerun(CLIENT, &environment);
        let clock = child.line_containing("clock ", LIMIT);
        let clock: i64 = clock.trim_start_matches("clock ").parse().unwrap();
        let apart_s = (clock - unix_ms()) / 1000;
        assert!((apart_s - skew_s).abs() <= LIMIT.as_secs().cast_signed(), "its clock is {apart_s} s off");
        Self(child)
    }

    /// Whether it was granted what it was told to take.
    fn takes(&mut self, how: &str) -> bool {
        self.0.send_line(how);
        self.0.line_containing("granted: ", LIMIT).contains("true")
    }
}

mod suite {
    use super::*;

    pub(super) async fn l11_clocks_three_minutes_apart_make_no_second_owner<R: Shared>(rig: R) {
        let folder = tempfile::tempdir().unwrap();
        let library = skew_library(folder.path());
        for statement in [TABLE, ROW] {
            rig.database().execute(statement).await;
        }
        for skew_s in [APART_S, -APART_S] {
            let (mut client, leases) = (Client::start(&rig, &library, skew_s), leases(&rig));

            // Whoever comes first holds it, whichever clock is ahead.
            let here = try_to_take(&leases, fixed()).await.expect("the lock is free");
            assert!(!client.takes("take"), "{skew_s} s off, it takes what is held");
            assert_eq!(here.release().await, Released::Released);
            assert!(client.takes("take"));
            assert!(try_to_take(&leases, fixed()).await.is_none(), "what it holds is taken from {skew_s} s off");
            client.0.send_line("give back");
            client.0.line_containing("Released", LIMIT);

            // The double goes by the client's clock: one that is ahead takes what is held, one that is behind holds what is free.
            let pool = &rig.database().pool;
            let two_owners = if skew_s > 0 {
                assert!(take(pool, LONG).await, "it is free");
                client.takes("take by own clock")
            } else {
                assert!(client.takes("take by own clock"), "it is free");
                take(pool, LONG).await
            };
            assert!(two_owners, "the double lets two in");
            rig.database().execute(FREE).await;

            // What a clock that is ahead leaves behind ends by its TTL, and not three minutes later.
            if skew_s > 0 {
                assert!(client.takes("take for short"));
                client.0.kill();
                let policy = Acquire::waiting(LIMIT);
                let next = leases.acquire_with(&lock(), fixed(), policy).await.expect("its TTL is over");
                assert_eq!(next.release().await, Released::Released);
            }
        }
    }
}

crate::rig::mount!(suite: l11_clocks_three_minutes_apart_make_no_second_owner);
