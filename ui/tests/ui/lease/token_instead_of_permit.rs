use leastlock_lease::{Error, Fence, FencingToken, LeaseSql};
use sqlx::Transaction;

async fn unprotected<DB: LeaseSql>(fence: &Fence, tx: &mut Transaction<'_, DB>, token: FencingToken) -> Result<(), Error> {
    fence.check(tx, &token).await
}

fn main() {}
