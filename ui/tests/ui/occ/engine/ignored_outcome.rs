#![deny(unused_must_use)]

use leastlock_occ::{Error, guarded};

async fn delete_one(connection: &mut sqlx::PgConnection) -> Result<(), Error> {
    guarded(sqlx::query("DELETE FROM stock")).execute(connection).await?;
    Ok(())
}

fn main() {}
