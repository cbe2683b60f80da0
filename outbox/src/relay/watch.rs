//! Reads now and then how far publishing is behind, for the gauges.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::metrics;
use crate::relay::connection::within;
use crate::relay::log::Log;

/// How often it is read.
const EVERY: Duration = Duration::from_secs(10);
/// What reading it may take. A gauge that is not set stays what it was.
const LIMIT: Duration = Duration::from_secs(2);

pub(super) async fn until(stop: CancellationToken, log: Arc<impl Log>) {
    let watching = async {
        loop {
            match within(LIMIT, "the lag", log.lag()).await {
                Ok(Some(lag)) => metrics::lag(&lag),
                Ok(None) => return,
                Err(error) => tracing::debug!(%error, "the outbox's lag was not read"),
            }
            tokio::time::sleep(EVERY).await;
        }
    };
    stop.run_until_cancelled(watching).await;
}
