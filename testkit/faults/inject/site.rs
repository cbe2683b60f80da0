//! What happens to a scenario's database, and so to all its processes.

use leastlock_core::Statement;
use leastlock_testkit::database::{MySql, Postgres};
use sqlx::AssertSqlSafe;

use crate::ground::{Ground, Server};

/// Ends every session of the processes.
pub(super) async fn terminate(ground: &Ground, server: Server) -> anyhow::Result<()> {
    if server == Server::MariaDb {
        let mut connection = ground.database::<MySql>()?.pool.acquire().await?;
        let open = Statement::new(include_str!("../sql/site/open_sessions.sql"));
        for session in open.fetch_all::<MySql>(&mut connection).await? {
            let kill = AssertSqlSafe(format!("KILL CONNECTION {}", session.int(0)?));
            // One that has ended by itself meanwhile is an error.
            let _gone = Statement::new(kill).execute::<MySql>(&mut connection).await;
        }
        return Ok(());
    }
    let mut connection = ground.database::<Postgres>()?.pool.acquire().await?;
    Statement::new(include_str!("../sql/site/terminate.sql")).fetch_all::<Postgres>(&mut connection).await?;
    Ok(())
}

/// Keeps a copy of the locks.
pub(super) async fn copy(ground: &Ground) -> anyhow::Result<()> {
    run(ground, &[include_str!("../sql/site/forget.sql"), include_str!("../sql/site/copy.sql")]).await
}

/// Puts the copy back.
pub(super) async fn restore(ground: &Ground) -> anyhow::Result<()> {
    run(ground, &[include_str!("../sql/site/restore.sql")]).await
}

/// Lets the server's clock be an hour ahead at once, as far as leases can tell.
pub(super) async fn step(ground: &Ground) -> anyhow::Result<()> {
    run(ground, &[include_str!("../sql/site/step.sql")]).await
}

async fn run(ground: &Ground, statements: &[&'static str]) -> anyhow::Result<()> {
    let mut connection = ground.database::<Postgres>()?.pool.acquire().await?;
    for statement in statements {
        Statement::new(*statement).execute::<Postgres>(&mut connection).await?;
    }
    Ok(())
}
