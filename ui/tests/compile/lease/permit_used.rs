use leastlock_core::Dialect;
use leastlock_lease::{CorrectnessLease, Error, Fence, LeaseSql, Permit};
use sqlx::{Pool, Transaction};

fn issued(lease: &CorrectnessLease) -> Result<Permit, Error> {
    lease.permit()
}

async fn protected<DB: Dialect + LeaseSql>(
    fence: Fence,
    pool: Pool<DB>,
    mut tx: Transaction<'static, DB>,
    permit: Permit,
) {
    fence.seal(&pool, &permit).await.unwrap();
    fence.check(&mut tx, &permit).await.unwrap();
}
