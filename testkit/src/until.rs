//! What has to come to hold, waited for.

use std::time::Duration;

/// Waits until `holds` answers yes; it is asked every 10 ms.
///
/// # Panics
///
/// If that takes longer than `patience`.
pub async fn until(what: &str, patience: Duration, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(patience, waiting)
        .await
        .unwrap_or_else(|_| panic!("within {patience:?} it never came to this: {what}"));
}
