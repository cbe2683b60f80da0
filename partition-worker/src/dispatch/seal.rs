//! Sealing what Kafka has assigned.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::{Dispatch, Unit};
use crate::assignment::Grant;
use crate::partition::TopicPartition;
use crate::polling::Order;

/// Seals that run at the same time. Each takes a connection, and one more while it waits.
const AT_A_TIME: usize = 4;

impl<U: Unit> Dispatch<U> {
    /// Seals the partitions of an assignment, and tells the polling thread of each. It is told nothing of a partition that was
    /// taken away meanwhile.
    pub(super) async fn seal_all(self: Arc<Self>, grant: Grant, partitions: Vec<(TopicPartition, CancellationToken)>) {
        let seals = stream::iter(partitions).map(|(partition, cancel)| {
            let this = &self;
            async move {
                let sealed = tokio::select! {
                    biased;
                    () = cancel.cancelled() => return,
                    sealed = this.unit.seal(&partition) => sealed,
                };
                match sealed {
                    Ok(start) => this.order(Order::Sealed { grant, partition, start }),
                    Err(error) => this.fail(error),
                }
            }
        });
        seals.buffer_unordered(AT_A_TIME).for_each(|()| async {}).await;
    }
}
