use leastlock_occ::{Error, guarded};

async fn delete_one(connection: &mut sqlx::PgConnection) -> Result<(), Error> {
    let _ = guarded(sqlx::query::<sqlx::Postgres>("DELETE FROM stock")).exactly(1).execute(connection).await?;
    Ok(())
}

fn main() {}
