//! At most one thing of a kind under way.

use std::future::{Future, pending};

use futures_util::future::BoxFuture;

/// Room for one future.
pub(super) struct Slot<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> Slot<'a, T> {
    pub(super) fn empty() -> Self {
        Self(None)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn start(&mut self, future: impl Future<Output = T> + Send + 'a) {
        self.0 = Some(Box::pin(future));
    }

    /// Drops what is under way.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// What it comes to; never, if there is nothing. Dropped, it goes on later.
    pub(super) async fn done(&mut self) -> T {
        let Some(future) = &mut self.0 else { return pending().await };
        let output = future.await;
        self.0 = None;
        output
    }
}
