use leastlock_lease::{EfficiencyLease, Error, Fence, LeaseSql};
use sqlx::Transaction;

async fn unprotected<DB: LeaseSql>(fence: &Fence, tx: &mut Transaction<'_, DB>, lease: &EfficiencyLease) -> Result<(), Error> {
    fence.check(tx, lease).await
}

fn main() {}
