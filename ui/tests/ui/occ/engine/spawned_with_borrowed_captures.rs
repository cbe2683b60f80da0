use leastlock_occ::{Attempt, Error, Retry, RetryError};

async fn pay(pool: sqlx::PgPool, id: String) -> Result<usize, RetryError<Error>> {
    let work = async |attempt: Attempt<sqlx::Postgres>| attempt.commit(id.len()).await;
    Retry::default().run(&pool, work).await
}

fn spawn(pool: sqlx::PgPool, id: String) {
    tokio::spawn(pay(pool, id));
}

fn main() {}
