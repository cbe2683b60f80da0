//! The polling thread ends with the runtime that the worker ran on. In a file of its own, since it looks at the threads of
//! its process.
#![cfg(all(feature = "kafka", feature = "sqlite", target_os = "linux"))]

use std::time::Instant;

use leastlock_testkit::TestDatabase;
use sqlx::Sqlite;

use crate::rig::{LIMIT, Rig, Told, start};

#[allow(dead_code, reason = "this file needs a part of it")]
#[path = "worker/rig.rs"]
mod rig;

fn polling_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux lists the threads");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "leastlock-poll").count()
}

#[test]
fn the_polling_thread_ends_with_its_runtime() {
    let keeper = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let rig = keeper.block_on(async { Rig::<Sqlite>::new(TestDatabase::create().await, 1).await });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let _worker = runtime.block_on(async {
        rig.produce(&["85123A"], 1..=3).await;
        let worker = start(rig.builder(), Told::plain("worker"));
        rig.effects(3).await;
        worker
    });
    assert_eq!(polling_threads(), 1);
    drop(runtime);
    let deadline = Instant::now() + LIMIT;
    while polling_threads() > 0 {
        assert!(Instant::now() < deadline, "the thread goes on without a runtime");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let _entered = keeper.enter();
    drop(rig);
}
