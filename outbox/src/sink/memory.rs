//! Events kept in memory: for tests, examples and doctests.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::{Batch, LoggedEvent, Refusal, Sink};

/// Keeps every event it is given. Clones share what they keep.
#[derive(Debug, Clone)]
pub struct MemorySink {
    events: Arc<Mutex<Vec<LoggedEvent>>>,
    count: Arc<watch::Sender<usize>>,
}

impl Default for MemorySink {
    fn default() -> Self {
        Self { events: Arc::default(), count: Arc::new(watch::Sender::new(0)) }
    }
}

impl MemorySink {
    /// What has been published so far, in order.
    #[must_use]
    pub fn events(&self) -> Vec<LoggedEvent> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until at least `count` events were published, and answers all of them. It waits **for ever** if they never are, as in a
    /// test whose relay has failed: bound it, `tokio::time::timeout(Duration::from_secs(30), sink.wait_for(1))`.
    ///
    /// # Cancel safety
    /// It only waits.
    pub async fn wait_for(&self, count: usize) -> Vec<LoggedEvent> {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.count.subscribe().wait_for(|&published| published >= count).await;
        self.events()
    }
}

impl Sink for MemorySink {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        let mut kept = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(batch.events());
        self.count.send_replace(kept.len());
        batch.published();
    }

    fn abandon(&self) {}
}
