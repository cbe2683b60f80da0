//! Ways to run work under a lease that make the classic mistakes.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use leastlock_lease::{CorrectnessLease, Error, WorkError};
use tokio_util::sync::CancellationToken;

use crate::wire::Control;

/// Keeps the lease renewed while cancelled work goes on.
pub(crate) async fn goes_on_renewing(lease: CorrectnessLease, cancel: CancellationToken, control: Arc<Control>) {
    cancel.cancelled().await;
    let before = control.count("renewal sent");
    control.reached("renewal sent", before + 1).await;
    drop(lease);
}

/// Hands the lease to a task that nobody ends.
pub(crate) async fn detached(lease: CorrectnessLease) {
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_mins(10)).await;
        drop(lease);
    });
    std::future::pending::<()>().await;
}

/// Disarms the lease, and sees to its end only once the work has begun.
pub(crate) async fn guards_its_work_too_late<Fut>(
    lease: CorrectnessLease,
    work: impl FnOnce() -> Fut,
) -> Result<(), Error>
where
    Fut: Future<Output = Result<(), WorkError>>,
{
    let disarmed = ManuallyDrop::new(lease);
    let begun = work();
    ManuallyDrop::into_inner(disarmed).run(async |_| begun.await).await
}
