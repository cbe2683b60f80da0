use leastlock_occ::{Error, guarded};

async fn delete_one(connection: &mut sqlx::SqliteConnection) -> Result<(), Error> {
    let _ = guarded(sqlx::query::<sqlx::Sqlite>("DELETE FROM stock")).exactly(1).execute(connection).await?;
    Ok(())
}

fn main() {}
