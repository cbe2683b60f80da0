//! What is logged, and what never is.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use leastlock_lease::{Acquire, Error, Fence, Hold, OwnerNonce};
use sqlx::Sqlite;
use tracing_subscriber::fmt::MakeWriter;

use crate::rig::{Rig, Sql};
use crate::world::{LIMIT, LONG, leases, lock};

#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

const EVENTS: [&str; 3] = ["lease acquired", "late write refused", "lease released"];

#[tokio::test(flavor = "current_thread")]
async fn lease_events_name_lock_token_and_a_hash_of_the_owner() {
    let deadline = Instant::now() + LIMIT;
    let (owner, text) = loop {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false);
        let default = tracing::subscriber::set_default(subscriber.with_max_level(tracing::Level::DEBUG).finish());
        let owner = refuse_a_late_write().await;
        drop(default);
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        // A line that another test's thread comes to for the first time meanwhile is not heard of, until somebody else listens.
        let is_heard = |event| text.lines().any(|line| line.contains(event) && line.contains(&owner.to_string()));
        if EVENTS.into_iter().all(is_heard) || Instant::now() > deadline {
            break (owner, text);
        }
    };
    let own: Vec<&str> = text.lines().filter(|line| line.contains("leastlock_lease:")).collect();
    for event in EVENTS {
        let line = own.iter().find(|line| line.contains(event) && line.contains(&owner.to_string()));
        let line = line.unwrap_or_else(|| panic!("{event} is not in {own:#?}"));
        assert!(line.contains(" INFO "), "{line}");
        assert!(line.contains("lock=report:tenant-7:2026-09"), "{line}");
        assert!(line.contains("token=1") && line.contains("job=\"job-16\""), "{line}");
    }
    let nonce = format!("{:x}", u128::from_be_bytes(*owner.as_bytes()));
    assert!(!text.to_lowercase().contains(&nonce) && !text.contains(&format!("{:?}", owner.as_bytes())));
    assert!(own.iter().all(|line| line.contains(" INFO ")), "{own:#?}");
}

/// One acquires, another takes over and seals, and the first is refused and releases; answers who the first was.
async fn refuse_a_late_write() -> OwnerNonce {
    let rig = Sql::<Sqlite>::create().await;
    // An event that another test's thread met first, just as this subscriber came, may have been noted as of no interest to anybody.
    tracing::callsite::rebuild_interest_cache();
    let database = rig.database();
    let (leases, fence) = (leases(&rig), Fence::new("report").unwrap());
    let policy = Acquire::default().job("job-16");
    let late = leases.acquire_with(&lock(), Hold::fixed(LONG), policy).await.unwrap();
    let owner = *late.permit().unwrap().owner();
    rig.expire().await;
    let new = leases.acquire(&lock(), Hold::fixed(LONG)).await.unwrap();
    fence.seal(&database.pool, &new.permit().unwrap()).await.unwrap();
    let mut tx = database.pool.begin().await.unwrap();
    let refused = fence.check(&mut tx, &late.permit().unwrap()).await;
    assert!(matches!(refused, Err(Error::Refused { .. })));
    drop(tx);
    let _ = late.release().await;
    owner
}
