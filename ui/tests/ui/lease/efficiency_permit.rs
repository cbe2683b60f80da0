use leastlock_lease::{EfficiencyLease, Error};

async fn permitted(lease: EfficiencyLease) -> Result<(), Error> {
    let _ = lease.permit();
    let _ = lease.token();
    lease.run(async |scope| Ok(drop(scope.permit()?))).await
}

fn main() {
    let _ = permitted;
}
