//! MySQL and MariaDB, behind the feature `mysql`.

use std::str::FromStr;

use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{MySql, Pool};

use crate::engine::{Engine, MOST_CONNECTIONS, QUEUE, reach};

impl Engine for MySql {
    /// The one of the two that is tested.
    const CALLED: &'static str = "MariaDB";

    const READ_LOCKED: &'static str = "SELECT units FROM stock_example WHERE code = ? FOR UPDATE";

    async fn open(url: &str, clients: u32) -> Result<Pool<Self>, sqlx::Error> {
        let options = MySqlConnectOptions::from_str(url)?;
        reach(&options).await?;
        let pool = MySqlPoolOptions::new().max_connections(clients.min(MOST_CONNECTIONS)).test_before_acquire(false);
        pool.acquire_timeout(QUEUE).connect_with(options).await
    }
}
